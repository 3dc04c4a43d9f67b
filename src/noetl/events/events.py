"""Events: the facts of an execution, one class each (EVT-01, EVT-03). Each class is in the module of what it is about;
this module has the union of all, and the taxonomy made from it: every canonical name with its owner and the kind of
thing it is about (EVT-04).

A payload says only what its event adds; author, time and step run are in the envelope (`envelope.py`). A changed
meaning becomes a new class and a new version, and the old one stays readable.
"""

from __future__ import annotations

from typing import get_args

import msgspec

from noetl.events import control, executions, loops, steps, tokens
from noetl.events.payloads import EventPhase, EventSource, Reported
from noetl.events.side_runs import Compensating, SideRuns
from noetl.events.tasks import KeychainRefreshed, Remark, TaskProcessed, TaskStarted
from noetl.events.v2_case_positions import CaseEvaluated, RetryProcessed, RetryStarted, SinkProcessed, SinkStarted
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
    | steps.StepDenied
    | steps.StepScheduled
    | steps.StepStarted
    | steps.StepDone
    | steps.StepFailed
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
    | steps.CaseStarted
    | CaseEvaluated
    | steps.CaseWaiting
    | steps.CaseHeard
    | RetryStarted
    | RetryProcessed
    | SinkStarted
    | SinkProcessed
    | Waiting
    | steps.CtxPatched
    | tokens.NextSelected
    | tokens.NextEnqueued
    | steps.ReportRefused
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


_STATUS = {
    EventPhase.OPEN: "in_progress",
    EventPhase.WAITING: "in_progress",
    EventPhase.HELD: "paused",
    EventPhase.GOOD: "success",
    EventPhase.BAD: "error",
    EventPhase.IN_PAYLOAD: None,
}


class EventType(msgspec.Struct, frozen=True):
    """`status` is the envelope's for every event of this type, None where the payload decides."""

    name: str
    owner: EventSource
    entity: str
    phase: EventPhase
    ends: tuple[str, ...] = ()

    @property
    def status(self) -> str | None:
        return _STATUS[self.phase]


def _type(event: type[Payload]) -> EventType:
    meaning = event.meaning
    owner = meaning.owner or (EventSource.WORKER if issubclass(event, Reported) else EventSource.SERVER)
    return EventType(event.event_type, owner, meaning.entity, meaning.phase, meaning.ends)


# Events with authored names (EVT-09); every other name is a system name and is in the table.
AUTHORED = EventType("", EventSource.SERVER, "event", EventPhase.GOOD)
TAXONOMY: dict[str, EventType] = {event.event_type: _type(event) for event in get_args(Payload)}
# Events after which a step run waits for time, a message, a signal, a person or an event of another step.
WAITS = tuple(name for name, kind in TAXONOMY.items() if kind.phase is EventPhase.WAITING)


def type_of(name: str) -> EventType:
    """The facts about an event that follow from its name."""
    return TAXONOMY.get(name, AUTHORED)
