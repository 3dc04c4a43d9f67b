"""Timers, messages, signals, human tasks, timeouts of steps, tokens held until a moment (O-24).

A `wait_id` names one armed block of one step run and follows from it; a `timer_id` is the author's own word. Moments
are seconds since the epoch.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.events.payloads import EventMeaning, EventPhase, Payload

MAX_KEYS = 8  # of a correlation: a wait may name any subset of a message's keys (MSG-01)
MAX_TASK_DATA = 65_536  # bytes of what a person decides by
MAX_BYTES = 1_024  # of what is waited for: it is looked up by its whole text, which an index has to hold
MAX_NAME = 200  # characters of a name that is looked up so


def correlated(value: Any) -> bytes:
    """A correlation, or a value of one, as text: equal ones give equal texts. 7 and 7.0 are one number; 7, "7" and true
    are three values."""
    return msgspec.json.encode(_one_spelling(value), order="sorted")


def _one_spelling(value: Any) -> Any:
    match value:
        # JSON of other programs writes 7 as 7.0; past 2**53 a float is no exact integer.
        case float() if value.is_integer() and abs(value) < 2**53:
            return int(value)
        case list():
            return [_one_spelling(one) for one in value]
        case dict():
            return {key: _one_spelling(one) for key, one in value.items()}
        case _:
            return value


class TimerScheduled(Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "timer.scheduled"
    meaning = EventMeaning("timer", EventPhase.WAITING)

    wait_id: str
    timer_id: str
    due_at: float
    cancellable: bool = False


class TimerFired(Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "timer.fired"
    meaning = EventMeaning("timer", EventPhase.GOOD, ends=("timer.scheduled",))

    wait_id: str
    timer_id: str


class TimerCancelled(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`withdrawn`: not by a request; another wait of its step ended first, or its step has ended (TMR-04)."""

    event_type = "timer.cancelled"
    meaning = EventMeaning("timer", EventPhase.GOOD, ends=("timer.scheduled",))

    wait_id: str
    timer_id: str
    actor: str | None = None
    withdrawn: bool = False


class MessageAwaited(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`timeout_action`: escalate | fail | ignore (MSG-04)."""

    event_type = "message.awaited"
    meaning = EventMeaning("message", EventPhase.WAITING)

    wait_id: str
    name: str
    correlation: dict[str, Any] = {}
    due_at: float | None = None
    timeout_action: str = "escalate"


class MessageReceived(Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "message.received"
    meaning = EventMeaning("message", EventPhase.GOOD, ends=("message.awaited",))

    wait_id: str
    message_id: str
    name: str
    correlation: dict[str, Any] = {}
    payload: Any = None


class MessageTimeout(Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "message.timeout"
    meaning = EventMeaning("message", EventPhase.BAD, ends=("message.awaited",))

    wait_id: str
    name: str
    action: str = "escalate"


class SignalAwaited(Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "signal.awaited"
    meaning = EventMeaning("signal", EventPhase.WAITING)

    wait_id: str
    name: str


class SignalReceived(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`wait_id` None: no step waits for it by name, only rules that listen. `again`: the same signal ends a further
    wait; rules that listen have received it already."""

    event_type = "signal.received"
    meaning = EventMeaning("signal", EventPhase.GOOD, ends=("signal.awaited",))

    signal_id: str
    name: str
    data: Any = None
    wait_id: str | None = None
    again: bool = False


class RenderedField(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One field of a form, its default rendered (HUM-03)."""

    field: str
    type: str = "string"
    options: tuple[Any, ...] = ()
    required: bool = False
    default: Any = None


class HumanCreated(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`data` is what the person decides by, as plain data. `escalation_mode`: reassign | notify (HUM-04)."""

    event_type = "human.created"
    meaning = EventMeaning("human_task", EventPhase.WAITING)

    task_id: str
    title: str
    description: str = ""
    data: Any = None
    role: str | None = None
    user: str | None = None
    form: tuple[RenderedField, ...] = ()
    due_at: float | None = None
    escalate_at: float | None = None
    escalate_to_role: str | None = None
    escalate_to_user: str | None = None
    escalation_mode: str = "reassign"


class HumanClaimed(Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "human.claimed"
    meaning = EventMeaning("human_task", EventPhase.OPEN)

    task_id: str
    actor: str


class HumanReleased(Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "human.released"
    meaning = EventMeaning("human_task", EventPhase.OPEN, ends=("human.claimed",))

    task_id: str
    actor: str


class HumanCommented(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A comment on a human task; nothing else of the task changes."""

    event_type = "human.commented"
    meaning = EventMeaning("human_task", EventPhase.OPEN)

    task_id: str
    actor: str
    text: str


class HumanOverdue(Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "human.overdue"
    meaning = EventMeaning("human_task", EventPhase.BAD)

    task_id: str


class HumanEscalated(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`role` or `user`: the new assignee, or the one that was notified."""

    event_type = "human.escalated"
    meaning = EventMeaning("human_task", EventPhase.OPEN)

    task_id: str
    mode: str = "reassign"
    role: str | None = None
    user: str | None = None


class TaskCompleted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A person has completed a human task; none of the `task.*` events of pipelines (O-24)."""

    event_type = "task.completed"
    meaning = EventMeaning("human_task", EventPhase.GOOD, ends=("human.created",))

    task_id: str
    actor: str
    result: dict[str, Any] = {}


class StepTimeout(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The step's `timeout` has run out. `action`: fail | alternative | ignore; `alternative` names the step that gets
    the token then (TMR-05)."""

    event_type = "step.timeout"
    meaning = EventMeaning("step", EventPhase.BAD, ends=("step.scheduled",))

    action: str = "fail"
    alternative: str | None = None


class TokenReleased(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The moment has come until which the token was held, or its limit was changed and there may be room."""

    event_type = "token.released"
    meaning = EventMeaning("token", EventPhase.OPEN, ends=("token.held",))

    token_id: str


Waiting = (
    TimerScheduled
    | TimerFired
    | TimerCancelled
    | MessageAwaited
    | MessageReceived
    | MessageTimeout
    | SignalAwaited
    | SignalReceived
    | HumanCreated
    | HumanClaimed
    | HumanReleased
    | HumanCommented
    | HumanOverdue
    | HumanEscalated
    | TaskCompleted
)
