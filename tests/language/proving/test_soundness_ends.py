"""Soundness of ends: steps no token comes to, cycles without a way out, growth, withdrawn tokens, and no verdict."""

from __future__ import annotations

import pytest

from noetl.net.net import Net, Timeout
from noetl.net.routing import Join, JoinMode
from noetl.templates.values import Authored
from tests.language.proving.nets import arc, net, step
from tests.language.proving.proving import codes, proof

MET = net(
    step("start", arc("a"), arc("b"), fork=True),
    step("a", arc("merge")),
    step("b", arc("merge")),
    step("merge", join="all"),
)


@pytest.mark.req("ADV-06")
def test_a_step_without_incoming_arcs_is_unreachable() -> None:
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
def test_a_cycle_with_a_guarded_back_arc_has_an_end() -> None:
    found = codes(net(step("start", arc("a")), step("a", arc("b")), step("b", arc("a", "{{ event.result.more }}"))))

    assert found == []


@pytest.mark.req("ADV-06")
def test_a_cycle_fed_forever_by_its_own_branches_has_no_end() -> None:
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
def test_a_fork_in_a_cycle_without_a_join_is_unbounded() -> None:
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
def test_an_arc_that_sends_two_tokens_back_is_unbounded() -> None:
    again = "{{ event.result.more }}"

    assert codes(net(step("start", arc("start", again, tokens=2)))) == ["W_TOKEN_GROWTH"]
    assert codes(net(step("start", arc("start", again)))) == []


@pytest.mark.req("ADV-06")
def test_a_fork_with_two_joins_is_unbounded_if_one_leads_back() -> None:
    twice = net(
        step("start", arc("a"), arc("b"), fork=True),
        step("a", arc("left")),
        step("b", arc("right")),
        step("left", arc("start", "{{ event.result.more }}"), join="any"),
        step("right", arc("start", "{{ event.result.more }}"), join="any"),
    )

    assert codes(twice) == ["W_TOKEN_GROWTH"]


@pytest.mark.req("ADV-06")
def test_a_step_that_ends_the_execution_releases_waiting_tokens() -> None:
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
def test_a_blocking_join_can_wait_for_a_group_nested_in_its_own() -> None:
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
def test_a_join_that_cancels_the_rest_ends_an_endless_branch() -> None:
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
def test_a_counting_join_that_cancels_the_rest_must_still_fill() -> None:
    def first(count: int) -> Net:
        return net(
            step("start", arc("a"), arc("b"), arc("c"), fork=True),
            *(step(name, arc("merge")) for name in "abc"),
            step("merge", join=Join(mode=JoinMode.COUNT, count=count, rest="cancel")),
        )

    assert codes(first(2)) == []
    assert codes(first(4)) == ["W_JOIN_UNFILLED"]


@pytest.mark.req("ADV-06")
def test_a_net_beyond_the_budget_is_not_decided() -> None:
    certificate = proof(MET, budget=3)

    assert certificate.verdict == "not decided"
    assert [finding.code for finding in certificate.findings] == ["I_NOT_DECIDED"]


@pytest.mark.req("ADV-06")
def test_a_net_with_an_unknown_target_is_not_decided() -> None:
    computed = net(
        step("start", arc("", computed=Authored("{{ vars.where }}"))), step("a"), step("b"), dialect="v2-case"
    )

    assert proof(computed).verdict == "not decided"


@pytest.mark.req("ADV-06")
def test_a_computed_target_leads_to_each_of_its_candidates() -> None:
    computed = net(
        step("start", arc("", computed=Authored("{{ 'a' if workload.x else 'b' }}"), candidates=("a", "b"))),
        step("a"),
        step("b"),
        step("c"),
        dialect="v2-case",
    )

    assert codes(computed) == ["W_UNREACHABLE"]
