"""Events: the facts of an execution, one class each (EVT-01, EVT-03).

A payload says only what its event adds; who wrote it, when and about which step run is the envelope's business
(`records.envelope`). A changed meaning becomes a new class and a new version, and the old one stays readable.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from noetl.records.bases import Body as _Payload
from noetl.records.bases import Reported as _Entry
from noetl.records.carrying import Carried
from noetl.records.cases import (
    CaseDecision,
    CaseEvaluated,
    OwnEvent,
    RetryProcessed,
    RetryStarted,
    SinkProcessed,
    SinkStarted,
)
from noetl.records.compensation import Compensating
from noetl.records.control import (
    Emitted,
    JoinFilled,
    JoinUnfilled,
    LimitChanged,
    PlaybookCancelled,
    PlaybookPaused,
    PlaybookResumed,
    RateLimit,
    TokenHeld,
)
from noetl.records.errands import Errands
from noetl.records.loops import (
    IterationDone,
    IterationFailed,
    IterationStarted,
    LoopCut,
    LoopDone,
    LoopScheduled,
    LoopStarted,
)
from noetl.records.outcomes import Error, Outcome, TaskResult
from noetl.records.references import Reference
from noetl.records.remarks import Remark
from noetl.records.waits import StepTimeout, TokenReleased, Waiting


class Final(StrEnum):
    """How an execution ended (SRV-06)."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ExecutionRequested(_Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`compensates`: it only undoes what that execution, which is over, had done (DESIGN §8). `carried`: it begins at a
    step, with what an earlier run had when it came there."""

    event_type = "playbook.execution_requested"

    path: str
    version: str | None = None
    net_hash: str
    trace_id: str | None = None
    payload: dict[str, Any] = {}
    parent_execution_id: str | None = None
    parent_step_run_id: str | None = None
    depth: int = 0
    compensates: str | None = None
    carried: Carried | None = None


class RequestEvaluated(_Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "playbook.request_evaluated"

    name: str


class WorkflowStarted(_Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "workflow.started"

    workload: dict[str, Any]
    entry: str


class TokenCreated(_Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`source_event_id` and `arc` are what its identity follows from (O-05); the start token has neither. `fork` is
    the group of tokens it belongs to (O-01). `priority`, `partition` and `dedupe` are its arc's, rendered."""

    event_type = "token.created"

    token_id: str
    step: str
    path: str
    version: str | None = None
    args: dict[str, Any]
    source_event_id: str | None = None
    parent_step_run_id: str | None = None
    arc: int | None = None
    fork: str | None = None
    priority: int = 0
    partition: str | None = None
    dedupe: str | None = None


class TokenEnqueued(_Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "token.enqueued"

    token_id: str


class TokenClaimed(_Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Who runs the token's step now, under which lease; `worker_id` is "server" for what is decided in place."""

    event_type = "token.claimed"

    token_id: str
    order_id: str | None = None
    worker_id: str
    lease_epoch: int = 0


class TokenConsumed(_Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "token.consumed"

    token_id: str


class TokenDropped(_Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`reason`: denied | failed | budget | quota | limit | late | duplicate | cancelled | ended. With an error the
    token ended as failed (TPL-09, ROUTE-10)."""

    event_type = "token.dropped"

    token_id: str
    reason: str
    error: Error | None = None


class StepDenied(_Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`rule` is the index of the rule that decided, None where none matched (ADM-04)."""

    event_type = "step.denied"

    token_id: str
    rule: int | None = None


class StepScheduled(_Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`order_id` None: decided in the server (SRV-05). `args` are the token's over the step's own defaults. `slots`
    are the places under a limit that the run holds until it ends; `joins`: the step has a join. `timeout_s` counts
    from `step.started`, `deadline_s` from `workflow.started` (O-21). `looped`: it has no order of its own; ranges of
    its iterations have. `handles` are the events that its handlers wait for, one for each (ADV-01). `pool`:
    whose workers may take its orders (SRV-08)."""

    event_type = "step.scheduled"

    token_id: str
    order_id: str | None = None
    task: str | None = None
    args: dict[str, Any] = {}
    token_meta: dict[str, Any] = {}
    timeout_s: float | None = None
    deadline_s: float | None = None
    slots: tuple[str, ...] = ()
    joins: bool = False
    looped: bool = False
    pool: str | None = None
    boundary_s: float | None = None
    rate: RateLimit | None = None
    handles: tuple[str, ...] = ()


class StepStarted(_Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "step.started"

    worker_id: str


class StepDone(_Entry, frozen=True, kw_only=True, omit_defaults=True, tag="step.done"):
    event_type = "step.done"

    result: TaskResult = TaskResult()


class StepFailed(_Entry, frozen=True, kw_only=True, omit_defaults=True, tag="step.failed"):
    event_type = "step.failed"

    error: Error


class TaskStarted(_Entry, frozen=True, kw_only=True, omit_defaults=True, tag="task.started"):
    """`args` are told in v2-case, rendered; large ones are at `args_ref` (V2C-26)."""

    event_type = "task.started"

    task: str
    kind: str
    visit: int
    attempt: int
    task_run_id: str
    path: tuple[int, ...] = ()
    worker_id: str | None = None
    args: dict[str, Any] | None = None
    args_ref: Reference | None = None


class KeychainRefreshed(_Entry, frozen=True, kw_only=True, omit_defaults=True, tag="keychain.refreshed"):
    """A keychain entry was renewed (KEY-04); which value it has is never told."""

    event_type = "keychain.refreshed"

    name: str
    visit: int
    attempt: int
    task_run_id: str
    path: tuple[int, ...] = ()


class Decided(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the policy said after one task run (POL-14).

    `rule` is an index, "default" without a policy, "unmatched" where no rule matched. `next` is the task that runs
    next, None when the pipeline ends; `error` is why it ends as failed. `set_vars`, `set_shared` and `set_prev` are
    of v2-eval; the last may set null, so unset is told apart. `case` is where a v2-case step run stands now.
    """

    rule: int | str
    do: str
    next: str | None = None
    delay_s: float = 0.0
    set_iter: dict[str, Any] = {}
    set_ctx: dict[str, Any] = {}
    set_vars: dict[str, Any] = {}
    set_shared: dict[str, Any] = {}
    set_prev: Any = msgspec.UNSET
    error: Error | None = None
    case: CaseDecision | None = None


class CaseStarted(_Entry, frozen=True, kw_only=True, omit_defaults=True, tag="case.started"):
    """A v2-case step run, or an iteration of one, begins: its rules have seen `step.enter` (V2C-06)."""

    event_type = "case.started"

    decision: Decided
    path: tuple[int, ...] = ()


class CaseWaiting(_Entry, frozen=True, kw_only=True, omit_defaults=True, tag="case.waiting"):
    """A step run in `on_event` mode has nothing to do until an event comes; no worker is held meanwhile (V2C-13)."""

    event_type = "case.waiting"


class CaseHeard(_Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A waiting step run has heard events of others, or of its own waits, or can hear none any more. `order_id`: a
    worker is needed for what its rules run now; `later` are events kept until that is done."""

    event_type = "case.heard"

    decision: Decided
    order_id: str | None = None
    later: tuple[OwnEvent, ...] = ()


class TaskProcessed(_Entry, frozen=True, kw_only=True, omit_defaults=True, tag="task.processed"):
    """`keeps_prev`: this task leaves `_prev` as it was (a noop without args, PIPE-06). `path` is the iteration it
    belongs to, one index per loop level; empty without a loop. `deferred`: the task was accepted and runs beside its
    pipeline; `outcome` is that of accepting it (TOOL-12)."""

    event_type = "task.processed"

    task: str
    visit: int
    attempt: int
    task_run_id: str
    outcome: Outcome
    decision: Decided
    keeps_prev: bool = False
    path: tuple[int, ...] = ()
    worker_id: str | None = None
    deferred: bool = False


class CtxPatched(_Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Only the written keys (SCOPE-03), each a name or a dotted path; `previous` names the event that last wrote
    a key, where one did (SCOPE-07)."""

    event_type = "ctx.patched"

    patch: dict[str, Any]
    previous: dict[str, str] = {}


class ArcConsidered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`guard` is its value, "unguarded" without one, or "not_evaluated" (ROUTE-12)."""

    step: str
    guard: bool | str
    fired: bool = False


class NextSelected(_Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Every arc considered. `ended`: the token ends here, "done" or "failed" with `error` (ROUTE-07, ROUTE-08)."""

    event_type = "next.selected"

    event: str
    mode: str
    arcs: tuple[ArcConsidered, ...] = ()
    ended: str | None = None
    error: Error | None = None


class NextEnqueued(_Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "next.enqueued"

    token_id: str
    step: str
    arc: int


class ReportRefused(_Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A report that came too late (`fenced`), or said what is not a worker's to say (`forged`): kept, so that a reader
    sees why a result is missing (WRK-03, SRV-04)."""

    event_type = "report.refused"

    reason: str
    order_id: str
    worker_id: str
    lease_epoch: int
    detail: str | None = None


class WorkflowFinished(_Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "workflow.finished"

    status: Final


class PlaybookProcessed(_Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`result_of` names the steps whose results are the execution's own (O-08); the values are in their events."""

    event_type = "playbook.processed"

    status: Final
    result_of: tuple[str, ...] = ()
    error: Error | None = None


Payload = (
    ExecutionRequested
    | RequestEvaluated
    | WorkflowStarted
    | TokenCreated
    | TokenEnqueued
    | TokenClaimed
    | TokenConsumed
    | TokenDropped
    | TokenHeld
    | TokenReleased
    | JoinFilled
    | JoinUnfilled
    | StepDenied
    | StepScheduled
    | StepStarted
    | StepDone
    | StepFailed
    | StepTimeout
    | TaskStarted
    | TaskProcessed
    | KeychainRefreshed
    | LoopStarted
    | LoopScheduled
    | IterationStarted
    | IterationDone
    | IterationFailed
    | LoopCut
    | LoopDone
    | CaseStarted
    | CaseEvaluated
    | CaseWaiting
    | CaseHeard
    | RetryStarted
    | RetryProcessed
    | SinkStarted
    | SinkProcessed
    | Waiting
    | CtxPatched
    | NextSelected
    | NextEnqueued
    | ReportRefused
    | Emitted
    | LimitChanged
    | PlaybookPaused
    | PlaybookResumed
    | PlaybookCancelled
    | WorkflowFinished
    | PlaybookProcessed
    | Compensating
    | Errands
    | Remark
)
