"""How the engine handles a worker's report on a range of iterations (WRK-02, EVT-06, SCOPE-05).

Entries of several iterations travel together. Each iteration takes the next one it expects; everything else is a repeat
of what the log has. An iteration that contradicts another one's write ends here, even if its worker continues.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from noetl.engine.commands import RecordReport
from noetl.engine.compensation import register_iteration
from noetl.engine.decision import CloseOrder, Decision, Draft, patch_ctx
from noetl.engine.execution import Execution, StepRun
from noetl.engine.identity import entry_key
from noetl.engine.loops.endings import EndedIteration, cut_if_complete, fail_loop
from noetl.engine.loops.levels import ctx_for, level_at, outer_of
from noetl.engine.loops.reducers import ConflictCheck
from noetl.engine.loops.state import Frame, LoopRun, OpenIteration, Range, run_expected_after
from noetl.engine.pipeline.patches import patched, put_last
from noetl.engine.pipeline.progress import position_after
from noetl.engine.plan import Plan
from noetl.engine.scopes import payload_of
from noetl.engine.side_runs.evolution import child_of
from noetl.engine.side_runs.orders import start_async_task
from noetl.engine.v2_case.listeners import Entry, add_notes, without_notes
from noetl.events.loops import IterationDone, IterationFailed, IterationStarted, Path
from noetl.events.orders import Position, ReportResult, Timed
from noetl.events.outcomes import Error
from noetl.events.payloads import EventSource
from noetl.events.steps import CaseStarted, StepDone, StepFailed
from noetl.events.tasks import HookFailed, JobPlaced, KeychainRefreshed, TaskProcessed, TaskStarted
from noetl.net.task import Directive

_TaskEntry = TaskStarted | KeychainRefreshed | HookFailed | JobPlaced | TaskProcessed
_Entry = _TaskEntry | CaseStarted | IterationStarted | IterationDone | IterationFailed


def record_range(plan: Plan, execution: Execution, run: StepRun, span: Range, command: RecordReport) -> Decision:
    """The events of a report under the current lease."""
    ended = next((timed.entry for timed in command.report.entries if isinstance(timed.entry, StepFailed)), None)
    if ended is not None:  # its time is over, and with it that of the whole step run (WRK-07)
        return fail_loop(execution, run, ended.error, command.at)
    book = _RangeReport(plan, execution, run, span, command)
    for timed in command.report.entries:
        book.enter(timed)
    return book.decision()


class _RangeReport:
    """One report being written into the log. `_moved` is where its own entries have taken an iteration: its next
    expected entry, None once it has ended."""

    def __init__(self, plan: Plan, execution: Execution, run: StepRun, span: Range, command: RecordReport) -> None:
        assert run.loop is not None
        self._plan, self._cut = plan, False
        self._watched = level_at(plan.step(run.step), span.path).complete_when is not None
        self._fresh: dict[str, Any] = {}  # writes of this report so far, for the check of the level
        self._ended = [run.loop.frames[span.path].done, run.loop.frames[span.path].failed]
        self._execution, self._run, self._span, self._command = execution, run, span, command
        self._loop: LoopRun = run.loop
        self._frame: Frame = run.loop.frames[span.path]
        self._draft = Draft(execution, command.at, run.event_id)
        self._moved: dict[Path, tuple[int, int] | None] = {}
        # Counted here, since the state moves only when the decision is applied: whether this report ends the order has
        # to be known now.
        self._left = span.left
        self._stopped: list[Path] = []
        self._new_marks: dict[Path, set[str]] = {}  # by iteration, the entries of this report on the running task
        self._cased: set[Path] = set()  # iterations of v2-case that this report begins
        # Judged for the whole report at once: entries of one report are one moment, whichever comes first in it.
        self._refused = self._conflicts(command.report.entries)
        self._follow = (
            Consequences(plan, self._draft, execution, run, span) if plan.leaves_side_runs(run.step) else None
        )

    def _conflicts(self, entries: Iterable[Timed]) -> dict[Path, str]:
        """Iterations that write what they may not, each with the key (O-15)."""
        writes: dict[Path, list[dict[str, object]]] = {}
        for timed in entries:
            entry = timed.entry
            if isinstance(entry, TaskProcessed | CaseStarted) and entry.decision.set_ctx:
                writes.setdefault(entry.path, []).append(entry.decision.set_ctx)
        if not writes:
            return {}
        ledger = ConflictCheck(self._loop)
        found = {path: ledger.conflict(path, patches) for path, patches in writes.items()}
        return {path: key for path, key in found.items() if key is not None}

    def enter(self, timed: Timed) -> None:
        entry = timed.entry
        if self._cut:
            return  # the level is over
        match entry:
            case IterationStarted():
                self._begin(entry, timed.at)
            case TaskStarted() | KeychainRefreshed() | HookFailed() | JobPlaced() | TaskProcessed():
                self._task(entry, timed.at)
            case CaseStarted():
                self._enter_case(entry, timed.at)
            case IterationDone() | IterationFailed():
                self._end(entry, timed.at)
            case StepDone() | StepFailed():
                pass  # a range has no such end; a failure of the whole was taken before

    def _expects(self, path: Path) -> tuple[int, int] | None:
        # The moves of this report are not in the state yet; they are applied with the decision.
        if path in self._moved:
            return self._moved[path]
        iteration = self._loop.begun.get(path)
        return iteration.expects() if iteration is not None and iteration.order_id == self._span.order_id else None

    def _begin(self, entry: IterationStarted, at: float) -> None:
        path = entry.path
        # A report may only speak of iterations of its own order.
        is_own = path[:-1] == self._span.path and path[-1] == entry.index and entry.index in self._span
        if not is_own or path in self._moved or path in self._loop.begun or self._frame.ended[entry.index]:
            return
        self._add(entry, at)
        self._moved[path] = (self._run.progress.position.visit, self._run.progress.position.attempt)

    def _task(self, entry: _TaskEntry, at: float) -> None:
        path = entry.path
        if self._expects(path) != (entry.visit, entry.attempt):
            return  # a repeat of what is recorded (EVT-06)
        if not isinstance(entry, TaskProcessed):
            # Within one task run several notes are possible, so the position alone does not tell a repeat.
            mark = entry_key(entry, self._span.lease_epoch)
            here, begun = self._new_marks.setdefault(path, set()), self._loop.begun.get(path)
            if mark not in here and (begun is None or mark not in begun.task_events):
                here.add(mark)
                self._add(entry, at, entry.task_run_id)
            return
        self._moved[path] = run_expected_after(entry)
        event_id = self._decided(entry, at, entry.task_run_id)
        if self._follow is not None:
            self._follow.processed(entry, event_id, at)

    def _enter_case(self, entry: CaseStarted, at: float) -> None:
        """The first pass over the rules of an iteration, before its first task (V2C-23)."""
        path, begun = entry.path, self._loop.begun.get(entry.path)
        known = path in self._cased or (begun is not None and begun.position.case is not None)
        if known or self._expects(path) is None:
            return
        self._cased.add(path)
        self._decided(entry, at, None)

    def _decided(self, entry: Entry, at: float, task_run_id: str | None) -> str:
        """Record what was decided in an iteration, with what it writes unless that is refused; the id of the event."""
        path, conflict = entry.path, self._refused.get(entry.path)
        # The task has run and its end is recorded. Only its writes are dropped.
        if conflict is not None:
            entry = _without_writes(entry)
        event_id = self._add(without_notes(entry), at, task_run_id)
        add_notes(self._draft, self._run, entry, event_id, source=EventSource.WORKER, ts=at, task_run_id=task_run_id)
        if conflict is not None:
            self._refuse(path, conflict)
            return event_id
        for key, value in entry.decision.set_ctx.items():
            put_last(self._fresh, key, value)
        # Inside a parallel region writes are kept apart until the region ends and merges them.
        if entry.decision.set_ctx and self._frame.region is None:
            patch = {key: value for key, value in entry.decision.set_ctx.items() if key not in self._loop.reducers}
            patch_ctx(self._draft, self._execution, self._run, patch, parent_id=event_id)
        return event_id

    def _refuse(self, path: Path, key: str) -> None:
        """The iteration ends here, and its worker receives the request to stop it."""
        message = f'another iteration wrote a different value to "{key}" of ctx'
        error = Error(kind="ctx.conflict", message=message, details={"key": key})
        entry = IterationFailed(index=path[-1], path=path, error=error)
        self._draft.add(entry, run=self._run, on_behalf=True, parent_id=self._frame.event_id)
        self._count_ended(entry)
        self._stopped.append(path)

    def _end(self, entry: IterationDone | IterationFailed, at: float) -> None:
        if self._expects(entry.path) is not None:
            self._add(entry, at)
            if self._follow is not None and isinstance(entry, IterationDone):
                self._follow.ended(entry)
            self._count_ended(entry)

    def _count_ended(self, entry: IterationDone | IterationFailed) -> None:
        self._moved[entry.path] = None
        self._left -= 1
        self._ended[isinstance(entry, IterationFailed)] += 1
        if self._watched:
            self._judge(entry)

    def _judge(self, entry: IterationDone | IterationFailed) -> None:
        """Whether the level has what it wanted, now that this iteration has ended."""
        done, failed = self._ended
        result = payload_of(entry.result, self._plan.load) if isinstance(entry, IterationDone) else None
        ended = EndedIteration(entry.path, result, done=done, failed=failed, writes=self._fresh)
        draft, frame, at = self._draft, self._frame, self._command.at
        self._cut = cut_if_complete(self._plan, draft, self._execution, self._run, frame, ended, at)

    def _add(self, entry: _Entry, at: float, task_run_id: str | None = None) -> str:
        parent_id = self._frame.event_id
        return self._draft.report(entry, self._run, at=at, parent_id=parent_id, task_run_id=task_run_id).event_id

    def decision(self) -> Decision:
        # Every entry repeats what the log has: the worker did not receive the first answer.
        if not self._draft.events:
            return Decision(verdict=ReportResult.DUPLICATE)
        # A cut closes its orders itself.
        if self._left == 0 and not self._cut:
            span = self._span
            self._draft.add_effect(CloseOrder(span.order_id, self._run.step_run_id, span.lease_epoch))
        stopped = [self._span.path] if self._cut else self._stopped  # all of it, or single iterations
        return msgspec.structs.replace(self._draft.decision(), stopped=tuple(stopped))


def _without_writes(entry: Entry) -> Entry:
    """The task ran, but what it wrote is refused."""
    decision = msgspec.structs.replace(entry.decision, set_ctx={}, do=Directive.FAIL.value, next=None)
    return msgspec.structs.replace(entry, decision=decision)


# Consequences of an iteration beside its own events: how it is undone, tasks it did not wait for (SAGA-04, TOOL-12).
# A report may hold all of an iteration at once, so where it stood at each entry is followed here.
class Consequences:
    def __init__(self, plan: Plan, draft: Draft, execution: Execution, run: StepRun, span: Range) -> None:
        self._plan, self._draft, self._execution, self._run, self._span = plan, draft, execution, run, span
        self._step = plan.step(run.step)
        self._stands: dict[Path, Position] = {}
        self._children: dict[Path, tuple[str, ...]] = {}
        self._writes: dict[Path, dict[str, Any]] = {}

    def processed(self, entry: TaskProcessed, event_id: str, at: float) -> None:
        path, position = entry.path, self._position(entry.path)
        if entry.deferred:
            ctx, outer = self._ctx(path), outer_of(self._plan, self._run, self._step, path)
            start_async_task(
                self._draft, self._run, self._step, entry, position, event_id=event_id, outer=outer, ctx=ctx
            )
        self._stands[path] = position_after(position, entry, at)
        writes = self._writes[path] = dict(self._written(path))
        for key, value in entry.decision.set_ctx.items():
            put_last(writes, key, value)
        if child := child_of(entry):
            self._children[path] = (*self._children.get(path, ()), child)

    def ended(self, entry: IterationDone) -> None:
        path, step = entry.path, self._step
        begun = self._begun_iteration(path)
        children = (*(begun.children if begun is not None else ()), *self._children.get(path, ()))
        if step.compensation is None and not children:
            return
        outer = outer_of(self._plan, self._run, step, path)
        position = self._position(path)
        register_iteration(
            self._draft,
            self._execution,
            self._run,
            step,
            outer,
            entry.result,
            position.iter,
            children,
            self._ctx(path),
        )

    def _begun_iteration(self, path: Path) -> OpenIteration | None:
        return self._run.loop.begun.get(path) if self._run.loop is not None else None

    def _position(self, path: Path) -> Position:
        if path in self._stands:
            return self._stands[path]
        begun = self._begun_iteration(path)
        return begun.current_position() if begun is not None else self._run.progress.position

    def _ctx(self, path: Path) -> dict[str, Any]:
        """`ctx` as the iteration sees it."""
        return patched(ctx_for(self._execution, self._run, self._span), self._written(path))

    def _written(self, path: Path) -> dict[str, Any]:
        begun = self._begun_iteration(path)
        return self._writes.get(path) or (begun.writes if begun is not None else {})
