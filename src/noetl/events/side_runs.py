"""Events of side runs: pipelines that run beside the tokens under orders of their own.

Handlers of events that come while a step is active (ADV-01), and tasks that their pipeline did not wait for (TOOL-12).
Compensations are side runs too, with events of their own: the compensation of a step, and its outcome.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.events.orders import Position
from noetl.events.outcomes import Error, TaskResult
from noetl.events.payloads import EventMeaning, EventPhase, EventSource, Payload
from noetl.events.v2_case_positions import OwnEvent

# Events of compensation: registrations, runs and outcomes (SAGA-01 to SAGA-04).


class Surrounding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An iteration that the step's work belonged to: its element, under its iterator (SAGA-04)."""

    iterator: str
    index: int
    item: Any = None


class CompensationRegistered(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A step, or one iteration of it, has succeeded and can be undone."""

    event_type = "compensation.registered"
    meaning = EventMeaning("compensation", EventPhase.OPEN)

    registration_id: str
    owner: str  # the step run
    step: str
    task: str  # the first one to run; "playbook" for a `child`, the kind of the tool for a `job_id`
    # The data that its compensation reads, as of that time: of `ctx` and other steps only what its templates name.
    args: dict[str, Any] = {}
    result: TaskResult = TaskResult()
    ctx: dict[str, Any] = {}
    results: dict[str, TaskResult] = {}
    iter: dict[str, Any] = {}
    path: tuple[int, ...] = ()  # of an iteration
    around: tuple[Surrounding, ...] = ()  # the iterations around it, with their elements
    idempotent: bool = False  # it may be run again when its worker was lost in the middle
    child: str | None = None  # a nested execution whose own compensations are meant, instead of tasks of the step
    job_id: str | None = None  # a job that the step has submitted elsewhere, and that is cancelled
    pool: str | None = None


class CompensationRequested(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """All that is registered is to be undone, in this order. `cause`: arc | auto | cancel | parent | end."""

    event_type = "compensation.requested"
    meaning = EventMeaning("compensation", EventPhase.OPEN)

    cause: str
    registrations: tuple[str, ...]


class CompensationStarted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "compensation.started"
    meaning = EventMeaning("compensation", EventPhase.OPEN)

    registration_id: str
    order_id: str


class CompensationDone(Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "compensation.done"
    meaning = EventMeaning("compensation", EventPhase.GOOD, ends=("compensation.started",))

    registration_id: str
    result: TaskResult = TaskResult()


class CompensationFailed(Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "compensation.failed"
    meaning = EventMeaning("compensation", EventPhase.BAD, ends=("compensation.started",))

    registration_id: str
    error: Error


class CompensationUnknown(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """It had begun, and how it ended is unknown. It is not idempotent, so an operator has to decide (SAGA-03)."""

    event_type = "compensation.unknown"
    meaning = EventMeaning("compensation", EventPhase.BAD, ends=("compensation.started",))

    registration_id: str
    reason: str


Compensating = (
    CompensationRegistered
    | CompensationRequested
    | CompensationStarted
    | CompensationDone
    | CompensationFailed
    | CompensationUnknown
)


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
    """The event arrived, and the handler's condition is false; with an error it could not be evaluated."""

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
    """For the reader only: the result of the step comes from its body (ADV-01). `stopped`: it was withdrawn."""

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
    """How it ended. With an error, the execution ends as failed, because no step can handle the error. `tolerated`: its
    step is best-effort; `stopped`: it was withdrawn."""

    event_type = "task.async_done"
    meaning = EventMeaning("tool", EventPhase.IN_PAYLOAD, ends=("task.async_started",), owner=EventSource.WORKER)

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
