"""Events of an execution as a whole: that it was asked for, began and ended (EVT-03). Also what a rerun takes over."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from noetl.events.outcomes import Error, Reference, TaskResult
from noetl.events.payloads import EventMeaning, EventPhase, Payload


class Final(StrEnum):
    """How an execution ended (SRV-06)."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Starter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who or what asked for an execution. `kind`: user (`name` is the subject of the token), schedule or backfill
    (`planned_at` is the time it was planned for), trigger or webhook (`name` is its name)."""

    kind: str
    name: str | None = None
    planned_at: float | None = None


class ExecutionRequested(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`compensates`: it only undoes the work of that execution, which has ended (design.md §8). `carried`: it begins at
    a step, with what an earlier run had when it came there. `late_after_s` are the durations after which it is late, by
    the playbook's own word and by rules of the installation. `starter` is None for a nested execution, for one that was
    run without a server, and in logs of servers that did not record it."""

    event_type = "playbook.execution_requested"
    meaning = EventMeaning("playbook", EventPhase.OPEN)

    path: str
    version: str | None = None
    net_hash: str
    trace_id: str | None = None
    payload: dict[str, Any] = {}
    parent_execution_id: str | None = None
    parent_step_run_id: str | None = None
    depth: int = 0
    compensates: str | None = None
    carried: RerunState | None = None
    late_after_s: tuple[float, ...] = ()
    starter: Starter | None = None


class PlaybookLate(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """It is still open after this expected duration; nothing else changes."""

    event_type = "playbook.late"
    meaning = EventMeaning("playbook", EventPhase.OPEN)

    after_s: float


class RequestEvaluated(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`dialect` is what the playbook is written in (DIA-07)."""

    event_type = "playbook.request_evaluated"
    meaning = EventMeaning("playbook", EventPhase.OPEN)

    name: str
    dialect: str | None = None


class WorkflowStarted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "workflow.started"
    meaning = EventMeaning("workflow", EventPhase.OPEN)

    workload: dict[str, Any]
    entry: str


class WorkflowFinished(Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "workflow.finished"
    meaning = EventMeaning("workflow", EventPhase.IN_PAYLOAD, ends=("workflow.started",))

    status: Final


class PlaybookProcessed(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`result_of` names the steps whose results are the execution's own (O-08); the values are in their events."""

    event_type = "playbook.processed"
    meaning = EventMeaning("playbook", EventPhase.IN_PAYLOAD, ends=("playbook.execution_requested",))

    status: Final
    result_of: tuple[str, ...] = ()
    error: Error | None = None


# The state that a rerun from a step takes over from an earlier run of the same playbook (CLI-04).
#
# It is kept whole in the new run's first event, so that the new log names the origin of its data and can be read
# without the old one.


class CarriedResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    step: str
    result: TaskResult


class Approval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A human task that a person had completed before the step was entered."""

    step: str
    title: str
    role: str | None = None  # the role or user it was assigned to at that time
    user: str | None = None
    completed_by: str
    approved_by: str | None = None  # the user who approved it again for other inputs; None: the inputs are the same


class KeptIterations(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Iterations of the loop of `step` that were done: the new run takes their results and runs the others. `items` or
    `items_ref` is the collection they were of; `results` are plain data of each index."""

    step: str
    items: list[Any] | None = None
    items_ref: Reference | None = None
    indices: tuple[int, ...] = ()
    results: list[Any] = []


class RerunState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of an execution just before it last entered a step."""

    execution_id: str
    step: str
    at: int  # the `seq` of the event before it was entered
    args: dict[str, Any] = {}  # of the token that entered
    ctx: dict[str, Any] = {}
    results: tuple[CarriedResult, ...] = ()  # of steps that had ended
    approvals: tuple[Approval, ...] = ()  # the approvals until then
    kept: KeptIterations | None = None  # only the items of the step's loop run that were not done
