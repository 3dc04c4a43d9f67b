"""The search on its own: it is the last resort of `soundness`, so most nets never come to it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from noetl.language.proving.firings import build
from noetl.language.proving.search import StateSearch
from tests.language.proving.brute_force import play
from tests.language.proving.nets import arc, from_game, net, random_game, step


@pytest.mark.req("ADV-06")
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.integers(min_value=0, max_value=2**32), st.booleans())
def test_the_search_alone_agrees_with_the_token_game(seed: int, withdrawing: bool) -> None:
    game, entry = random_game(seed, withdrawing=withdrawing)
    report = play(game, entry, 600)
    assume(report.complete)
    graph = build(from_game(game, entry))

    search = StateSearch(graph, 20_000)

    assert search.finished
    found = {(fault.kind, graph.name(fault.steps[0])) for fault in search.faults}
    assert any(kind == "W_DEADLOCK" for kind, _ in found) == report.deadlock
    assert {name for kind, name in found if kind == "W_JOIN_UNFILLED"} == report.unfilled
    assert {name for kind, name in found if kind == "W_TOKEN_LEFT"} == report.left


@pytest.mark.req("ADV-06")
def test_an_endlessly_moving_token_does_not_starve_the_others() -> None:
    """The ignoring problem of stubborn sets: the quiet token may not always be the one that moves."""
    spinning = net(
        step("start", arc("a_spin"), arc("b"), fork=True),
        step("a_spin", arc("a_spin")),
        step("b", arc("c"), arc("d"), fork=True),
        step("c", arc("inner")),
        step("d", arc("inner")),
        step("inner", join=3),
    )

    search = StateSearch(build(spinning), 1_000)

    assert [fault.kind for fault in search.faults] == ["W_JOIN_UNFILLED"]


@pytest.mark.req("ADV-06")
def test_independent_branches_are_not_interleaved() -> None:
    """Twelve branches of three choices each: 4 to the 12 interleavings, a few markings each in a stubborn search."""
    names = [f"b{i}" for i in range(12)]
    wide = net(
        step("start", *(arc(name) for name in names), fork=True),
        *(step(name, arc(f"{name}_x", f"{{{{ workload.{name} }}}}"), arc(f"{name}_y")) for name in names),
        *(step(f"{name}_{side}", arc("merge")) for name in names for side in "xy"),
        step("merge", join="all"),
    )

    search = StateSearch(build(wide), 1_000)

    assert search.finished
    assert search.faults == {}
    assert search.states < 60


@pytest.mark.req("ADV-06")
def test_findings_before_the_end_of_the_budget_are_reported() -> None:
    names = [f"b{i}" for i in range(12)]
    ring = net(
        step("start", *(arc(name) for name in names), fork=True),
        *(step(name, arc("merge", cancel=(names[at - 1],))) for at, name in enumerate(names)),
        step("merge", join=11),
    )

    search = StateSearch(build(ring), 200)

    assert not search.finished
    assert {fault.kind for fault in search.faults} == {"W_JOIN_UNFILLED"}
