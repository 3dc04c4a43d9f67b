"""The fold: the state that views need, changed by one event at a time.

It keeps what is alive and how much of it, never one thing per iteration. An event costs the same at the first and at
the hundred-thousandth. A caller that also wants finished runs passes a list; every run is put into it as it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from noetl.events import waits
from noetl.events.control import JoinFilled, JoinUnfilled, PlaybookCancelled, PlaybookPaused, PlaybookResumed, TokenHeld
from noetl.events.envelope import Event
from noetl.events.events import TAXONOMY, WAITS
from noetl.events.executions import ExecutionRequested, PlaybookProcessed, WorkflowStarted
from noetl.events.loops import IterationDone, IterationFailed, LoopDone, LoopKept, LoopStarted
from noetl.events.outcomes import Error
from noetl.events.payloads import Payload
from noetl.events.projection import side_runs
from noetl.events.projection.views import Awaited, Failure, Held, PipelineView, StepRunView, Undoable
from noetl.events.side_runs import OrderClaimed, StepInterrupted
from noetl.events.steps import CaseHeard, CaseWaiting, StepDone, StepFailed, StepScheduled, StepStarted
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.events.tokens import NextSelected, TokenConsumed, TokenCreated, TokenDropped
from noetl.events.v2_case_positions import RetryStarted

_WITHDRAWN = frozenset({"cancelled", "ended", "late"})  # reasons of drops that are not failures


class Projection:
    """State after the events taken so far. `status` is running, paused, cancelling, or how it ended.

    The first event says which execution it is about. Events of nested ones add their steps and nothing else.
    """

    def __init__(self, history: list[StepRunView] | None = None) -> None:
        self.execution_id: str | None = None
        self.parent_execution_id: str | None = None
        self.path = ""
        self.status = "running"
        self.started_at: float | None = None
        self.finished_at: float | None = None
        self.error: Error | None = None  # the error that the execution ended with
        self.failure: Failure | None = None  # the first failure that no policy handled
        self.places: dict[str, str] = {}  # live tokens, by the step that each is at
        self.runs: dict[str, StepRunView] = {}  # step runs whose token lives
        self.steps: dict[str, StepRunView] = {}  # those of them whose tasks have not ended
        self.held: dict[str, Held] = {}  # tokens that are held, and open waits
        self.side_runs: dict[str, StepRunView] = {}  # side runs
        self.undoable: dict[str, Undoable] = {}  # registered compensations
        self.pending: dict[str, StepRunView] = {}  # compensations that are requested and have not begun
        self.done = 0
        self.failed = 0
        self.history = history
        self._is_cancelled = False
        self._nested: dict[str, str] = {}  # executions below this one, by the name of their playbook
        self._runs_of_tokens: dict[str, str] = {}  # the step run a token became
        self._waits: dict[str, list[str]] = {}  # waits of step runs; they are among the held ones

    @property
    def to_undo(self) -> int:
        return len(self.pending)

    @property
    def waiting(self) -> int:
        """Step runs whose tasks are done, and which wait for a time, a message, a signal or a person."""
        return sum(step_run_id not in self.steps for step_run_id in self._waits)

    def take_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self.take(event)

    def take(self, event: Event) -> StepRunView | None:
        """Apply one event; the step run it is about, in its state afterwards (or ended)."""
        if event.execution_id != self.execution_id and not self._belongs(event):
            return None
        view, kind = self._view(event.step_run_id), type(event.payload)
        if view is not None and (take := _OF_RUN.get(kind)) is not None:
            take(view, event.ts, event.payload)
        elif (apply := _APPLY.get(kind)) is not None:
            apply(self, event, event.payload, view)
            view = view or self._view(event.step_run_id)
        return view

    def name(self, event: Event) -> str:
        """The displayed name of the step that an event is about."""
        step = event.step or ""
        if event.execution_id == self.execution_id or not step:
            return step
        return f"{self._nested.get(event.execution_id, '')}/{step}"

    def remember(self, view: StepRunView) -> None:
        if self.history is not None:
            self.history.append(view)

    def run_of(self, token_id: str) -> str | None:
        """The id of the step run that a token is in; None while it is before its step."""
        return self._runs_of_tokens.get(token_id)

    def no_longer(self, step_run_id: str | None) -> None:
        """Note that a step run no longer waits for anything."""
        for wait_id in self._waits.pop(step_run_id or "", ()):
            self.held.pop(wait_id, None)

    def _view(self, step_run_id: str | None) -> StepRunView | None:
        return self.runs.get(step_run_id or "") or self.side_runs.get(step_run_id or "")

    def _belongs(self, event: Event) -> bool:
        """Whether an event of another execution belongs to this projection: only the steps of nested executions do."""
        if self.execution_id is None:
            self.execution_id = event.execution_id
            return True
        if isinstance(event.payload, ExecutionRequested):
            # The last part of the path: the prefix of each step of the child in a narrow list.
            self._nested[event.execution_id] = event.payload.path.rpartition("/")[2]
        return event.step_run_id is not None

    def _note(self, event: Event, failure: Failure) -> None:
        # The execution ends with the first one (ROUTE-08).
        if self.failure is None and event.execution_id == self.execution_id:
            self.failure = failure

    # the execution

    def _requested(self, event: Event, payload: ExecutionRequested, _: StepRunView | None) -> None:
        self.path, self.started_at = payload.path, event.ts
        self.parent_execution_id = payload.parent_execution_id

    def _workflow_started(self, event: Event, _: WorkflowStarted, __: StepRunView | None) -> None:
        self.started_at = event.ts

    def _paused(self, *_: Any) -> None:
        self.status = "paused"

    def _resumed(self, *_: Any) -> None:
        self.status = "cancelling" if self._is_cancelled else "running"

    def _cancelled(self, event: Event, payload: PlaybookCancelled, __: StepRunView | None) -> None:
        self.status, self._is_cancelled = "cancelling", True
        if payload.compensate:
            return
        for registration_id, view in reversed(self.pending.items()):  # runs that have not started are unchanged (O-02)
            path = view.origin.path if view.origin is not None else ()
            self.undoable[registration_id] = Undoable(view.step, view.pipeline.task or "", path)
            view.end("cancelled", event.ts)
        self.pending.clear()

    def _processed(self, event: Event, payload: PlaybookProcessed, _: StepRunView | None) -> None:
        self.status, self.finished_at, self.error = payload.status.value, event.ts, payload.error
        # Everything alive ended with the execution, without events of its own.
        for alive in (self.runs, self.steps, self.held, self._waits, self.side_runs):
            alive.clear()
        if payload.error is not None:
            self._note(event, Failure(payload.error))

    # tokens

    def _token_created(self, event: Event, payload: TokenCreated, _: StepRunView | None) -> None:
        self.places[payload.token_id] = payload.step

    def _token_held(self, event: Event, payload: TokenHeld, _: StepRunView | None) -> None:
        place = self.name(event) or self.places.get(payload.token_id, "")
        self.held[payload.token_id] = Held(place, payload.reason, event.ts)

    def _token_released(
        self, _: Event, payload: waits.TokenReleased | JoinFilled | JoinUnfilled, __: StepRunView | None
    ) -> None:
        self.held.pop(payload.token_id, None)

    def _token_gone(self, event: Event, payload: TokenConsumed | TokenDropped, view: StepRunView | None) -> None:
        self.held.pop(payload.token_id, None)
        place = self.places.pop(payload.token_id, None)
        step_run_id = self._runs_of_tokens.pop(payload.token_id, "")
        self.no_longer(step_run_id)
        self.steps.pop(step_run_id, None)
        run = self.runs.pop(step_run_id, None)
        if not isinstance(payload, TokenDropped):
            return
        if run is not None and run.finished_at is None:
            run.end("cancelled" if payload.reason in _WITHDRAWN else "failed", event.ts, payload.error)
        if payload.error is not None:
            self._note(event, Failure(payload.error, event.step or place))

    # step runs

    def _scheduled(self, event: Event, payload: StepScheduled, _: StepRunView | None) -> None:
        assert event.step_run_id is not None
        self.held.pop(payload.token_id, None)
        view = StepRunView(
            step=self.name(event),
            scheduled_at=event.ts,
            step_run_id=event.step_run_id,
            pipeline=PipelineView(payload.task),
        )
        self.runs[event.step_run_id] = self.steps[event.step_run_id] = view
        self._runs_of_tokens[payload.token_id] = event.step_run_id
        self.remember(view)

    def _ended(
        self, event: Event, payload: StepDone | StepFailed | LoopDone | StepInterrupted, view: StepRunView | None
    ) -> None:
        if view is None:
            return
        self.no_longer(event.step_run_id)
        error = payload.error if isinstance(payload, StepFailed) else None
        view.end("done" if error is None else "failed", event.ts, error)
        if self.steps.pop(event.step_run_id or "", None) is not None:
            self.failed += error is not None
            self.done += error is None

    def _timed_out(self, event: Event, payload: waits.StepTimeout, view: StepRunView | None) -> None:
        """Only an alternative ends the step run here; a failure has an event of its own (TMR-05)."""
        if view is not None and payload.action == "alternative":
            self.no_longer(event.step_run_id)
            view.end("done", event.ts)

    def _selected(self, event: Event, payload: NextSelected, view: StepRunView | None) -> None:
        self.no_longer(event.step_run_id)
        if view is not None and view.status == "waiting":
            view.end("done" if payload.error is None else "failed", event.ts, payload.error)
        if payload.ended == "failed" and payload.error is not None:
            task = view.pipeline.failing_task if view is not None and view.status == "failed" else None
            self._note(event, Failure(payload.error, event.step, task))

    # waits

    def _awaited(self, event: Event, payload: Awaited, view: StepRunView | None) -> None:
        wait_id = payload.task_id if isinstance(payload, waits.HumanCreated) else payload.wait_id
        self.held[wait_id] = Held(self.name(event), TAXONOMY[payload.event_type].entity, event.ts, payload)
        self._waits.setdefault(event.step_run_id or "", []).append(wait_id)
        if view is not None:
            view.wait(event.ts, payload)

    def _come(self, event: Event, payload: Any, _: StepRunView | None) -> None:
        """The first wait of a step run that ends also ends the others, except a timeout with `action: ignore`: the
        message may still arrive."""
        if not (isinstance(payload, waits.MessageTimeout) and payload.action == "ignore"):
            self.no_longer(event.step_run_id)


# Events that are about one run alone. Without their run they say nothing.
_OF_RUN: dict[type[Payload], Callable[[StepRunView, float, Any], None]] = {
    StepStarted: StepRunView.start,
    OrderClaimed: StepRunView.start,
    TaskStarted: StepRunView.start_task,
    TaskProcessed: StepRunView.end_task,
    RetryStarted: StepRunView.repeat_task,
    LoopStarted: StepRunView.start_loop,
    LoopKept: StepRunView.keep_iterations,
    IterationDone: StepRunView.end_iteration,
    IterationFailed: StepRunView.end_iteration,
    CaseWaiting: StepRunView.wait,
    CaseHeard: StepRunView.go_on,
}
_APPLY: dict[type[Payload], Callable[[Projection, Event, Any, StepRunView | None], None]] = {
    ExecutionRequested: Projection._requested,
    WorkflowStarted: Projection._workflow_started,
    PlaybookPaused: Projection._paused,
    PlaybookResumed: Projection._resumed,
    PlaybookCancelled: Projection._cancelled,
    PlaybookProcessed: Projection._processed,
    TokenCreated: Projection._token_created,
    TokenHeld: Projection._token_held,
    waits.TokenReleased: Projection._token_released,
    JoinFilled: Projection._token_released,
    JoinUnfilled: Projection._token_released,
    TokenConsumed: Projection._token_gone,
    TokenDropped: Projection._token_gone,
    StepScheduled: Projection._scheduled,
    StepDone: Projection._ended,
    StepFailed: Projection._ended,
    StepInterrupted: Projection._ended,
    LoopDone: Projection._ended,
    waits.StepTimeout: Projection._timed_out,
    NextSelected: Projection._selected,
    waits.TimerScheduled: Projection._awaited,
    waits.MessageAwaited: Projection._awaited,
    waits.SignalAwaited: Projection._awaited,
    waits.HumanCreated: Projection._awaited,
    waits.TimerFired: Projection._come,
    waits.TimerCancelled: Projection._come,
    waits.MessageReceived: Projection._come,
    waits.MessageTimeout: Projection._come,
    waits.SignalReceived: Projection._come,
    waits.TaskCompleted: Projection._come,
    **side_runs.APPLY,
}
# Data about step runs only: bounded by the steps of a run and the items that failed, not by all items of its loops.
_LOOPS = ("loop.started", "loop.iteration.failed", "loop.done")
STEP_EVENTS = ("step.*", *_LOOPS, *WAITS, "case.heard", "next.selected", "token.dropped")
TASK_EVENTS = ("task.started", "task.processed")
SIDE_RUN_EVENTS = (*(payload.event_type for payload in side_runs.APPLY), "order.claimed", "playbook.cancelled")
