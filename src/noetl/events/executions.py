"""Events of an execution as a whole: that it was asked for, began and ended (EVT-03)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from noetl.events.outcomes import Error
from noetl.events.payloads import EventMeaning, EventPhase, Payload
from noetl.events.rerun_state import RerunState


class Final(StrEnum):
    """How an execution ended (SRV-06)."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ExecutionRequested(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`compensates`: it only undoes what that execution, which is over, had done (design.md §8). `carried`: it begins
    at a step, with what an earlier run had when it came there. `late_after_s` are the durations after which it is late,
    by the playbook's own word and by rules of the installation."""

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
    meaning = EventMeaning("workflow", EventPhase.TOLD, ends=("workflow.started",))

    status: Final


class PlaybookProcessed(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`result_of` names the steps whose results are the execution's own (O-08); the values are in their events."""

    event_type = "playbook.processed"
    meaning = EventMeaning("playbook", EventPhase.TOLD, ends=("playbook.execution_requested",))

    status: Final
    result_of: tuple[str, ...] = ()
    error: Error | None = None
