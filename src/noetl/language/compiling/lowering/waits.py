"""Wait blocks, timeouts, compensation and event handlers, lowered (TMR, MSG, HUM, SAGA, ADV)."""

from __future__ import annotations

from typing import Any

from noetl.language.compiling.lowering.debug_map import Lowering
from noetl.language.compiling.lowering.tasks import TaskLowering
from noetl.language.compiling.lowering.values import authored, written
from noetl.language.reading import playbook as document
from noetl.language.reading.nodes import data
from noetl.net.debug import part_address
from noetl.net.waits import Compensation, FormField, Handler, Handlers, HumanTask, Message, Signal, Timeout, Timer


def lower_waits(lowering: Lowering, step: document.StepSyntax, tasks: TaskLowering) -> dict[str, Any]:
    """Those fields of the transition that the step has blocks for."""
    found: dict[str, Any] = {}
    if step.timer is not None:
        found["timer"] = _timer(step.timer, step)
    if step.message is not None:
        found["message"] = _message(step.message)
    if step.signal is not None:
        found["signal"] = Signal(name=written(step.signal.name))
    if step.human_task is not None:
        found["human_task"] = _human_task(step.human_task)
    if step.timeout is not None:
        found["timeout"] = _timeout(step.timeout)
    for name in found:
        lowering.trace(part_address(step.name, name), getattr(step, name))
    if step.compensate is not None:
        lowering.trace(part_address(step.name, "compensation"), step.compensate)
        compensating = tasks.pipeline(step.compensate.tasks, "compensation")
        found["compensation"] = Compensation(tasks=compensating, idempotent=step.compensate.idempotent)
    if step.on_event is not None:
        lowering.trace(part_address(step.name, "handlers"), step.on_event)
        found["handlers"] = _handlers(step.on_event, tasks)
    return found


def _timer(timer: document.TimerSyntax, step: document.StepSyntax) -> Timer:
    return Timer(
        id=written(timer.id, step.name),
        duration=authored(timer.duration),
        until=authored(timer.until),
        cancellable=timer.cancellable,
    )


def _message(message: document.MessageSyntax) -> Message:
    return Message(
        name=written(message.name),
        correlation=written(message.correlation, {}),
        timeout=authored(message.timeout),
        timeout_action=message.timeout_action,
    )


def _human_task(task: document.HumanTaskSyntax) -> HumanTask:
    return HumanTask(
        title=authored(task.title),
        description=authored(task.description),
        data=authored(task.data),
        role=authored(task.role),
        user=authored(task.user),
        form=tuple(_form_field(field) for field in task.form),
        due_date=authored(task.due_date),
        escalate_after=authored(task.escalate_after),
        escalate_to_role=authored(task.escalate_to_role),
        escalate_to_user=authored(task.escalate_to_user),
        escalation_mode=task.escalation_mode,
    )


def _form_field(field: document.FormFieldSyntax) -> FormField:
    return FormField(
        field=field.field,
        type=field.type,
        options=tuple(data(option) for option in field.options),
        required=field.required,
        default=authored(field.default),
    )


def _timeout(timeout: document.TimeoutSyntax) -> Timeout:
    taken = timeout.alternative if timeout.on_timeout == "alternative" else None
    alternative = str(taken.value) if taken is not None else None
    return Timeout(duration=written(timeout.duration), on_timeout=timeout.on_timeout, alternative=alternative)


def _handlers(on_event: document.OnEvent, tasks: TaskLowering) -> Handlers:
    handlers = tuple(
        Handler(
            event=str(handler.event.value),
            when=authored(handler.when),
            tasks=tasks.pipeline(handler.tasks, f"handlers/{index}"),
        )
        for index, handler in enumerate(on_event.handlers)
    )
    return Handlers(handlers=handlers, interrupting=on_event.interrupting)
