"""A step run has come to its wait blocks, and all of them begin together (TMR-02, O-25).

They are rendered once, here; the values are recorded, so that a restart changes no due time (TMR-06).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from noetl.base.errors import TemplateError, ToolError
from noetl.base.ids import derived
from noetl.engine.decision import ChangeTask, Decision, Draft, OpenWait
from noetl.engine.execution import Execution, StepRun
from noetl.engine.plan import Plan
from noetl.engine.scopes import wait_scope
from noetl.engine.v2_case.port import has_rules
from noetl.engine.waits import times
from noetl.engine.waits.state import WaitKind, new_task
from noetl.events import waits
from noetl.events.outcomes import Error
from noetl.events.steps import StepDone, StepFailed
from noetl.net import net
from noetl.net.net import Transition
from noetl.templates.render import render
from noetl.templates.scope import Scope
from noetl.templates.values import Authored

Armed = waits.TimerScheduled | waits.MessageAwaited | waits.SignalAwaited | waits.HumanCreated


def has_waits_next(step: Transition, run: StepRun) -> bool:
    """Whether a plain pipeline has just ended well. A case run comes to its waits before its end."""
    return (
        run.ended is not None
        and run.ended.name == StepDone.event_type
        and not run.step_waits.armed
        and not has_rules(step)
    )


def arm_waits(plan: Plan, execution: Execution, run: StepRun, at: float) -> Decision:
    """Begin all wait blocks of the step; one that cannot be rendered fails the step (TPL-09)."""
    draft = Draft(execution, at, derived(run.step_run_id, "arm"))
    parent_id = run.ended.event_id if run.ended is not None else execution.log.last_event_id
    scope = wait_scope(plan, execution, run)
    try:
        # All are rendered before any is armed: one that cannot be leaves no half-armed step behind.
        blocks = list(_blocks(plan.step(run.step), run, scope, at))
    except (TemplateError, ToolError) as problem:
        error = Error(kind=problem.kind, message=f'the wait of step "{run.step}": {problem}')
        draft.add(StepFailed(error=error), run=run, on_behalf=True, parent_id=parent_id)
        return draft.decision()
    for armed in blocks:
        draft.add(armed, run=run, parent_id=parent_id)
        _add_wait_effect(draft, run, armed, at)
    return draft.decision()


def _add_wait_effect(draft: Draft, run: StepRun, armed: Armed, at: float) -> None:
    about: dict[str, Any] = {"step_run_id": run.step_run_id, "opened_at": at}
    # A timer has no row: its time is in the log, and the wake-up time of its execution finds it.
    match armed:
        case waits.MessageAwaited():
            kind, name = WaitKind.MESSAGE.value, armed.name
            draft.add_effect(
                OpenWait(wait_id=armed.wait_id, kind=kind, name=name, correlation=armed.correlation, **about)
            )
        case waits.SignalAwaited():
            draft.add_effect(OpenWait(wait_id=armed.wait_id, kind=WaitKind.SIGNAL.value, name=armed.name, **about))
        case waits.HumanCreated():
            draft.add_effect(ChangeTask(new_task(armed, step=run.step, step_run_id=run.step_run_id, at=at)))


def _blocks(step: Transition, run: StepRun, scope: Scope, at: float) -> Iterator[Armed]:
    def wait_id(kind: WaitKind) -> str:
        # One block of each kind at most, so step run and kind name it; the same for a decision that is made again.
        return derived("wait", run.step_run_id, kind.value)

    if step.timer is not None:
        yield _timer(step.timer, wait_id(WaitKind.TIMER), scope, at)
    if step.message is not None:
        yield _message(step.message, wait_id(WaitKind.MESSAGE), scope, at)
    if step.signal is not None:
        yield waits.SignalAwaited(
            wait_id=wait_id(WaitKind.SIGNAL), name=_name("signal.name", step.signal.name, scope, at)
        )
    if step.human_task is not None:
        yield _human(step.human_task, wait_id(WaitKind.HUMAN), step.name, scope, at)


def _timer(timer: net.Timer, wait_id: str, scope: Scope, at: float) -> waits.TimerScheduled:
    if timer.until is not None:
        due_at = times.rendered_time("timer.until", timer.until, scope, at)
    else:
        assert timer.duration is not None, "a timer has one of the two"
        due_at = at + times.duration_s("timer.duration", timer.duration, scope, at)
    timer_id = _text("timer.id", timer.id, scope, at)
    return waits.TimerScheduled(wait_id=wait_id, timer_id=timer_id, due_at=due_at, cancellable=timer.cancellable)


def _message(message: net.Message, wait_id: str, scope: Scope, at: float) -> waits.MessageAwaited:
    correlation: dict[str, Any] = render(message.correlation, scope, now=at)  # written as a mapping, or refused
    if len(correlation) > waits.MAX_KEYS:
        raise TemplateError(f"message.correlation has {len(correlation)} keys, at most {waits.MAX_KEYS} are allowed")
    if len(waits.correlated(correlation)) > waits.MAX_BYTES:
        raise TemplateError(f"message.correlation is over {waits.MAX_BYTES} bytes; a key is enough to find it by")
    due_at = (
        at + times.duration_s("message.timeout", message.timeout, scope, at) if message.timeout is not None else None
    )
    return waits.MessageAwaited(
        wait_id=wait_id,
        name=_name("message.name", message.name, scope, at),
        correlation=correlation,
        due_at=due_at,
        timeout_action=message.timeout_action,
    )


def _human(task: net.HumanTask, task_id: str, step: str, scope: Scope, at: float) -> waits.HumanCreated:
    due_at = times.rendered_time_or_end("human_task.due_date", task.due_date, scope, at) if task.due_date else None
    after = task.escalate_after
    escalate_at = at + times.duration_s("human_task.escalation.after", after, scope, at) if after is not None else None
    return waits.HumanCreated(
        task_id=task_id,
        title=_text("human_task.title", task.title, scope, at) if task.title is not None else step,
        description=_optional("human_task.description", task.description, scope, at) or "",
        data=_task_data(task, scope, at),
        role=_optional("human_task.assignee.role", task.role, scope, at),
        user=_optional("human_task.assignee.user", task.user, scope, at),
        form=tuple(_field(field, scope, at) for field in task.form),
        due_at=due_at,
        escalate_at=escalate_at,
        escalate_to_role=_optional("human_task.escalation.to_role", task.escalate_to_role, scope, at),
        escalate_to_user=_optional("human_task.escalation.to_user", task.escalate_to_user, scope, at),
        escalation_mode=task.escalation_mode,
    )


def _task_data(task: net.HumanTask, scope: Scope, at: float) -> Any:
    """It is kept in the event and in the work list, and a person reads it: a part of a large result is enough."""
    if task.data is None:
        return None
    value = render(task.data, scope, now=at)
    if len(waits.correlated(value)) > waits.MAX_TASK_DATA:
        raise TemplateError(f"human_task.data is over {waits.MAX_TASK_DATA} bytes; give the part that a person reads")
    return value


def _field(field: net.FormField, scope: Scope, at: float) -> waits.RenderedField:
    return waits.RenderedField(
        field=field.field,
        type=field.type,
        options=field.options,
        required=field.required,
        default=render(field.default, scope, now=at) if field.default is not None else None,
    )


def _text(what: str, written: Authored, scope: Scope, at: float) -> str:
    """A name that people and messages go by: text, or a number written as text."""
    value = render(written, scope, now=at)
    # To Python, true is a number: as a name it would be "True".
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise TemplateError(f"{what} must be a text, this gave {value!r}")
    if "\0" in str(value):  # not every store could keep it, and a report that it comes with would never be taken
        raise TemplateError(f"{what} holds a NUL character: {value!r}")
    return str(value)


def _name(what: str, written: Authored, scope: Scope, at: float) -> str:
    """A text that a store looks up."""
    name = _text(what, written, scope, at)
    if len(name) > waits.MAX_NAME:
        raise TemplateError(f"{what} has {len(name)} characters, at most {waits.MAX_NAME} are allowed")
    return name


def _optional(what: str, written: Authored | None, scope: Scope, at: float) -> str | None:
    return _name(what, written, scope, at) if written is not None else None
