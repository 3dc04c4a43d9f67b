"""Events: the facts of an execution, one class each (EVT-01, EVT-03). Each class is in the module of what it is about;
this module has the union of all.

A payload says only what its event adds; who wrote it, when and about which step run is the envelope's business
(`envelope.py`). A changed meaning becomes a new class and a new version, and the old one stays readable.
"""

from __future__ import annotations

from noetl.events import control, executions, loops, tokens
from noetl.events.side_runs import Compensating, SideRuns
from noetl.events.steps import CtxPatched, ReportRefused, StepDenied, StepDone, StepFailed, StepScheduled, StepStarted
from noetl.events.tasks import KeychainRefreshed, Remark, TaskProcessed, TaskStarted
from noetl.events.v2_case_positions import CaseEvaluated, RetryProcessed, RetryStarted, SinkProcessed, SinkStarted
from noetl.events.v2_case_runs import CaseHeard, CaseStarted, CaseWaiting
from noetl.events.waits import StepTimeout, TokenReleased, Waiting

Payload = (
    executions.ExecutionRequested
    | executions.RequestEvaluated
    | executions.PlaybookLate
    | executions.WorkflowStarted
    | tokens.TokenCreated
    | tokens.TokenEnqueued
    | tokens.TokenClaimed
    | tokens.TokenConsumed
    | tokens.TokenDropped
    | control.TokenHeld
    | TokenReleased
    | control.JoinFilled
    | control.JoinUnfilled
    | StepDenied
    | StepScheduled
    | StepStarted
    | StepDone
    | StepFailed
    | StepTimeout
    | TaskStarted
    | TaskProcessed
    | KeychainRefreshed
    | loops.LoopStarted
    | loops.LoopScheduled
    | loops.IterationStarted
    | loops.IterationDone
    | loops.IterationFailed
    | loops.LoopCut
    | loops.LoopKept
    | loops.LoopDone
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
    | tokens.NextSelected
    | tokens.NextEnqueued
    | ReportRefused
    | control.Emitted
    | control.LimitChanged
    | control.PlaybookPaused
    | control.PlaybookResumed
    | control.PlaybookCancelled
    | executions.WorkflowFinished
    | executions.PlaybookProcessed
    | Compensating
    | SideRuns
    | Remark
)
