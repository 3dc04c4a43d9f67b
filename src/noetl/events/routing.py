"""Events of routing: which arcs were considered after a boundary event, and what they led to (ROUTE-12)."""

from __future__ import annotations

import msgspec

from noetl.events.outcomes import Error
from noetl.events.payloads import EventMeaning, EventPhase, Payload


class ArcConsidered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`guard` is its value, "unguarded" without one, or "not_evaluated" (ROUTE-12)."""

    step: str
    guard: bool | str
    fired: bool = False


class NextSelected(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Every arc considered. `ended`: the token ends here, "done" or "failed" with `error` (ROUTE-07, ROUTE-08)."""

    event_type = "next.selected"
    meaning = EventMeaning("next", EventPhase.TOLD)

    event: str
    mode: str
    arcs: tuple[ArcConsidered, ...] = ()
    ended: str | None = None
    error: Error | None = None


class NextEnqueued(Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "next.enqueued"
    meaning = EventMeaning("next", EventPhase.GOOD)

    token_id: str
    step: str
    arc: int
