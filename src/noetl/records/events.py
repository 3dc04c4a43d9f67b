"""Events: the facts of an execution, one class each (EVT-01, EVT-03). They stand with what they are about; here is
all of them.

A payload says only what its event adds; who wrote it, when and about which step run is the envelope's business
(`records.envelope`). A changed meaning becomes a new class and a new version, and the old one stays readable.
"""

from __future__ import annotations

from noetl.records.case_runs import CaseHeard, CaseStarted, CaseWaiting
from noetl.records.cases import CaseEvaluated, RetryProcessed, RetryStarted, SinkProcessed, SinkStarted
from noetl.records.compensation import Compensating
from noetl.records.control import (
    Emitted,
    JoinFilled,
    JoinUnfilled,
    LimitChanged,
    PlaybookCancelled,
    PlaybookPaused,
    PlaybookResumed,
    TokenHeld,
)
from noetl.records.errands import Errands
from noetl.records.executions import (
    ExecutionRequested,
    PlaybookProcessed,
    RequestEvaluated,
    WorkflowFinished,
    WorkflowStarted,
)
from noetl.records.loops import (
    IterationDone,
    IterationFailed,
    IterationStarted,
    LoopCut,
    LoopDone,
    LoopScheduled,
    LoopStarted,
)
from noetl.records.remarks import Remark
from noetl.records.routing import NextEnqueued, NextSelected
from noetl.records.steps import CtxPatched, ReportRefused, StepDenied, StepDone, StepFailed, StepScheduled, StepStarted
from noetl.records.tasks import KeychainRefreshed, TaskProcessed, TaskStarted
from noetl.records.tokens import TokenClaimed, TokenConsumed, TokenCreated, TokenDropped, TokenEnqueued
from noetl.records.waits import StepTimeout, TokenReleased, Waiting

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
