"""Events of step runs: admitted or not, started, ended, their writes, and refused reports. Step runs of v2-case also
wait for events and receive them (V2C-13)."""

from __future__ import annotations

from typing import Any

from noetl.events.control import RateLimit
from noetl.events.outcomes import Error, TaskResult
from noetl.events.payloads import EventMeaning, EventPhase, Payload, Reported
from noetl.events.tasks import Decided
from noetl.events.v2_case_positions import OwnEvent


class StepDenied(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`rule` is the index of the rule that decided, None where none matched (ADM-04)."""

    event_type = "step.denied"
    meaning = EventMeaning("step", EventPhase.GOOD)

    token_id: str
    rule: int | None = None


class StepScheduled(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A token is admitted, and its step is to run. It carries the facts about the step that `evolve` needs, as
    `evolve` knows no net."""

    event_type = "step.scheduled"
    meaning = EventMeaning("step", EventPhase.OPEN)

    token_id: str
    order_id: str | None = None  # None: decided in the server (SRV-05), or `looped`
    task: str | None = None  # the first one
    args: dict[str, Any] = {}  # the token's, over the step's own defaults
    token_meta: dict[str, Any] = {}  # attached by admission rules
    timeout_s: float | None = None  # from `step.started`
    deadline_s: float | None = None  # from `workflow.started` (O-21)
    slots: tuple[str, ...] = ()  # the places under a limit that the run holds until it ends
    joins: bool = False  # the step has a join
    looped: bool = False  # it has no order of its own; ranges of its iterations have
    pool: str | None = None  # whose workers may take its orders (SRV-08)
    boundary_s: float | None = None  # of the timeout that the server watches
    rate: RateLimit | None = None  # the rate that it begins under
    handles: tuple[str, ...] = ()  # the events that its handlers wait for, one for each (ADV-01)
    keeps_tasks: bool = False  # its result keeps those of its tasks (TPL-07)


class StepStarted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "step.started"
    meaning = EventMeaning("step", EventPhase.OPEN)

    worker_id: str


class StepDone(Reported, frozen=True, kw_only=True, omit_defaults=True, tag="step.done"):
    event_type = "step.done"
    meaning = EventMeaning("step", EventPhase.GOOD, ends=("step.scheduled",))

    result: TaskResult = TaskResult()


class StepFailed(Reported, frozen=True, kw_only=True, omit_defaults=True, tag="step.failed"):
    event_type = "step.failed"
    meaning = EventMeaning("step", EventPhase.BAD, ends=("step.scheduled",))

    error: Error


class CtxPatched(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Only the written keys (SCOPE-03), each a name or a dotted path; `previous` names the event that last wrote
    a key, where one did (SCOPE-07)."""

    event_type = "ctx.patched"
    meaning = EventMeaning("ctx", EventPhase.GOOD)

    patch: dict[str, Any]
    previous: dict[str, str] = {}


class ReportRefused(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A report that came too late (`fenced`), or said what is not a worker's to say (`forged`): kept, so that a reader
    sees why a result is missing (WRK-03, SRV-04)."""

    event_type = "report.refused"
    meaning = EventMeaning("report", EventPhase.BAD)

    reason: str
    order_id: str
    worker_id: str
    lease_epoch: int
    detail: str | None = None


class CaseStarted(Reported, frozen=True, kw_only=True, omit_defaults=True, tag="case.started"):
    """A v2-case step run, or an iteration of one, begins: its rules have seen `step.enter` (V2C-06)."""

    event_type = "case.started"
    meaning = EventMeaning("case", EventPhase.OPEN)

    decision: Decided
    path: tuple[int, ...] = ()


class CaseWaiting(Reported, frozen=True, kw_only=True, omit_defaults=True, tag="case.waiting"):
    """A step run in `on_event` mode has nothing to do until an event comes; no worker is held meanwhile (V2C-13)."""

    event_type = "case.waiting"
    meaning = EventMeaning("case", EventPhase.WAITING)


class CaseHeard(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A waiting step run has received events of others, or of its own waits, or can receive none any more.
    `order_id`: a worker is needed for the tasks of its rules; `later` are events queued until these are done."""

    event_type = "case.heard"
    meaning = EventMeaning("case", EventPhase.OPEN, ends=("case.waiting",))

    decision: Decided
    order_id: str | None = None
    later: tuple[OwnEvent, ...] = ()
