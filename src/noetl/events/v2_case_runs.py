"""Events of v2-case step runs: begun, waiting for events, and told of them (V2C-13)."""

from __future__ import annotations

from noetl.events.payloads import EventMeaning, EventPhase, Payload, Reported
from noetl.events.tasks import Decided
from noetl.events.v2_case_positions import OwnEvent


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
    """A waiting step run has heard events of others, or of its own waits, or can hear none any more. `order_id`: a
    worker is needed for what its rules run now; `later` are events kept until that is done."""

    event_type = "case.heard"
    meaning = EventMeaning("case", EventPhase.OPEN, ends=("case.waiting",))

    decision: Decided
    order_id: str | None = None
    later: tuple[OwnEvent, ...] = ()
