"""Progress: what an execution is doing, told from its events one by one, for whoever shows it.

It keeps what is alive and how much of it, never one thing per iteration: an event costs the same at the first and at
the hundred-thousandth. The words and the screen are other modules' business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from noetl.cli import side_run_progress
from noetl.cli.step_view import Failure, Held, Level, RetryView, StepView
from noetl.cli.wait_text import Awaited, awaited, kind_of, wait_id_of
from noetl.events.cases import RetryStarted
from noetl.events.control import PlaybookCancelled, PlaybookPaused, PlaybookResumed, TokenHeld
from noetl.events.envelope import Event
from noetl.events.executions import ExecutionRequested, PlaybookProcessed, WorkflowStarted
from noetl.events.loops import IterationDone, IterationFailed, LoopDone, LoopStarted
from noetl.events.routing import NextSelected
from noetl.events.steps import StepDone, StepFailed, StepScheduled, StepStarted
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.events.tokens import TokenConsumed, TokenCreated, TokenDropped
from noetl.events.waits import (
    HumanCreated,
    MessageAwaited,
    MessageReceived,
    MessageTimeout,
    SignalAwaited,
    SignalReceived,
    TaskCompleted,
    TimerCancelled,
    TimerFired,
    TimerScheduled,
)


class RunProgress:
    """State after the events taken so far. `status` is running, paused, or how it ended.

    The first event says which execution it is about. Events of nested ones add their steps and nothing else.
    """

    def __init__(self) -> None:
        self.execution_id: str | None = None
        self.path = ""
        self.status = "running"
        self.started_at: float | None = None
        self.finished_at: float | None = None
        self.steps: dict[str, StepView] = {}
        self.held: dict[str, Held] = {}
        self.side_runs: dict[str, StepView] = {}  # what runs beside the tokens
        self.to_undo = 0  # compensations that are asked for and have not begun
        self.done = 0
        self.failed = 0
        self.failure: Failure | None = None
        self._nested: dict[str, str] = {}  # executions below this one, by the name of their playbook
        self._places: dict[str, str] = {}  # where a token is, while no step run has it
        self._runs: dict[str, str] = {}  # the step run a token became
        self._waits: dict[str, list[str]] = {}  # what a step run waits for; these are among those held
        self._failing: dict[str, str | None] = {}  # the task that a failed step run failed at

    @property
    def waiting(self) -> int:
        """Step runs whose tasks are done, and which wait for a moment or for somebody outside."""
        return sum(step_run_id not in self.steps for step_run_id in self._waits)

    def take_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self.take(event)

    def take(self, event: Event) -> StepView | None:
        """Apply one event; the step run it is about, as it stands afterwards (or ended)."""
        if event.execution_id != self.execution_id and not self._belongs(event):
            return None
        view = self._view(event.step_run_id)
        apply = _APPLY.get(type(event.payload))
        if apply is not None:
            apply(self, event, event.payload, view)
            if view is None and event.step_run_id is not None:
                view = self._view(event.step_run_id)
        return view

    def _view(self, step_run_id: str | None) -> StepView | None:
        return self.steps.get(step_run_id or "") or self.side_runs.get(step_run_id or "")

    def name(self, event: Event) -> str:
        """The step an event is about, as it is shown."""
        step = event.step or ""
        if event.execution_id == self.execution_id or not step:
            return step
        return f"{self._nested.get(event.execution_id, '')}/{step}"

    def _belongs(self, event: Event) -> bool:
        """Whether an event of another execution says something about this one: the steps of nested ones do."""
        if self.execution_id is None:
            self.execution_id = event.execution_id
            return True
        if isinstance(event.payload, ExecutionRequested):
            self._nested[event.execution_id] = event.payload.path.rpartition("/")[2]
        return event.step_run_id is not None

    # one function per event that says something about progress

    def _requested(self, event: Event, payload: ExecutionRequested, _: StepView | None) -> None:
        self.path, self.started_at = payload.path, event.ts

    def _workflow_started(self, event: Event, _: WorkflowStarted, __: StepView | None) -> None:
        self.started_at = event.ts

    def _token_created(self, event: Event, payload: TokenCreated, _: StepView | None) -> None:
        self._places[payload.token_id] = payload.step

    def _token_held(self, event: Event, payload: TokenHeld, _: StepView | None) -> None:
        place = self.name(event) or self._places.get(payload.token_id, "")
        self.held[payload.token_id] = Held(place, payload.reason, event.ts)

    def _token_gone(self, event: Event, payload: TokenConsumed | TokenDropped, _: StepView | None) -> None:
        self.held.pop(payload.token_id, None)
        self._no_longer(self._runs.get(payload.token_id))
        place = self._places.pop(payload.token_id, None)
        self.steps.pop(self._runs.pop(payload.token_id, ""), None)
        if isinstance(payload, TokenDropped) and payload.error is not None:
            self._note(event, Failure(payload.error, event.step or place))

    def _scheduled(self, event: Event, payload: StepScheduled, _: StepView | None) -> None:
        assert event.step_run_id is not None
        self.held.pop(payload.token_id, None)
        self.steps[event.step_run_id] = StepView(self.name(event), payload.token_id, event.ts, task=payload.task)
        self._runs[payload.token_id] = event.step_run_id

    def _step_started(self, event: Event, _: StepStarted, view: StepView | None) -> None:
        if view is not None:
            view.started_at = event.ts

    def _task_started(self, _: Event, payload: TaskStarted, view: StepView | None) -> None:
        if view is not None and not payload.path:
            view.task, view.attempt, view.retry = payload.task, payload.attempt, None

    def _task_processed(self, event: Event, payload: TaskProcessed, view: StepView | None) -> None:
        if view is None:
            return
        decision = payload.decision
        view.last_error = payload.outcome.error
        if decision.do == "retry":
            at = event.ts + decision.delay_s
            view.retry = RetryView(payload.task, payload.attempt + 1, at, payload.outcome.error)
            view.retries += 1
        elif decision.error is not None:
            view.failing_task = payload.task
        if not payload.path and decision.next is not None:
            view.task = decision.next

    def _repeated(self, event: Event, payload: RetryStarted, view: StepView | None) -> None:
        if view is not None:
            view.retry = RetryView(payload.task, payload.count, event.ts + payload.delay_s, view.last_error)
            view.retries += 1

    def _loop_started(self, event: Event, payload: LoopStarted, view: StepView | None) -> None:
        if view is None:
            return
        depth = len(payload.path)
        if len(view.levels) <= depth:
            view.levels = [*view.levels, *(Level() for _ in range(depth + 1 - len(view.levels)))]
            view.samples.clear()
        view.levels[depth].total += payload.total
        view.sample(event.ts)

    def _iteration_done(self, event: Event, payload: IterationDone, view: StepView | None) -> None:
        if view is not None and len(payload.path) <= len(view.levels):
            view.levels[len(payload.path) - 1].done += 1
            view.sample(event.ts)

    def _iteration_failed(self, event: Event, payload: IterationFailed, view: StepView | None) -> None:
        if view is not None and len(payload.path) <= len(view.levels):
            view.levels[len(payload.path) - 1].failed += 1
            view.sample(event.ts)

    def _ended(self, event: Event, payload: StepDone | StepFailed | LoopDone, view: StepView | None) -> None:
        if event.step_run_id is None or self.steps.pop(event.step_run_id, None) is None:
            return
        if isinstance(payload, StepFailed):
            self.failed += 1
            self._failing[event.step_run_id] = view.failing_task if view is not None else None
        else:
            self.done += 1

    def _awaited(self, event: Event, payload: Awaited, _: StepView | None) -> None:
        wait_id = wait_id_of(payload)
        self.held[wait_id] = Held(self.name(event), kind_of(payload), event.ts, awaited(payload))
        self._waits.setdefault(event.step_run_id or "", []).append(wait_id)

    def _come(self, event: Event, payload: Any, _: StepView | None) -> None:
        """The first wait of a step run to come ends the others; a message that only times out may be waited for on."""
        if not (isinstance(payload, MessageTimeout) and payload.action == "ignore"):
            self._no_longer(event.step_run_id)

    def _no_longer(self, step_run_id: str | None) -> None:
        for wait_id in self._waits.pop(step_run_id or "", ()):
            self.held.pop(wait_id, None)

    def _selected(self, event: Event, payload: NextSelected, _: StepView | None) -> None:
        self._no_longer(event.step_run_id)
        task = self._failing.pop(event.step_run_id or "", None)
        if payload.ended == "failed" and payload.error is not None:
            self._note(event, Failure(payload.error, event.step, task))

    def _paused(self, *_: Any) -> None:
        self.status = "paused"

    def _resumed(self, *_: Any) -> None:
        self.status = "running"

    def _cancelled(self, _: Event, payload: PlaybookCancelled, __: StepView | None) -> None:
        self.status = "cancelling"
        if not payload.compensate:
            self.to_undo = 0  # what has not begun stays as it is (O-02)

    def _processed(self, event: Event, payload: PlaybookProcessed, _: StepView | None) -> None:
        self.status, self.finished_at = payload.status.value, event.ts
        self.steps.clear()
        self.held.clear()
        self._waits.clear()
        self.side_runs.clear()
        if payload.error is not None:
            self._note(event, Failure(payload.error))

    def _note(self, event: Event, failure: Failure) -> None:
        if (
            self.failure is None and event.execution_id == self.execution_id
        ):  # the execution ends with the first one (ROUTE-08)
            self.failure = failure


_APPLY: dict[type, Callable[[RunProgress, Event, Any, StepView | None], None]] = {
    ExecutionRequested: RunProgress._requested,
    WorkflowStarted: RunProgress._workflow_started,
    TokenCreated: RunProgress._token_created,
    TokenHeld: RunProgress._token_held,
    TokenConsumed: RunProgress._token_gone,
    TokenDropped: RunProgress._token_gone,
    StepScheduled: RunProgress._scheduled,
    StepStarted: RunProgress._step_started,
    TaskStarted: RunProgress._task_started,
    TaskProcessed: RunProgress._task_processed,
    RetryStarted: RunProgress._repeated,
    LoopStarted: RunProgress._loop_started,
    IterationDone: RunProgress._iteration_done,
    IterationFailed: RunProgress._iteration_failed,
    StepDone: RunProgress._ended,
    StepFailed: RunProgress._ended,
    LoopDone: RunProgress._ended,
    TimerScheduled: RunProgress._awaited,
    MessageAwaited: RunProgress._awaited,
    SignalAwaited: RunProgress._awaited,
    HumanCreated: RunProgress._awaited,
    TimerFired: RunProgress._come,
    TimerCancelled: RunProgress._come,
    MessageReceived: RunProgress._come,
    MessageTimeout: RunProgress._come,
    SignalReceived: RunProgress._come,
    TaskCompleted: RunProgress._come,
    NextSelected: RunProgress._selected,
    PlaybookPaused: RunProgress._paused,
    PlaybookResumed: RunProgress._resumed,
    PlaybookCancelled: RunProgress._cancelled,
    PlaybookProcessed: RunProgress._processed,
    **side_run_progress.APPLY,
}
