"""The state of a loop: frames, the ranges handed out, and the iterations that have begun and not ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from noetl.engine.pipeline.progress import after
from noetl.events.cases import Taken
from noetl.events.loops import LoopStarted, Path
from noetl.events.outcomes import Error
from noetl.events.position import Position
from noetl.events.tasks import TaskProcessed
from noetl.net.task import Directive


class Begun(msgspec.Struct, kw_only=True):
    """An iteration that has begun and not ended. `last` is what was processed since `position`; most iterations end
    with it, so it is folded in only when somebody asks. `told` marks reports of the task under way. `writes` are
    its own to `ctx` (SCOPE-06), `children` nested executions that can be compensated."""

    order_id: str
    position: Position
    last: TaskProcessed | None = None
    last_at: float = 0.0
    in_task: bool = False
    told: tuple[str, ...] = ()
    writes: dict[str, Any] = {}
    children: tuple[str, ...] = ()

    def stands(self) -> Position:
        """Where its pipeline stands."""
        return after(self.position, self.last, self.last_at) if self.last is not None else self.position

    def expects(self) -> tuple[int, int]:
        """The visit and the attempt of the task run that comes next."""
        last = self.last
        if last is None:
            return self.position.visit, self.position.attempt
        return expected_after(last)


def expected_after(processed: TaskProcessed) -> tuple[int, int]:
    if processed.decision.do == Directive.RETRY:
        return processed.visit, processed.attempt + 1
    return processed.visit + 1, 1


class Range(msgspec.Struct, kw_only=True):
    """Iterations of one frame that are one order. `left` counts those that have not ended."""

    order_id: str
    path: Path
    first: int
    last: int
    slots: int
    left: int
    indices: tuple[int, ...] | None = None
    worker_id: str | None = None
    lease_epoch: int = 0

    def __contains__(self, index: int) -> bool:
        return self.first <= index <= self.last if self.indices is None else index in self.indices

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1) if self.indices is None else self.indices)

    def __len__(self) -> int:
        return self.last - self.first + 1 if self.indices is None else len(self.indices)


class Write(msgspec.Struct, frozen=True):
    """What an iteration wrote to a key of `ctx`."""

    path: Path
    value: Any


class Region(msgspec.Struct, kw_only=True):
    """What runs at the same time: the outermost parallel level and all below it. It reads `ctx` as of its start, and
    its writes are seen by others when it ends (SCOPE-06). `own` are the writes of strands that several iterations
    share, one after another."""

    ctx: dict[str, Any]
    last_wins: bool = False
    writes: dict[str, Write] = {}
    own: dict[Path, dict[str, Any]] = {}


class Frame(msgspec.Struct, kw_only=True):
    """One open level of a loop. `units` is how many ranges of work there are to hand out from: iterations, or lanes
    of equal partition keys; `given` of them are handed out. `ended` has one byte per iteration.

    `region` is the path of the parallel region it is in; `strand` how much of a path tells apart what runs at the same
    time; None where nothing does. `added` are elements that iterations put behind the collection; `cut`: it ends
    early.
    """

    opened: LoopStarted
    event_id: str
    nested: bool
    units: int
    ended: bytearray
    results: list[Any]
    region: Path | None = None
    strand: int | None = None
    given: int = 0
    open_slots: int = 0
    queued: int = 0
    done: int = 0
    failed: int = 0
    added: list[Any] = []
    cut: bool = False

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
    """The loop of one step run. `due` are the frames with work, in the order they came due.

    `done` and `failed` count innermost iterations, and outer ones whose inner loop could not be opened. `failure` is
    the first failed one's, `broken` why the loop itself cannot go on; `contributions` to reduced keys wait for the end,
    each with its path (LOOP-14).
    `taken` are the transitions that rules of v2-case took in ended iterations (V2C-23).
    """

    reducers: dict[str, str]
    best_effort: bool
    frames: dict[Path, Frame] = {}
    ranges: dict[str, Range] = {}
    begun: dict[Path, Begun] = {}
    regions: dict[Path, Region] = {}
    due: dict[Path, None] = {}
    contributions: dict[str, list[Write]] = {}
    taken: dict[Path, tuple[Taken, ...]] = {}
    done: int = 0
    failed: int = 0
    failure: Error | None = None
    broken: Error | None = None

    @property
    def failing(self) -> bool:
        return self.broken is not None or (self.failure is not None and not self.best_effort)

    def region_of(self, frame: Frame) -> Region | None:
        return self.regions[frame.region] if frame.region is not None else None
