"""Waits and human tasks as the state knows them. Plain data; `waits.evolution` alone changes what an execution has."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


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
    correlation: dict[str, Any] = {}  # what a message must hold to end it
    due_at: float | None = None  # when the timer fires, or the wait for a message is over
    cancellable: bool = False  # a timer that people may cancel (TMR-04)
    timeout_action: str = "escalate"  # what a message does that never came (MSG-04)


class HumanTaskState(StrEnum):
    OPEN = "open"
    CLAIMED = "claimed"
    COMPLETED = "completed"
    WITHDRAWN = "withdrawn"  # its step is over without it


class TaskEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened to a human task: claimed, released, commented, overdue, escalated (`text`: to whom), completed."""

    at: float
    what: str
    actor: str | None = None
    text: str = ""


class OpenHumanTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task of a person, open or over, with the names and values that the work list has. `form` is plain data;
    `escalate_to_role` or `escalate_to_user` has it after `escalate_at`."""

    task_id: str
    step: str
    step_run_id: str
    state: HumanTaskState = HumanTaskState.OPEN
    version: int = 1
    title: str
    description: str = ""
    data: Any = None  # what the person decides by
    history: tuple[TaskEntry, ...] = ()
    role: str | None = None
    user: str | None = None
    form: tuple[dict[str, Any], ...] = ()
    claimed_by: str | None = None
    completed_by: str | None = None
    result: dict[str, Any] | None = None
    created_at: float
    due_at: float | None = None
    overdue: bool = False
    escalated: bool = False
    ended_at: float | None = None
    escalate_at: float | None = None
    escalate_to_role: str | None = None
    escalate_to_user: str | None = None
    escalation_mode: str = "reassign"

    @property
    def is_open(self) -> bool:
        return self.state in (HumanTaskState.OPEN, HumanTaskState.CLAIMED)
