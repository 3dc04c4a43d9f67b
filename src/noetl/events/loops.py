"""Events of loops: a level opens, ranges of it are handed out, iterations begin and end, the loop is done (LOOP-08).
Also the counting of iterations by depth: the state of an execution and the views use it, so that a list, a header and a
net show the same number.

`path` holds one index per loop level. Of a level it is the iteration around it, empty for the outermost; of an
iteration it ends with its own index.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.events.outcomes import Error, Reference, TaskResult
from noetl.events.payloads import EventMeaning, EventPhase, Payload, Reported

Path = tuple[int, ...]


class LoopStarted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A level of a loop opens: its collection, evaluated once and stored once (LOOP-01)."""

    event_type = "loop.started"
    meaning = EventMeaning("loop", EventPhase.OPEN)

    total: int
    path: Path = ()
    # The collection; a large one is stored separately.
    items: list[Any] | None = None
    items_ref: Reference | None = None
    parallel: bool = False
    in_flight: int = 1  # how many iterations may be active at once
    local: bool = False  # one lease for all of them (LOOP-11)
    nested: bool = False  # each iteration opens a loop of its own
    # These three apply to all levels and are set on the outermost only.
    best_effort: bool = False
    last_wins: bool = False  # `ctx_writes: last`
    reducers: dict[str, str] = {}  # by key of `ctx`
    max_queue: int | None = None  # how many dispatched iterations may wait for a worker
    # The indices of equal partition keys, in the order of their first (LOOP-15); too many are stored apart.
    lanes: list[list[int]] | None = None
    lanes_ref: Reference | None = None
    lane_count: int | None = None  # None: it has no partition keys


class LoopScheduled(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Iterations `first` to `last` of the level at `path` are one order; `indices` lists them if they are not
    consecutive. The worker runs `slots` of them at a time."""

    event_type = "loop.scheduled"
    meaning = EventMeaning("loop", EventPhase.OPEN)

    order_id: str
    path: Path = ()
    first: int
    last: int
    slots: int = 1
    indices: tuple[int, ...] | None = None


class IterationStarted(Reported, frozen=True, kw_only=True, omit_defaults=True, tag="loop.iteration.started"):
    event_type = "loop.iteration.started"
    meaning = EventMeaning("loop", EventPhase.OPEN)

    index: int
    path: Path
    worker_id: str | None = None


class IterationDone(Reported, frozen=True, kw_only=True, omit_defaults=True, tag="loop.iteration.done"):
    """An outer iteration has no result: it ends with the loop inside it (LOOP-07). `extend` are elements that the
    iteration adds to the collection, if the loop allows that (beyond.md §1)."""

    event_type = "loop.iteration.done"
    meaning = EventMeaning("loop", EventPhase.GOOD, ends=("loop.iteration.started",))

    index: int
    path: Path
    result: TaskResult = TaskResult()
    extend: list[Any] = []


class IterationFailed(Reported, frozen=True, kw_only=True, omit_defaults=True, tag="loop.iteration.failed"):
    event_type = "loop.iteration.failed"
    meaning = EventMeaning("loop", EventPhase.BAD, ends=("loop.iteration.started",))

    index: int
    path: Path
    error: Error


class LoopCut(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The level at `path` ends early: its `complete_when` holds, or with `error` could not be evaluated. Running
    iterations are stopped, others never start (beyond.md §1)."""

    event_type = "loop.cut"
    meaning = EventMeaning("loop", EventPhase.IN_PAYLOAD)

    path: Path = ()
    error: Error | None = None


class LoopKept(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Iterations of the level at `path` that are not run, since an earlier run had done them (CLI-04). `results` has
    their results, in the same order."""

    event_type = "loop.kept"
    meaning = EventMeaning("loop", EventPhase.IN_PAYLOAD)

    path: Path = ()
    indices: tuple[int, ...] = ()
    results: list[Any] = []


class LoopDone(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The boundary event of a looped step that completed (LOOP-09). Counts and results are of innermost iterations; For
    nested levels, `paths` has the iteration of each result (O-37)."""

    event_type = "loop.done"
    meaning = EventMeaning(
        "loop",
        EventPhase.IN_PAYLOAD,
        # A loop has no `step.done`: its own end is the end of the step run.
        ends=(
            "loop.started",
            "step.scheduled",
        ),
    )

    total: int
    done: int
    failed: int
    results: list[Any] | None = None
    ref: Reference | None = None
    paths: list[list[int]] | None = None
    paths_ref: Reference | None = None


class LoopLevel(msgspec.Struct):
    """One depth of a loop: the number of known iterations, and how many have ended."""

    total: int = 0
    done: int = 0
    failed: int = 0

    @property
    def ended(self) -> int:
        return self.done + self.failed


class LoopLevels(msgspec.Struct):
    """The depths of a loop, the outermost first."""

    levels: list[LoopLevel] = []

    @property
    def level(self) -> LoopLevel:
        """The innermost level: the one that progress bars and badges show."""
        return self.levels[-1]

    @property
    def unrun(self) -> int:
        """Innermost iterations that would be neither done nor failed if the loop ended now; 0 without a failure: such a
        loop ended early because it was asked to."""
        level = self.level
        return max(0, level.total - level.ended) if level.failed else 0

    def add(self, depth: int, total: int) -> None:
        """Add an opened level. Levels are summed up: each outer iteration opens the level below it again."""
        while len(self.levels) <= depth:
            self.levels.append(LoopLevel())
        self.levels[depth].total += total

    def end(self, payload: IterationDone | IterationFailed) -> None:
        level = self.levels[len(payload.path) - 1]
        if isinstance(payload, IterationFailed):
            level.failed += 1
        else:
            level.done += 1
            level.total += len(payload.extend)


class FailedIterations(msgspec.Struct):
    """Iterations that failed, and all there are, of the steps in whose loops some did: "7 of 1,000 failed". All runs of
    a step count, and of nested loops the innermost level. Iterations that are done without adding items change neither
    number and need not be counted, so how many are done is not known here. `unrun` were not run to their end, since
    their loop ended after a failure; `passed_over` are done although a task of theirs failed (`do: continue`)."""

    failed: int = 0
    total: int = 0
    unrun: int = 0
    passed_over: int = 0
    unrun_by_step: dict[str, int] = {}
    by_step: dict[str, LoopLevels] = {}

    def end_loop(self, step: str, unrun: int) -> None:
        """Its loop has ended, and so many items were not run to their end."""
        if unrun:
            self.unrun += unrun
            self.unrun_by_step[step] = self.unrun_by_step.get(step, 0) + unrun

    def count(self, step: str, payload: LoopStarted | IterationDone | IterationFailed) -> None:
        """Count the iterations of a step, at a cost that does not grow with their number: its counts are subtracted and
        added again."""
        loop = self.by_step.get(step)
        if loop is None:
            loop = self.by_step[step] = LoopLevels()
        else:
            self._put(loop, -1)
        if isinstance(payload, LoopStarted):
            loop.add(len(payload.path), payload.total)
        else:
            loop.end(payload)
        self._put(loop, 1)

    def _put(self, loop: LoopLevels, sign: int) -> None:
        level = loop.level
        if level.failed:
            self.failed += sign * level.failed
            self.total += sign * level.total
