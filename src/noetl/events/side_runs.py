"""Events of side runs: pipelines that run beside the tokens under orders of their own.

Handlers of events that come while a step is active (ADV-01), and tasks that their pipeline did not wait for (TOOL-12).
Compensations are side runs too, with events of their own (`records.compensation`).
"""

from __future__ import annotations

from typing import Any

from noetl.events.compensation import Surrounding
from noetl.events.orders import Position
from noetl.events.outcomes import Error, TaskResult
from noetl.events.payloads import EventMeaning, EventPhase, EventSource, Payload
from noetl.events.v2_case_positions import OwnEvent


class OrderClaimed(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A worker runs a side run now, under this lease. No token moves with it."""

    event_type = "order.claimed"
    meaning = EventMeaning("order", EventPhase.OPEN)

    order_id: str
    worker_id: str
    lease_epoch: int


class HandlerStarted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """An event is handled beside the step run `owner`; with `interrupting` its body is stopped (O-34)."""

    event_type = "handler.started"
    meaning = EventMeaning("handler", EventPhase.OPEN)

    owner: str
    handler: int
    event: OwnEvent
    key: str
    order_id: str
    task: str
    interrupting: bool = False


class HandlerSkipped(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The event came, and the handler's condition does not hold; with an error it could not be told."""

    event_type = "handler.skipped"
    meaning = EventMeaning("handler", EventPhase.GOOD)

    owner: str
    handler: int
    key: str
    error: Error | None = None


class HandlerDone(Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "handler.done"
    meaning = EventMeaning("handler", EventPhase.GOOD, ends=("handler.started",))

    owner: str
    handler: int
    result: TaskResult = TaskResult()


class HandlerFailed(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Told, and nothing else: the step's own result is its body's (ADV-01). `stopped`: nobody wanted it any more."""

    event_type = "handler.failed"
    meaning = EventMeaning("handler", EventPhase.BAD, ends=("handler.started",))

    owner: str
    handler: int
    error: Error
    stopped: bool = False


class StepInterrupted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The boundary event of a step whose body an interrupting handler stopped; `result` or `error` is the handler's."""

    event_type = "step.interrupted"
    meaning = EventMeaning("step", EventPhase.GOOD, ends=("step.scheduled",))

    event: str
    data: Any = None
    result: TaskResult = TaskResult()
    error: Error | None = None


class AsyncStarted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A task with `spec.async` was accepted and runs beside its pipeline, from `position` (TOOL-12)."""

    event_type = "task.async_started"
    meaning = EventMeaning("tool", EventPhase.OPEN, owner=EventSource.WORKER)

    owner: str
    task: str
    task_run_id: str
    order_id: str
    position: Position
    ctx: dict[str, Any] = {}
    path: tuple[int, ...] = ()
    around: tuple[Surrounding, ...] = ()
    tolerated: bool = False


class AsyncDone(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """How it ended. With an error, the execution ends as failed: nobody else could take it. `tolerated`: its step is
    best-effort; `stopped`: nobody wanted it any more."""

    event_type = "task.async_done"
    meaning = EventMeaning("tool", EventPhase.TOLD, ends=("task.async_started",), owner=EventSource.WORKER)

    task: str
    task_run_id: str
    result: TaskResult = TaskResult()
    error: Error | None = None
    tolerated: bool = False
    stopped: bool = False


SideRuns = (
    OrderClaimed
    | HandlerStarted
    | HandlerSkipped
    | HandlerDone
    | HandlerFailed
    | StepInterrupted
    | AsyncStarted
    | AsyncDone
)
