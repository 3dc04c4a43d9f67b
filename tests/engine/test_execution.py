"""The nearest wake-up time of an execution is known without a search, and reading it changes nothing."""

from __future__ import annotations

import random

import msgspec
import pytest

from noetl.engine.execution import DueTime, DueTimes


@pytest.mark.req("TMR-06")
def test_the_earliest_due_time_is_first_after_any_changes() -> None:
    dice, timer_queue, expected = random.Random(7), DueTimes(), dict[str, float]()
    for _ in range(3_000):
        key = str(dice.randrange(60))
        if dice.random() < 0.45:
            timer_queue.cancel(DueTime.WAIT, key)
            expected.pop(key, None)
        else:
            expected[key] = float(dice.randrange(1_000))
            timer_queue.set(DueTime.WAIT, key, expected[key])
        nearest = timer_queue.nearest
        assert (nearest[0] if nearest else None) == min(expected.values(), default=None)
        assert len(timer_queue.heap) <= 2 * len(expected) + 20, "what is outdated does not pile up"


def test_equal_due_times_fire_in_insertion_order() -> None:
    timer_queue = DueTimes()
    for key in ("z", "a", "m"):
        timer_queue.set(DueTime.RELEASE, key, 5.0)

    order = []
    while (nearest := timer_queue.nearest) is not None:
        order.append(nearest[3])
        timer_queue.cancel(nearest[2], nearest[3])

    assert order == ["z", "a", "m"]


def test_reading_the_due_times_changes_nothing() -> None:
    timer_queue = DueTimes()
    timer_queue.set(DueTime.DUE, "a", 2.0)
    timer_queue.set(DueTime.WAIT, "a", 1.0)
    before = msgspec.json.encode(timer_queue.heap)

    assert timer_queue.nearest == (1.0, 2, DueTime.WAIT, "a")
    assert msgspec.json.encode(timer_queue.heap) == before
