"""Events of compensation: what a step's work is undone with, and what became of undoing it (SAGA-01 to SAGA-04)."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.events.outcomes import Error, TaskResult
from noetl.events.payloads import EventMeaning, EventPhase, Payload


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
    # What its compensation reads, as it was: of `ctx` and other steps only what its templates name.
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
    """It had begun and nobody knows how it ended; it is not idempotent, so an operator has to look (SAGA-03)."""

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
