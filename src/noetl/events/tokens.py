"""Events of tokens, from where they come from to where they go (TOK-04), and of the arcs that led them."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.events.outcomes import Error
from noetl.events.payloads import EventMeaning, EventPhase, Payload


class TokenCreated(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """An arc has fired, or the execution begins."""

    event_type = "token.created"
    meaning = EventMeaning("token", EventPhase.OPEN)

    token_id: str
    step: str
    path: str
    version: str | None = None
    args: dict[str, Any]
    # Its id follows from this and `arc` (O-05); the start token has neither.
    source_event_id: str | None = None
    parent_step_run_id: str | None = None
    arc: int | None = None
    fork: str | None = None  # the group of tokens it belongs to (O-01)
    # Its arc's, rendered.
    priority: int = 0
    partition: str | None = None
    dedupe: str | None = None


class TokenEnqueued(Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "token.enqueued"
    meaning = EventMeaning("token", EventPhase.OPEN)

    token_id: str


class TokenClaimed(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The worker that runs the token's step now, and its lease; `worker_id` is "server" for a step decided on the
    server."""

    event_type = "token.claimed"
    meaning = EventMeaning("token", EventPhase.OPEN)

    token_id: str
    order_id: str | None = None
    worker_id: str
    lease_epoch: int = 0


class TokenConsumed(Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "token.consumed"
    meaning = EventMeaning("token", EventPhase.GOOD, ends=("token.created",))

    token_id: str


class TokenDropped(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`reason`: denied | failed | budget | quota | limit | late | duplicate | cancelled | ended. With an error the
    token ended as failed (TPL-09, ROUTE-10)."""

    event_type = "token.dropped"
    meaning = EventMeaning("token", EventPhase.IN_PAYLOAD, ends=("token.created",))

    token_id: str
    reason: str
    error: Error | None = None


# Events of routing: which arcs were considered after a boundary event, and what they led to (ROUTE-12).
class ArcConsidered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`guard` is its value, "unguarded" without one, or "not_evaluated" (ROUTE-12)."""

    step: str
    guard: bool | str
    fired: bool = False


class NextSelected(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Every arc considered. `ended`: the token ends here, "done" or "failed" with `error` (ROUTE-07, ROUTE-08)."""

    event_type = "next.selected"
    meaning = EventMeaning("next", EventPhase.IN_PAYLOAD)

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
