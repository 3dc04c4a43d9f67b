"""Human tasks, event by event: the same functions tell the state and the work list, so that both agree (HUM-01)."""

from __future__ import annotations

import msgspec

from noetl.engine.waits.state import HumanTaskState, OpenHumanTask, TaskEntry
from noetl.events import waits

Changing = (
    waits.HumanClaimed
    | waits.HumanReleased
    | waits.HumanCommented
    | waits.HumanOverdue
    | waits.HumanEscalated
    | waits.TaskCompleted
)


def created(payload: waits.HumanCreated, *, step: str, step_run_id: str, at: float) -> OpenHumanTask:
    return OpenHumanTask(
        task_id=payload.task_id,
        step=step,
        step_run_id=step_run_id,
        title=payload.title,
        description=payload.description,
        data=payload.data,
        role=payload.role,
        user=payload.user,
        form=tuple(msgspec.to_builtins(field) for field in payload.form),
        created_at=at,
        due_at=payload.due_at,
        escalate_at=payload.escalate_at,
        escalate_to_role=payload.escalate_to_role,
        escalate_to_user=payload.escalate_to_user,
        escalation_mode=payload.escalation_mode,
    )


def changed(task: OpenHumanTask, payload: Changing, at: float) -> OpenHumanTask:
    """The task after one more event; its version counts them."""
    fields: dict[str, object] = {}
    match payload:
        case waits.HumanClaimed():
            fields = {"state": HumanTaskState.CLAIMED, "claimed_by": payload.actor}
        case waits.HumanReleased():
            fields = {"state": HumanTaskState.OPEN, "claimed_by": None}
        case waits.HumanOverdue():
            fields = {"overdue": True}
        case waits.HumanEscalated():
            fields = {"escalated": True}
            if payload.mode == "reassign":  # it is nobody's any more who had it before (HUM-04)
                fields |= {"role": payload.role, "user": payload.user, "state": HumanTaskState.OPEN, "claimed_by": None}
        case waits.TaskCompleted():
            fields = {
                "state": HumanTaskState.COMPLETED,
                "completed_by": payload.actor,
                "result": payload.result,
                "ended_at": at,
            }
        case waits.HumanCommented():
            pass  # the history below tells it
    # Comments are bounded where they are made, and what else happens to a task happens a few times.
    history = (*task.history, _entry(payload, at))
    return msgspec.structs.replace(task, version=task.version + 1, history=history, **fields)


def _entry(payload: Changing, at: float) -> TaskEntry:
    what = payload.event_type.rpartition(".")[2]
    return TaskEntry(
        at=at,
        what=what,
        actor=getattr(payload, "actor", None),
        text=getattr(payload, "text", "") or _new_owner(payload),
    )


def _new_owner(payload: Changing) -> str:
    return (payload.role or payload.user or "") if isinstance(payload, waits.HumanEscalated) else ""


def withdrawn(task: OpenHumanTask, at: float) -> OpenHumanTask:
    return msgspec.structs.replace(task, version=task.version + 1, state=HumanTaskState.WITHDRAWN, ended_at=at)
