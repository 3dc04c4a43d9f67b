"""Waits and human tasks as the state knows them. Plain data; `waits.evolution` alone changes what an execution has.
The same functions tell human tasks to the state and to the work list, so that both agree (HUM-01)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from noetl.events import waits


class WaitKind(StrEnum):
    TIMER = "timer"
    MESSAGE = "message"
    SIGNAL = "signal"
    HUMAN = "human_task"


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """One armed block of a step run."""

    wait_id: str  # of a human task: the id of the task
    step_run_id: str
    event_id: str  # of the event that armed it
    kind: WaitKind
    name: str  # the author's word: the timer's id, what a message or a signal is called
    opened_at: float
    correlation: dict[str, Any] = {}  # fields that a message must contain to end it
    due_at: float | None = None  # when the timer fires, or the wait for a message is over
    cancellable: bool = False  # a timer that people may cancel (TMR-04)
    timeout_action: str = "escalate"  # the action when no message arrives (MSG-04)


class HumanTaskState(StrEnum):
    OPEN = "open"
    CLAIMED = "claimed"
    COMPLETED = "completed"
    WITHDRAWN = "withdrawn"  # its step is over without it


class TaskEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry in the history of a human task: claimed, released, commented, overdue, escalated (`text`: to whom),
    completed."""

    at: float
    what: str
    actor: str | None = None
    text: str = ""


class OpenHumanTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task of a person, open or over: what was asked, and what has become of it since."""

    asked: waits.HumanCreated  # the question, its form and its times, as the event has them
    step: str
    step_run_id: str
    created_at: float
    state: HumanTaskState = HumanTaskState.OPEN
    version: int = 1  # counts its changes: a person who acts on an earlier one is refused
    history: tuple[TaskEntry, ...] = ()  # the oldest first
    # Who may do it now: an escalation can name others than `asked`. Without role and user, every person may.
    role: str | None = None
    user: str | None = None
    claimed_by: str | None = None
    completed_by: str | None = None
    result: dict[str, Any] | None = None  # the values it was completed with
    overdue: bool = False  # its due time has passed while it was open
    escalated: bool = False
    ended_at: float | None = None

    @property
    def task_id(self) -> str:
        return self.asked.task_id

    @property
    def title(self) -> str:
        return self.asked.title

    @property
    def form(self) -> list[dict[str, Any]]:
        """Its fields, as plain data."""
        return [msgspec.to_builtins(field) for field in self.asked.form]

    @property
    def is_open(self) -> bool:
        return self.state in (HumanTaskState.OPEN, HumanTaskState.CLAIMED)


HumanTaskEvent = (
    waits.HumanClaimed
    | waits.HumanReleased
    | waits.HumanCommented
    | waits.HumanOverdue
    | waits.HumanEscalated
    | waits.TaskCompleted
)


def new_task(payload: waits.HumanCreated, *, step: str, step_run_id: str, at: float) -> OpenHumanTask:
    return OpenHumanTask(
        asked=payload, step=step, step_run_id=step_run_id, created_at=at, role=payload.role, user=payload.user
    )


def changed_task(task: OpenHumanTask, payload: HumanTaskEvent, at: float) -> OpenHumanTask:
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
            if payload.mode == "reassign":  # the previous user loses it (HUM-04)
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


def _entry(payload: HumanTaskEvent, at: float) -> TaskEntry:
    what = payload.event_type.rpartition(".")[2]
    return TaskEntry(
        at=at,
        what=what,
        actor=getattr(payload, "actor", None),
        text=getattr(payload, "text", "") or _new_owner(payload),
    )


def _new_owner(payload: HumanTaskEvent) -> str:
    return (payload.role or payload.user or "") if isinstance(payload, waits.HumanEscalated) else ""


def withdrawn_task(task: OpenHumanTask, at: float) -> OpenHumanTask:
    return msgspec.structs.replace(task, version=task.version + 1, state=HumanTaskState.WITHDRAWN, ended_at=at)
