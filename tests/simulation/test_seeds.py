"""Every seed keeps every promise; a defect that is put back is found by one (reliability.md §4.4, F1, F2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation import defects
from tests.simulation.seeds import KINDS, run

CHUNK, SEEDS, DEEP_SEEDS = 50, 500, 20_000
MOST = 600  # seeds that are tried for a defect
FOUND_BY = (2, 5, 12, 21, 105, 198, 285)  # tried first: each found a defect when this was written


CHUNKS = [
    pytest.param(first, marks=[] if first < SEEDS else [pytest.mark.deep]) for first in range(0, DEEP_SEEDS, CHUNK)
]


def run_some(kinds: tuple[str, ...]) -> None:
    for seed in dict.fromkeys((*FOUND_BY, *range(MOST))):
        if KINDS[seed % len(KINDS)] in kinds:
            run(seed)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Stores that fail and servers that are away are told of; here that is the point."""
    caplog.set_level("CRITICAL")


@pytest.mark.req("WRK-03", "WRK-04", "SRV-12", "EVT-06")
@pytest.mark.parametrize("first", CHUNKS)
def test_every_promise_is_kept_under_random_faults(first: int) -> None:
    for seed in range(first, first + CHUNK):
        world = run(seed)
        assert len(world.accepted) >= 2
        assert world.begun
        assert world.steps > world.begun


def test_a_seed_reproduces_its_events() -> None:
    for seed in range(len(KINDS)):
        one, other = run(seed), run(seed)
        assert one.store._events == other.store._events


@pytest.mark.parametrize(
    ("defect", "kinds", "found"),
    [
        pytest.param(defects.tasks_begin_under_old_leases, ("freezes",), "recorded as done", id="old leases"),
        pytest.param(defects.repeated_requests_say_nothing_more, ("lossy",), "claimed again", id="lost answers"),
        pytest.param(defects.refusals_are_recorded_each_time, ("freezes",), "was recorded 2 times", id="refusals"),
        pytest.param(defects.reports_are_not_fenced, ("freezes",), "reported what is held by", id="no fencing"),
        pytest.param(defects.orders_are_run_as_often_as_they_come, KINDS, "recorded as done", id="run twice"),
        pytest.param(defects.orders_on_their_way_hide_others, ("lossy",), "claimed again", id="hidden by capacity"),
        pytest.param(defects.workers_without_a_token_are_anybodys, KINDS, "a stranger spoke for", id="identity"),
    ],
)
def test_a_seed_finds_the_planted_defect(
    monkeypatch: pytest.MonkeyPatch,
    defect: Callable[[pytest.MonkeyPatch], None],
    kinds: tuple[str, ...],
    found: str,
) -> None:
    defect(monkeypatch)

    with pytest.raises(AssertionError, match=found):
        run_some(kinds)
