"""Events: the facts of an execution, one class each (EVT-01, EVT-03). Each class is in the module of what it is about;
this module has the union of all.

A payload says only what its event adds; who wrote it, when and about which step run is the envelope's business
(`envelope.py`). A changed meaning becomes a new class and a new version, and the old one stays readable.
"""

from __future__ import annotations

from noetl.events.compensation import Compensating
from noetl.events.control import (
    Emitted,
    JoinFilled,
    JoinUnfilled,
    LimitChanged,
    PlaybookCancelled,
    PlaybookPaused,
    PlaybookResumed,
    TokenHeld,
)
from noetl.events.executions import (
    ExecutionRequested,
    PlaybookLate,
    PlaybookProcessed,
    RequestEvaluated,
    WorkflowFinished,
    WorkflowStarted,
)
from noetl.events.loops import (
    IterationDone,
    IterationFailed,
    IterationStarted,
    LoopCut,
    LoopDone,
    LoopKept,
    LoopScheduled,
    LoopStarted,
)
from noetl.events.side_runs import SideRuns
from noetl.events.steps import CtxPatched, ReportRefused, StepDenied, StepDone, StepFailed, StepScheduled, StepStarted
from noetl.events.tasks import KeychainRefreshed, Remark, TaskProcessed, TaskStarted
from noetl.events.tokens import (
    NextEnqueued,
    NextSelected,
    TokenClaimed,
    TokenConsumed,
    TokenCreated,
    TokenDropped,
    TokenEnqueued,
)
from noetl.events.v2_case_positions import CaseEvaluated, RetryProcessed, RetryStarted, SinkProcessed, SinkStarted
from noetl.events.v2_case_runs import CaseHeard, CaseStarted, CaseWaiting
from noetl.events.waits import StepTimeout, TokenReleased, Waiting

Payload = (
    ExecutionRequested
    | RequestEvaluated
    | PlaybookLate
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
    | LoopKept
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
    | SideRuns
    | Remark
)
