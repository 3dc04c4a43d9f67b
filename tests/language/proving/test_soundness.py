"""Soundness of forks and joins: one small net for each finding, and its sound twin."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.net.net import Net, Transition
from noetl.net.routing import Admission, AdmitRule, Join
from noetl.templates.values import Authored
from tests.language.proving.nets import arc, net, step
from tests.language.proving.proving import codes, proof

DONE = "{{ event.name == 'step.done' }}"
FAILED = "{{ event.name == 'step.failed' }}"


CROSSED = net(
    step("start", arc("a"), arc("b"), fork=True),
    step("a", arc("left")),
    step("b", arc("right")),
    step("left", join="all"),
    step("right", join="all"),
)
MET = net(
    step("start", arc("a"), arc("b"), fork=True),
    step("a", arc("merge")),
    step("b", arc("merge")),
    step("merge", join="all"),
)


def diamond(join: Join | str | int | None, *, second: Transition | None = None, **merge: Any) -> Net:
    return net(
        step("start", arc("a"), arc("b"), fork=True),
        step("a", arc("merge")),
        second or step("b", arc("merge")),
        step("merge", join=join, **merge),
    )


@pytest.mark.req("ADV-06", "ROUTE-11")
def test_a_fork_with_one_join_is_sound() -> None:
    certificate = proof(MET)

    assert certificate.verdict == "sound"
    assert certificate.findings == ()


@pytest.mark.req("ADV-06")
def test_two_joins_that_wait_for_each_other_are_a_deadlock() -> None:
    certificate = proof(CROSSED)

    assert certificate.verdict == "unsound"
    [finding] = certificate.findings
    assert finding.code == "W_DEADLOCK"
    assert '"left" and "right"' in finding.message
    assert finding.witness == (
        "start -> a, b",
        "a -> left",
        "b -> right",
        "left waits for the token held at right",
        "right waits for the token held at left",
    )


@pytest.mark.req("ADV-06")
def test_a_witness_can_be_replayed_as_moving_tokens() -> None:
    [witness] = proof(CROSSED).witnesses

    assert [move.tokens for move in witness.moves][:3] == [("a", "b"), ("b", "left"), ("left", "right")]
    assert witness.moves[0].step == "start"
    assert witness.moves[0].arcs == ("steps/start/arcs/0", "steps/start/arcs/1")


@pytest.mark.req("ADV-06", "ROUTE-11")
@pytest.mark.parametrize("mode", ["any", "active"])
def test_a_join_that_does_not_wait_for_all_cannot_deadlock(mode: str) -> None:
    crossed = net(
        step("start", arc("a"), arc("b"), fork=True),
        step("a", arc("left")),
        step("b", arc("right")),
        step("left", join=mode),
        step("right", join=mode),
    )

    assert codes(crossed) == []


@pytest.mark.req("ADV-06")
@pytest.mark.parametrize(("count", "found"), [(2, []), (3, ["W_JOIN_UNFILLED"])])
def test_a_counting_join_needs_as_many_tokens_as_the_fork_sends(count: int, found: list[str]) -> None:
    assert codes(diamond(count)) == found


@pytest.mark.req("ADV-06")
@pytest.mark.parametrize(("tokens", "found"), [(3, []), (2, ["W_JOIN_UNFILLED"])])
def test_several_tokens_of_one_arc_are_counted(tokens: int, found: list[str]) -> None:
    split = net(step("start", arc("work", tokens=tokens)), step("work", arc("merge")), step("merge", join=3))

    assert codes(split) == found


@pytest.mark.req("ADV-06")
def test_a_branch_that_may_send_no_token_can_leave_a_counting_join_unfilled() -> None:
    optional = net(
        step("start", arc("a"), arc("b"), arc("c", "{{ workload.c }}"), fork=True),
        *(step(name, arc("merge")) for name in "abc"),
        step("merge", join=3),
    )

    [finding] = proof(optional).findings
    assert finding.code == "W_JOIN_UNFILLED"
    assert "waits for 3 tokens, but a fork can send it only 2" in finding.message


@pytest.mark.req("ADV-06")
def test_a_single_token_passes_a_counting_join() -> None:
    """One arc of an inclusive router opens no group (O-01)."""
    assert codes(net(step("start", arc("merge")), step("merge", join=5))) == []


@pytest.mark.req("ADV-06")
def test_a_token_that_ends_next_to_the_join_is_reported() -> None:
    aside = net(
        step("start", arc("a"), arc("b"), fork=True),
        step("a", arc("merge")),
        step("b", arc("aside")),
        step("merge", join="all"),
        step("aside"),
    )

    certificate = proof(aside)

    [finding] = certificate.findings
    assert finding.code == "W_TOKEN_LEFT"
    assert 'can end at "aside" while its siblings wait at "merge"' in finding.message
    assert "join: active" in finding.hint
    assert finding.witness[-1] == "merge runs without the token that ended at aside"
    assert certificate.verdict == "unsound"


@pytest.mark.req("ADV-06", "ROUTE-11")
def test_join_active_allows_a_branch_to_end_elsewhere() -> None:
    aside = net(
        step("start", arc("a"), arc("b"), fork=True),
        step("a", arc("merge")),
        step("b", arc("aside")),
        step("merge", join="active"),
        step("aside"),
    )

    assert codes(aside) == []


@pytest.mark.req("ROUTE-11")
def test_a_branch_that_admission_may_deny_is_not_reported() -> None:
    """A branch that ended early does not block the join, and F-R-JOIN counts on it."""
    gate = Admission(rules=(AdmitRule(when=Authored("{{ workload.go }}"), allow=True), AdmitRule(allow=False)))

    assert codes(diamond("all", second=step("b", arc("merge"), admission=gate))) == []


@pytest.mark.req("ADV-06", "ROUTE-05")
def test_an_unhandled_failure_is_not_unsound_but_a_routed_one_is_followed() -> None:
    plain = diamond("all", second=step("b", arc("merge", DONE)))
    routed = net(
        step("start", arc("a"), arc("b"), fork=True),
        step("a", arc("merge")),
        step("b", arc("merge", DONE), arc("fix", FAILED)),
        step("fix"),
        step("merge", join="all"),
    )

    assert codes(plain) == []
    assert codes(routed) == ["W_TOKEN_LEFT"]


@pytest.mark.req("ADV-06")
@pytest.mark.parametrize(
    ("guards", "found"),
    [
        (("{{ ctx.n > 5 }}", "{{ ctx.n <= 5 }}"), []),
        (("{{ ctx.n > 5 }}", "{{ ctx.n < 5 }}"), ["W_TOKEN_LEFT"]),
        (("{{ workload.ok }}", "{{ not workload.ok }}"), []),
        (("{{ workload.ok }}", "{{ workload.go }}"), ["W_TOKEN_LEFT"]),
        (("{{ workload.k == 'a' }}", "{{ workload.k != 'a' }}"), []),
    ],
)
def test_complementary_guards_leave_no_token_behind(guards: tuple[str, str], found: list[str]) -> None:
    branch = step("b", *(arc("merge", guard) for guard in guards))
    proved = proof(
        net(step("start", arc("a"), arc("b"), fork=True), step("a", arc("merge")), branch, MET.transitions[3])
    )

    assert [f.code for f in proved.findings if f.code == "W_TOKEN_LEFT"] == found


@pytest.mark.req("ADV-06")
def test_mutually_exclusive_guards_never_fork() -> None:
    either = net(
        step("start", arc("a", "{{ workload.x }}"), arc("b", "{{ not workload.x }}"), fork=True),
        step("a", arc("left")),
        step("b", arc("right")),
        step("left", join="all"),
        step("right", join="all"),
    )

    assert codes(either) == []


@pytest.mark.req("ADV-06")
def test_a_nested_fork_must_join_before_the_outer_join() -> None:
    """The inner group joins first and its token passes on, so that the outer join runs without it."""
    shared = net(
        step("start", arc("a"), arc("b"), fork=True),
        step("a", arc("merge")),
        step("b", arc("c"), arc("d"), fork=True),
        step("c", arc("merge")),
        step("d", arc("merge")),
        step("merge", join="all"),
    )
    nested = net(
        *shared.transitions[:3],
        step("c", arc("inner")),
        step("d", arc("inner")),
        step("inner", arc("merge"), join="all"),
        step("merge", join="all"),
    )

    assert codes(shared) == ["W_TOKEN_LEFT"]
    assert codes(nested) == []


@pytest.mark.req("ADV-06", "ROUTE-11")
def test_a_nested_fork_that_may_send_one_token_blocks_the_outer_join() -> None:
    """One arc alone opens no group (O-01), so its token waits at the inner join for the tokens of the outer fork."""

    def nested(guard: str | None) -> Net:
        return net(
            step("start", arc("a"), arc("b"), fork=True),
            step("a", arc("merge")),
            step("b", arc("c"), arc("d", guard), fork=True),
            step("c", arc("inner")),
            step("d", arc("inner")),
            step("inner", arc("merge"), join="all"),
            step("merge", join="all"),
        )

    assert codes(nested("{{ workload.d }}")) == ["W_DEADLOCK"]
    assert codes(nested(None)) == []
