"""What a row of a list says of failed iterations: the same as header and net, whatever the loops are like.

That it agrees with the projection is compared after every command of every `Conversation` of the suite.
"""

from __future__ import annotations

from noetl.events.loops import FailedIterations, IterationDone, IterationFailed, LoopStarted
from noetl.events.outcomes import Error

Told = tuple[str, LoopStarted | IterationDone | IterationFailed]


def _failed(*path: int) -> IterationFailed:
    return IterationFailed(index=path[-1], path=path, error=Error(kind="k", message="m"))


def _done(*path: int, extend: int = 0) -> IterationDone:
    return IterationDone(index=path[-1], path=path, extend=[None] * extend)


def _figures(*told: Told) -> tuple[int, int]:
    counts = FailedIterations()
    for step, payload in told:
        counts.count(step, payload)
    return counts.failed, counts.total


def test_loops_without_failures_are_not_counted() -> None:
    whole: list[Told] = [("a", LoopStarted(total=1000)), ("a", _done(0))]

    assert _figures(*whole) == (0, 0)
    assert _figures(*whole, ("b", LoopStarted(total=50)), ("b", _failed(3)), ("b", _failed(4))) == (2, 50)


def test_every_run_of_a_step_is_counted() -> None:
    once: list[Told] = [("a", LoopStarted(total=10)), ("a", _failed(1))]

    assert _figures(*once, ("a", LoopStarted(total=10)), ("a", _done(1))) == (1, 20)


def test_items_added_by_iterations_are_counted_from_then_on() -> None:
    assert _figures(("a", LoopStarted(total=2)), ("a", _failed(0)), ("a", _done(1, extend=3))) == (1, 5)


def test_the_innermost_level_of_nested_loops_is_counted() -> None:
    outer: list[Told] = [("a", LoopStarted(total=2, nested=True)), ("a", _failed(0))]
    inner: list[Told] = [("a", LoopStarted(total=5, path=(1,))), ("a", _failed(1, 2)), ("a", _done(1, 3))]

    assert _figures(*outer) == (1, 2)
    assert _figures(*outer, *inner) == (1, 5)
    assert _figures(*outer, *inner[:1]) == (0, 0)
