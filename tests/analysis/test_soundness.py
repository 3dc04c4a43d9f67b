"""Soundness: one small net for each finding, and its sound twin."""

from __future__ import annotations

import pytest

from noetl.analysis.certificate import Certificate, analyse
from noetl.net.net import Net
from noetl.net.routing import Admission, AdmitRule, Join, JoinMode
from noetl.net.waits import Timeout
from noetl.templates.authored import Authored
from tests.analysis.nets import arc, net, step

DONE = "{{ event.name == 'step.done' }}"
FAILED = "{{ event.name == 'step.failed' }}"


def codes(checked: Net) -> list[str]:
    return [finding.code for finding in proof(checked).findings]


def proof(checked: Net, **more: int) -> Certificate:
    return analyse(checked, {}, **more)


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


def diamond(join: object, *, second: object = None, **merge: object) -> Net:
    return net(
        step("start", arc("a"), arc("b"), fork=True),
        step("a", arc("merge")),
        second or step("b", arc("merge")),  # type: ignore[arg-type]
        step("merge", join=join, **merge),  # type: ignore[arg-type]
    )


@pytest.mark.req("ADV-06", "ROUTE-11")
def test_a_fork_that_meets_in_one_join_is_sound() -> None:
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
def test_a_witness_can_be_played_as_moving_tokens() -> None:
    [witness] = proof(CROSSED).witnesses

    assert [move.tokens for move in witness.moves][:3] == [("a", "b"), ("b", "left"), ("left", "right")]
    assert witness.moves[0].step == "start"
    assert witness.moves[0].arcs == ("steps/start/arcs/0", "steps/start/arcs/1")


@pytest.mark.req("ADV-06", "ROUTE-11")
@pytest.mark.parametrize("mode", ["any", "active"])
def test_joins_that_do_not_wait_for_everyone_cannot_deadlock(mode: str) -> None:
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
def test_tokens_of_one_arc_count(tokens: int, found: list[str]) -> None:
    split = net(step("start", arc("work", tokens=tokens)), step("work", arc("merge")), step("merge", join=3))

    assert codes(split) == found


@pytest.mark.req("ADV-06")
def test_a_branch_that_may_stay_silent_can_leave_a_counting_join_unfilled() -> None:
    optional = net(
        step("start", arc("a"), arc("b"), arc("c", "{{ workload.c }}"), fork=True),
        *(step(name, arc("merge")) for name in "abc"),
        step("merge", join=3),
    )

    [finding] = proof(optional).findings
    assert finding.code == "W_JOIN_UNFILLED"
    assert "waits for 3 tokens, but a fork can send it only 2" in finding.message


@pytest.mark.req("ADV-06")
def test_a_single_token_passes_straight_through_a_counting_join() -> None:
    """One arc of an inclusive router opens no group (O-01)."""
    assert codes(net(step("start", arc("merge")), step("merge", join=5))) == []


@pytest.mark.req("ADV-06")
def test_a_token_that_ends_beside_the_join_is_left() -> None:
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
def test_join_active_says_that_a_branch_may_end_elsewhere() -> None:
    aside = net(
        step("start", arc("a"), arc("b"), fork=True),
        step("a", arc("merge")),
        step("b", arc("aside")),
        step("merge", join="active"),
        step("aside"),
    )

    assert codes(aside) == []


@pytest.mark.req("ROUTE-11")
def test_a_branch_that_admission_may_deny_is_not_left() -> None:
    """A branch that ended early does not block the join, and F-R-JOIN counts on it."""
    gate = Admission(rules=(AdmitRule(when=Authored("{{ workload.go }}"), allow=True), AdmitRule(allow=False)))

    assert codes(diamond("all", second=step("b", arc("merge"), admission=gate))) == []


@pytest.mark.req("ADV-06", "ROUTE-05")
def test_a_plain_failure_is_not_unsound_but_a_routed_one_is_followed() -> None:
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
def test_guards_that_exclude_each_other_never_fork() -> None:
    either = net(
        step("start", arc("a", "{{ workload.x }}"), arc("b", "{{ not workload.x }}"), fork=True),
        step("a", arc("left")),
        step("b", arc("right")),
        step("left", join="all"),
        step("right", join="all"),
    )

    assert codes(either) == []


@pytest.mark.req("ADV-06")
def test_a_nested_fork_must_join_before_the_join_around_it() -> None:
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
def test_a_nested_fork_that_may_send_one_token_holds_up_the_join_around_it() -> None:
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


@pytest.mark.req("ADV-06")
def test_a_step_no_arc_leads_to_is_unreachable() -> None:
    [finding] = proof(net(step("start"), step("lonely"))).findings

    assert finding.code == "W_UNREACHABLE"
    assert '"lonely"' in finding.message


@pytest.mark.req("ADV-06")
def test_a_step_reached_only_by_a_timeout_is_reachable() -> None:
    timed = net(
        step("start", timeout=Timeout(duration=Authored("5m"), on_timeout="alternative", alternative="late")),
        step("late"),
    )

    assert codes(timed) == []


@pytest.mark.req("ADV-06")
def test_a_closed_cycle_has_no_end() -> None:
    found = codes(net(step("start", arc("a")), step("a", arc("b")), step("b", arc("a"))))

    assert "W_NO_END" in found


@pytest.mark.req("ADV-06")
def test_a_cycle_with_a_guarded_way_back_has_an_end() -> None:
    found = codes(net(step("start", arc("a")), step("a", arc("b")), step("b", arc("a", "{{ event.result.more }}"))))

    assert found == []


@pytest.mark.req("ADV-06")
def test_a_cycle_whose_own_branches_feed_it_for_ever_has_no_end() -> None:
    """One branch ends in every round, the other always comes back: no execution of it is ever over."""
    fed = net(
        step("start", arc("a"), arc("b"), fork=True),
        step("a", arc("merge")),
        step("b", arc("aside")),
        step("aside"),
        step("merge", arc("start"), join="any"),
    )

    assert "W_NO_END" in codes(fed)


@pytest.mark.req("ADV-06")
def test_a_fork_in_a_cycle_without_a_join_grows() -> None:
    growing = net(
        step("start", arc("crawl")),
        step("crawl", arc("crawl", "{{ event.result.more }}"), arc("store"), fork=True),
        step("store"),
    )
    joined = net(
        step("start", arc("a"), arc("b"), fork=True),
        step("a", arc("merge")),
        step("b", arc("merge")),
        step("merge", arc("start", "{{ event.result.more }}"), join="all"),
    )

    assert codes(growing) == ["W_TOKEN_GROWTH"]
    assert codes(joined) == []


@pytest.mark.req("ADV-06")
def test_a_fork_that_joins_in_two_places_grows_when_one_of_them_leads_back() -> None:
    twice = net(
        step("start", arc("a"), arc("b"), fork=True),
        step("a", arc("left")),
        step("b", arc("right")),
        step("left", arc("start", "{{ event.result.more }}"), join="any"),
        step("right", arc("start", "{{ event.result.more }}"), join="any"),
    )

    assert codes(twice) == ["W_TOKEN_GROWTH"]


@pytest.mark.req("ADV-06")
def test_a_step_that_ends_the_execution_frees_whoever_waits() -> None:
    stopping = net(
        step("start", arc("a"), arc("b"), arc("c"), fork=True),
        step("a", arc("left")),
        step("b", arc("right")),
        step("c", ends_execution=True),
        step("left", join="all"),
        step("right", join="all"),
    )

    assert codes(stopping) == []


@pytest.mark.req("ADV-06")
def test_a_cancel_list_is_searched_token_by_token() -> None:
    """`c` may be withdrawn before it arrives, so that three tokens are not certain; two are."""

    def cancelling(count: int) -> Net:
        return net(
            step("start", arc("a"), arc("b"), arc("c"), fork=True),
            step("a", arc("merge", cancel=("c",))),
            step("b", arc("merge")),
            step("c", arc("merge")),
            step("merge", join=count),
        )

    unfilled, filled = proof(cancelling(3)), proof(cancelling(2))

    assert [finding.code for finding in unfilled.findings] == ["W_JOIN_UNFILLED"]
    assert unfilled.statistics.markings > 0
    assert filled.verdict == "sound"


@pytest.mark.req("ADV-06")
def test_a_blocking_join_can_wait_for_a_group_inside_the_one_it_holds() -> None:
    """The rest of the outer group forks again and comes to the same join, which admits no new group before it."""

    def shaped(rest: str) -> Net:
        return net(
            step("start", arc("a"), arc("b"), fork=True),
            step("a", arc("merge")),
            step("b", arc("c"), arc("d"), fork=True),
            step("c", arc("merge")),
            step("d", arc("merge")),
            step("merge", join=Join(mode=JoinMode.ANY, rest=rest)),
        )

    assert codes(shaped("block")) == ["W_DEADLOCK"]
    assert codes(shaped("ignore")) == []


@pytest.mark.req("ADV-06")
def test_a_join_that_withdraws_the_rest_ends_a_branch_that_would_go_on_for_ever() -> None:
    """A race against a loop that only stops when somebody else has won."""

    def race(rest: str) -> Net:
        return net(
            step("start", arc("work"), arc("watch"), fork=True),
            step("work", arc("won")),
            step("watch", arc("watch")),
            step("won", join=Join(mode=JoinMode.ANY, rest=rest)),
        )

    assert "W_NO_END" not in codes(race("cancel"))
    assert proof(race("cancel")).verdict == "sound"
    assert "W_NO_END" in codes(race("ignore"))


@pytest.mark.req("ADV-06")
def test_a_counting_join_that_withdraws_the_rest_must_still_fill() -> None:
    def first(count: int) -> Net:
        return net(
            step("start", arc("a"), arc("b"), arc("c"), fork=True),
            *(step(name, arc("merge")) for name in "abc"),
            step("merge", join=Join(mode=JoinMode.COUNT, count=count, rest="cancel")),
        )

    assert codes(first(2)) == []
    assert codes(first(4)) == ["W_JOIN_UNFILLED"]


@pytest.mark.req("ADV-06")
def test_what_the_budget_does_not_allow_is_not_decided() -> None:
    certificate = proof(MET, budget=3)

    assert certificate.verdict == "not decided"
    assert [finding.code for finding in certificate.findings] == ["I_NOT_DECIDED"]


@pytest.mark.req("ADV-06")
def test_a_target_that_cannot_be_told_is_not_decided() -> None:
    computed = net(
        step("start", arc("", computed=Authored("{{ vars.where }}"))), step("a"), step("b"), dialect="v2-case"
    )

    assert proof(computed).verdict == "not decided"


@pytest.mark.req("ADV-06")
def test_a_computed_target_with_candidates_leads_to_each_of_them() -> None:
    computed = net(
        step("start", arc("", computed=Authored("{{ 'a' if workload.x else 'b' }}"), candidates=("a", "b"))),
        step("a"),
        step("b"),
        step("c"),
        dialect="v2-case",
    )

    assert codes(computed) == ["W_UNREACHABLE"]
