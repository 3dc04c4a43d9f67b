"""The state of a loop: frames, the ranges handed out, and the iterations that have begun and not ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from noetl.engine.pipeline.progress import position_after
from noetl.events.loops import LoopStarted, Path
from noetl.events.orders import Position
from noetl.events.outcomes import Error
from noetl.events.tasks import TaskProcessed
from noetl.events.v2_case_positions import Taken
from noetl.net.task import Directive


class OpenIteration(msgspec.Struct, kw_only=True):
    """An iteration that has begun and not ended."""

    order_id: str
    position: Position
    # The task processed since `position`, and the time. Most iterations end with it, so it is folded into the position
    # only on request (`current_position`).
    last: TaskProcessed | None = None
    last_at: float = 0.0
    in_task: bool = False  # its task has been started and not processed
    passed_over: bool = False  # a task of it failed, and `do: continue` went on
    task_events: tuple[str, ...] = ()  # marks of the reported entries of the task in progress
    writes: dict[str, Any] = {}  # its own to `ctx` (SCOPE-06)
    children: tuple[str, ...] = ()  # nested executions that can be compensated

    def current_position(self) -> Position:
        """The position of its pipeline."""
        return position_after(self.position, self.last, self.last_at) if self.last is not None else self.position

    def expects(self) -> tuple[int, int]:
        """The visit and the attempt of the task run that comes next."""
        last = self.last
        if last is None:
            return self.position.visit, self.position.attempt
        return run_expected_after(last)


def run_expected_after(processed: TaskProcessed) -> tuple[int, int]:
    if processed.decision.do == Directive.RETRY:
        return processed.visit, processed.attempt + 1
    return processed.visit + 1, 1


class Range(msgspec.Struct, kw_only=True):
    """Iterations of one frame that are one order."""

    order_id: str
    path: Path  # of the frame
    first: int
    last: int  # inclusive
    slots: int  # how many of them its worker may run at a time
    left: int  # those that have not ended
    indices: tuple[int, ...] | None = None  # where they do not follow each other: a lane, or shuffled
    # The lease, as in `StepLease`: ranges of one loop are held by different workers.
    worker_id: str | None = None
    lease_epoch: int = 0

    def __contains__(self, index: int) -> bool:
        return self.first <= index <= self.last if self.indices is None else index in self.indices

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1) if self.indices is None else self.indices)

    def __len__(self) -> int:
        return self.last - self.first + 1 if self.indices is None else len(self.indices)


class Write(msgspec.Struct, frozen=True):
    """A write of an iteration to a key of `ctx`."""

    path: Path
    value: Any


class Region(msgspec.Struct, kw_only=True):
    """The iterations that run concurrently: the outermost parallel level and all below it. Its writes are seen by
    others when it ends (SCOPE-06)."""

    ctx: dict[str, Any]  # as of its start: every iteration reads the same, whichever ends first
    last_wins: bool = False  # two iterations may write one key; else that is a conflict
    writes: dict[str, Write] = {}
    own: dict[Path, dict[str, Any]] = {}  # of strands that several iterations share, one after another


class Frame(msgspec.Struct, kw_only=True):
    """One open level of a loop."""

    opened: LoopStarted
    event_id: str
    nested: bool  # its iterations are loops themselves, begun by the server instead of by workers
    units: int  # units of work: iterations, or lanes of equal partition keys
    ended: bytearray  # one byte per iteration: a million of them are one megabyte, and no objects
    results: list[Any]
    region: Path | None = None  # the path of the parallel region it is in
    strand: int | None = None  # how much of a path tells apart what runs at the same time; None: nothing does
    given: int = 0  # units that are handed out
    open_slots: int = 0  # of ranges that have not ended, against `in_flight`
    queued: int = 0  # iterations handed out that no worker has claimed, against `max_queue`
    done: int = 0
    failed: int = 0
    added: list[Any] = []  # elements that iterations put behind the collection
    cut: bool = False  # it ends early; open iterations are cancelled

    @property
    def total(self) -> int:
        return self.opened.total + len(self.added)

    @property
    def path(self) -> Path:
        return self.opened.path

    @property
    def over(self) -> bool:
        """Whether all of it has ended, or what is left is not wanted."""
        return self.cut or (self.given == self.units and self.done + self.failed == self.total)

    @property
    def has_work(self) -> bool:
        """Whether the state asks for something here: to hand out more, or to end it."""
        if self.given == self.units or self.cut:
            return self.over
        opened = self.opened
        if opened.local and not self.nested:
            return not self.open_slots  # on one lease at a time
        return self.open_slots < opened.in_flight and (opened.max_queue is None or self.queued < opened.max_queue)


class LoopRun(msgspec.Struct, kw_only=True):
    """The loop of one step run."""

    reducers: dict[str, str]  # by key of `ctx`, how contributions are folded
    best_effort: bool  # a failed iteration does not fail the loop
    frames: dict[Path, Frame] = {}  # open levels; the outermost has the empty path
    ranges: dict[str, Range] = {}  # by order
    begun: dict[Path, OpenIteration] = {}
    regions: dict[Path, Region] = {}
    due: dict[Path, None] = {}  # frames with work, in the order they came due
    contributions: dict[str, list[Write]] = {}  # to reduced keys; folded at the end, in the order of paths (LOOP-14)
    taken: dict[Path, tuple[Taken, ...]] = {}  # transitions that rules of v2-case took in ended iterations (V2C-23)
    total: int = 0  # innermost iterations that are known of: the levels inside an outer iteration open with it
    # Count innermost iterations, and outer ones whose inner loop could not be opened.
    done: int = 0
    failed: int = 0
    failure: Error | None = None  # of the first iteration that failed
    broken: Error | None = None  # why the loop itself cannot go on

    @property
    def failing(self) -> bool:
        return self.broken is not None or (self.failure is not None and not self.best_effort)

    @property
    def unrun(self) -> int:
        """Iterations that would be neither done nor failed if the loop ended now; 0 without a failure."""
        return max(0, self.total - self.done - self.failed) if self.failed else 0

    def region_of(self, frame: Frame) -> Region | None:
        return self.regions[frame.region] if frame.region is not None else None
