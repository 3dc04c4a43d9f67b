"""The state of an execution after any of its events, for screens that follow a run or show an earlier event.

`StateHistory` feeds each event to the projection, compares the token and the step run that the event names, and keeps
what has changed. It adds counts per step, each iteration of loops, and side runs that have ended.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import msgspec

from noetl.events.control import PlaybookCancelled
from noetl.events.envelope import Event
from noetl.events.executions import PlaybookProcessed
from noetl.events.loops import IterationDone, IterationFailed, IterationStarted, LoopKept, LoopLevels, LoopStarted
from noetl.events.projection.loop_cells import LoopCells, LoopCounts, NumberHistory
from noetl.events.projection.projection import Projection
from noetl.events.projection.side_runs import SideRunList
from noetl.events.projection.views import LoopProgress, StepRunView
from noetl.events.tasks import TaskProcessed

_LOOP_EVENTS = (LoopStarted, LoopKept, IterationStarted, IterationDone, IterationFailed)


class StepMoment(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one step at a moment: `tokens` are before it, `running` of its runs have not left it, `waiting` of
    those wait for an external event, and no worker has taken `queued` of them yet, the oldest since event
    `queued_at`. `loop` counts the innermost iterations of all of them."""

    step: str
    tokens: int = 0
    running: int = 0
    waiting: int = 0
    queued: int = 0
    queued_at: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    loop: LoopCounts | None = None

    @property
    def status(self) -> str | None:
        """running | queued | waiting | failed | cancelled | done, in this order; None before its first run."""
        if self.running > self.queued + self.waiting:
            return "running"
        if self.running:
            return "queued" if self.queued else "waiting"
        return "failed" if self.failed else "cancelled" if self.cancelled else "done" if self.done else None


class _Counts(msgspec.Struct):
    """A step as it is now, and as it was."""

    tokens: int = 0
    running: int = 0
    waiting: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    queued: dict[str, int] = {}  # the runs that no worker has taken, the oldest first, with the event of each
    loop: LoopProgress | None = None
    unrun: int = 0  # iterations
    passed_over: int = 0
    # Eight numbers of runs, then whether there is a loop and its five.
    past: NumberHistory = msgspec.field(default_factory=lambda: NumberHistory(14))

    def keep(self, seq: int) -> None:
        level = self.loop.level if self.loop is not None else None
        of_loop = (1, level.total, level.done, level.failed) if level is not None else (0, 0, 0, 0)
        counts = (self.tokens, self.running, self.waiting, self.done, self.failed, self.cancelled)
        queued = (len(self.queued), next(iter(self.queued.values()), 0))
        self.past.put(seq, *counts, *queued, *of_loop, self.unrun, self.passed_over)

    def moment(self, step: str, at: int) -> StepMoment | None:
        if (numbers := self.past.at(at)) is None:
            return None
        tokens, running, waiting, done, failed, cancelled, queued, queued_at, has_loop, *loop = numbers
        counts = LoopCounts(*loop) if has_loop else None
        return StepMoment(
            step=step,
            tokens=tokens,
            running=running,
            waiting=waiting,
            queued=queued,
            queued_at=queued_at,
            done=done,
            failed=failed,
            cancelled=cancelled,
            loop=counts,
        )


class StateHistory:
    """The projection of a log with what it was before. `seq` is the last event that was taken."""

    def __init__(self) -> None:
        self.seq = 0
        self.side_runs = SideRunList()
        self.loops: dict[tuple[str, tuple[int, ...]], LoopCells] = {}  # by step run and path
        self._begun: list[StepRunView] = []  # with the event that is taken
        self._projection = Projection(self._begun)
        self.loop_ends: dict[str, int] = {}  # by step run with a loop, the event that ended it
        self._open_loops: dict[str, LoopLevels] = {}  # by step run, its own iterations
        self._passed_over: set[tuple[str, tuple[int, ...]]] = set()  # open iterations with a task that failed
        self._steps: dict[str, _Counts] = {}
        # Eight bytes for each event: a log of a million is eight megabytes, where a list of floats would be thirty-two.
        self._times = array("d")
        # Only where it changed, with the event: a handful, however long the log is.
        self._statuses: list[tuple[int, str]] = []
        self._undoable, self._undoable_now = NumberHistory(), 0

    @property
    def size_bytes(self) -> int:
        """About what it takes in memory."""
        alive = 1_500 * len(self._projection.runs) + 200 * len(self._projection.places)
        steps = sum(one.past.size_bytes for one in self._steps.values())
        loops = sum(one.size_bytes for one in self.loops.values())
        return 8 * len(self._times) + alive + steps + loops + self.side_runs.size_bytes

    def take_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """Apply the next event of the log."""
        projection, payload = self._projection, event.payload
        token_id = getattr(payload, "token_id", None) or ""
        # The state that the event may change is compared before and after: the fold itself has only the present state.
        place = self._place(token_id)
        before = self._affected_runs(event, token_id)
        statuses = {run_id: view.status for run_id, view in before.items()}
        # A cancellation empties the list, and each of them becomes cancelled.
        pending = list(projection.pending.values()) if isinstance(payload, PlaybookCancelled) else []

        about = projection.take(event)

        self.seq = event.seq
        self._times.append(event.ts)
        self._move_token(place, self._place(token_id))
        for run_id, view in (before | self._affected_runs(event, token_id)).items():
            was = statuses.get(run_id)
            # A run that is over leaves the projection with the same event, with or without a new status.
            if was != view.status or run_id not in projection.runs:
                self._count_run(view, was, is_end=isinstance(payload, PlaybookProcessed))
        if isinstance(payload, _LOOP_EVENTS):
            self._take_iteration(event, payload)
        elif isinstance(payload, TaskProcessed) and payload.path and payload.is_passed_over:
            self._passed_over.add((event.step_run_id or "", payload.path))
        if self._begun or pending or (about is not None and about.origin is not None):
            self._take_side_runs(pending if about is None else [*pending, about])
        self._keep_totals()

    def _keep_totals(self) -> None:
        """The totals of the execution as a whole."""
        projection = self._projection
        if len(projection.undoable) != self._undoable_now:
            self._undoable_now = len(projection.undoable)
            self._undoable.put(self.seq, self._undoable_now)
        if not self._statuses or self._statuses[-1][1] != projection.status:
            self._statuses.append((self.seq, projection.status))

    def _place(self, token_id: str) -> str | None:
        """The step that a token is before: until a step run takes it, or it goes another way."""
        projection = self._projection
        return projection.places.get(token_id) if projection.run_of(token_id) is None else None

    def _affected_runs(self, event: Event, token_id: str) -> dict[str, StepRunView]:
        """The living step runs that an event may change, which are all of them at the end of the execution."""
        runs = self._projection.runs
        if isinstance(event.payload, PlaybookProcessed):
            return dict(runs)
        return {name: runs[name] for name in (event.step_run_id, self._projection.run_of(token_id)) if name in runs}

    def _step(self, step: str) -> _Counts:
        return self._steps.setdefault(step, _Counts())

    def _move_token(self, was: str | None, now: str | None) -> None:
        if was == now:
            return
        for step, by in ((was, -1), (now, 1)):
            if step is not None:
                self._step(step).tokens += by
                self._step(step).keep(self.seq)

    def _count_run(self, view: StepRunView, was: str | None, *, is_end: bool) -> None:
        counts = self._step(view.step)
        is_alive = self._projection.runs.get(view.step_run_id or "") is view
        # Differences instead of states: one line counts a run that begins, one that ends and one that goes on.
        counts.running += is_alive - (was is not None)
        counts.waiting += (is_alive and view.status == "waiting") - (was == "waiting")
        if is_alive and view.status == "scheduled":
            counts.queued.setdefault(view.step_run_id or "", self.seq)
        else:
            counts.queued.pop(view.step_run_id or "", None)
        counts.failed += (view.status == "failed") - (was == "failed")
        counts.cancelled += (view.status == "cancelled") - (was == "cancelled")
        if not is_alive and (view.step_run_id or "", ()) in self.loops:
            self.loop_ends.setdefault(view.step_run_id or "", self.seq)
            loop = self._open_loops.pop(view.step_run_id or "", None)
            counts.unrun += loop.unrun if loop is not None else 0
        # At the end of an execution runs are alive no more without being done.
        counts.done += not is_alive and not is_end and view.status not in ("failed", "cancelled")
        counts.keep(self.seq)

    def _take_iteration(
        self, event: Event, payload: LoopStarted | LoopKept | IterationStarted | IterationDone | IterationFailed
    ) -> None:
        step, run = event.step or "", event.step_run_id or ""
        counts = self._step(step)
        if isinstance(payload, LoopStarted):
            if (run, payload.path) not in self.loops:
                self.loops[run, payload.path] = LoopCells(step, run, event.seq, payload)
                counts.loop = counts.loop or LoopProgress()
                counts.loop.open(len(payload.path), payload.total, event.ts)
                self._open_loops.setdefault(run, LoopLevels()).add(len(payload.path), payload.total)
        elif isinstance(payload, LoopKept):
            if (cells := self.loops.get((run, payload.path))) is not None and counts.loop is not None:
                cells.keep(payload, event.seq)
                counts.loop.keep(len(payload.path), len(payload.indices))
                if run in self._open_loops:
                    self._open_loops[run].levels[len(payload.path)].done += len(payload.indices)
        elif (cells := self.loops.get((run, payload.path[:-1]))) is not None:
            cells.take(payload, event.seq)
            if isinstance(payload, IterationStarted) or counts.loop is None:
                return
            counts.loop.count(payload, event.ts)
            if run in self._open_loops:
                self._open_loops[run].end(payload)
            if (run, payload.path) in self._passed_over:
                self._passed_over.discard((run, payload.path))
                if isinstance(payload, IterationDone):
                    counts.passed_over += 1
                    cells.pass_over(event.seq)
        counts.keep(event.seq)

    def _take_side_runs(self, touched: list[StepRunView]) -> None:
        for view in self._begun:
            if view.origin is not None:
                self.side_runs.add(view, self.seq)
        self._begun.clear()
        self.side_runs.note((view for view in touched if view.origin is not None), self.seq)

    # the state after any event

    def time(self, at: int) -> float | None:
        return self._times[at - 1] if 0 < at <= len(self._times) else None

    def status(self, at: int) -> str:
        return next((status for seq, status in reversed(self._statuses) if seq <= at), "running")

    def undoable(self, at: int) -> int:
        """Compensations that are registered."""
        return (self._undoable.at(at) or (0,))[0]

    def steps(self, at: int, since: int = 0) -> list[StepMoment]:
        """The steps that something has happened at; only those that changed after event `since`."""
        found = [one.moment(step, at) for step, one in self._steps.items() if one.past.is_changed(since, at)]
        return [one for one in found if one is not None]
