"""Actions at due times (TMR-02, TMR-05, TMR-06, MSG-04, HUM-04, ADV-05)."""

from __future__ import annotations

from typing import assert_never

from noetl.base.ids import derived
from noetl.engine.decision import ChangeTask, Decision, Draft
from noetl.engine.execution import DueTime, Entry, Execution, StepRun, late_key
from noetl.engine.plan import Plan
from noetl.engine.side_runs.orders import stop_handlers
from noetl.engine.token_creation import release_due_token
from noetl.engine.waits.state import HumanTaskEvent, OpenHumanTask, Wait, WaitKind, changed_task
from noetl.engine.waits.times import expiry_error, expiry_of, timeout_error
from noetl.engine.withdrawal import close_orders, close_waits
from noetl.events import waits
from noetl.events.executions import PlaybookLate
from noetl.events.outcomes import Error
from noetl.events.steps import StepFailed

Ending = (
    waits.TimerFired
    | waits.TimerCancelled
    | waits.MessageReceived
    | waits.MessageTimeout
    | waits.SignalReceived
    | waits.TaskCompleted
)


def fire_due_time(plan: Plan, execution: Execution, entry: Entry, at: float) -> Decision:
    """The due times that fire now; they never fire again."""
    _, _, alarm, key = entry
    match alarm:
        case DueTime.WAIT:
            return _wait_due(execution, execution.open_waits.waits[key], at)
        case DueTime.DUE:
            overdue = waits.HumanOverdue(task_id=key)
            return task_decision(
                execution, execution.open_waits.human_tasks[key], overdue, at, cause=overdue.event_type
            )
        case DueTime.ESCALATE:
            return _escalate(execution, execution.open_waits.human_tasks[key], at)
        case DueTime.TIMEOUT:
            return step_timeout(plan, execution, execution.runs[key], at)
        case DueTime.LIFETIME:
            return _lifetime_over(execution, execution.runs[key], at)
        case DueTime.RELEASE:
            return release_due_token(plan, execution, execution.tokens[key], at)
        case DueTime.LATE:
            return _execution_late(execution, float(key), at)
        case _:
            assert_never(alarm)


def _execution_late(execution: Execution, after_s: float, at: float) -> Decision:
    draft = Draft(execution, at, derived(execution.execution_id, "late", late_key(after_s)))
    draft.add(PlaybookLate(after_s=after_s), parent_id=execution.log.last_event_id)
    return draft.decision()


def end_wait(draft: Draft, execution: Execution, wait: Wait, ending: Ending) -> None:
    """One wait of a step has come; the others are withdrawn with it (TMR-02)."""
    run = execution.runs[wait.step_run_id]
    event = draft.add(ending, run=run, parent_id=wait.event_id)
    close_waits(draft, execution, run, parent_id=event.event_id, came=wait.wait_id)


def _wait_due(execution: Execution, wait: Wait, at: float) -> Decision:
    draft = Draft(execution, at, derived(wait.wait_id, "due"))
    if wait.kind is WaitKind.TIMER:
        end_wait(draft, execution, wait, waits.TimerFired(wait_id=wait.wait_id, timer_id=wait.name))
        return draft.decision()
    timeout = waits.MessageTimeout(wait_id=wait.wait_id, name=wait.name, action=wait.timeout_action)
    if wait.timeout_action == "escalate":
        end_wait(draft, execution, wait, timeout)
        return draft.decision()
    run = execution.runs[wait.step_run_id]
    event = draft.add(timeout, run=run, parent_id=wait.event_id)
    # With `ignore` the event is all: the step keeps waiting for its message.
    if wait.timeout_action == "fail":
        error = Error(kind="message.timeout", message=f'no message "{wait.name}" came in time')
        stop_step_run(draft, execution, run)
        draft.add(StepFailed(error=error), run=run, on_behalf=True, parent_id=event.event_id)
    return draft.decision()


def _escalate(execution: Execution, task: OpenHumanTask, at: float) -> Decision:
    asked = task.asked
    escalated = waits.HumanEscalated(
        task_id=asked.task_id, mode=asked.escalation_mode, role=asked.escalate_to_role, user=asked.escalate_to_user
    )
    return task_decision(execution, task, escalated, at, cause=escalated.event_type)


def task_decision(
    execution: Execution, task: OpenHumanTask, payload: HumanTaskEvent, at: float, *, cause: object
) -> Decision:
    """The event of a task that stays open, with its changed row in the work list."""
    draft = Draft(execution, at, derived(task.task_id, cause))
    wait, run = execution.open_waits.waits[task.task_id], execution.runs[task.step_run_id]
    draft.add(payload, run=run, parent_id=wait.event_id)
    draft.add_effect(ChangeTask(changed_task(task, payload, at)))
    return draft.decision()


def _lifetime_over(execution: Execution, run: StepRun, at: float) -> Decision:
    """A step run that waits has come to the end of its lifetime (O-21)."""
    expiry = expiry_of(execution, run)
    assert expiry is not None
    draft = Draft(execution, at, derived(run.step_run_id, "outlived"))
    # Stopped first, so that no wait or order is open when the run has ended.
    stop_step_run(draft, execution, run)
    draft.add(StepFailed(error=expiry_error(expiry[0])), run=run, on_behalf=True, parent_id=run.event_id)
    return draft.decision()


# Timeouts: the `timeout` block of a step, in any state of the step (TMR-05).
def step_timeout(plan: Plan, execution: Execution, run: StepRun, at: float) -> Decision:
    """`ignore` only tells; `fail` fails the step; `alternative` stops it and its token goes another way."""
    timeout = plan.step(run.step).timeout
    assert timeout is not None, "only a step with a timeout times out"
    draft = Draft(execution, at, derived(run.step_run_id, "timeout"))
    if timeout.on_timeout != "ignore":
        stop_step_run(draft, execution, run)
    expired_event = waits.StepTimeout(action=timeout.on_timeout, alternative=timeout.alternative)
    event = draft.add(expired_event, run=run, parent_id=run.event_id)
    # For `alternative` the time-out itself is the boundary event of the run: its token goes to the other step
    # (engine/routing.py).
    if timeout.on_timeout == "fail":
        draft.add(StepFailed(error=timeout_error(run.step)), run=run, on_behalf=True, parent_id=event.event_id)
    return draft.decision()


def stop_step_run(draft: Draft, execution: Execution, run: StepRun) -> None:
    """The step run has ended: its orders and its waits are closed."""
    # A run whose body has ended only waits: it has no order any more.
    if run.ended is None:
        close_orders(draft, run)
    close_waits(draft, execution, run)
    if execution.side_work.step_runs:
        stop_handlers(draft, execution, run.step_run_id)
