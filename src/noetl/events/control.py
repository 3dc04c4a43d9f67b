"""Events of holding tokens back, letting them meet, and steering a whole execution (O-01, O-02, O-03, O-16, ADV-05)."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.events.outcomes import Error
from noetl.events.payloads import EventMeaning, EventPhase, Payload


class RateLimit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """At most `limit` runs begin in any `per_s` seconds under this name, within one execution."""

    name: str
    limit: int
    per_s: float
    # If an operator has set the rate: the period of the playbook's own rate. Runs that start now count there too.
    counted_s: float = 0.0


class StepRate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """At most `limit` runs of a step may begin in any `per_s` seconds."""

    limit: int
    per_s: float


class LimitChanged(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """New limits of a step in this execution: how many of its runs may be active at once, and how many may begin within
    a time. None restores the limit of the playbook. `begun` has, by the name of a rate, the start times that still
    count under it; waiting runs get a new start time."""

    event_type = "limit.changed"
    meaning = EventMeaning("step", EventPhase.GOOD)

    limit: int | None = None
    rate: StepRate | None = None
    actor: str | None = None
    reason: str | None = None
    begun: dict[str, tuple[float, ...]] = {}


class TokenHeld(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`reason`: join (it waits for its fork group), park (for a change of `ctx`), limit (for a free `slot`),
    compensation (until everything is undone), delay or rate (for the moment `until`). One held by `rate` has that
    moment for itself."""

    event_type = "token.held"
    meaning = EventMeaning("token", EventPhase.OPEN)

    token_id: str
    reason: str
    slot: str | None = None
    until: float | None = None
    rate: RateLimit | None = None


class JoinFilled(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The tokens of a fork group have met: `tokens` in the order they came, of which `token_id` goes on for all of
    them and belongs to the group around. `blocks`: no other group may meet here while this one lives."""

    event_type = "join.filled"
    meaning = EventMeaning("token", EventPhase.GOOD, ends=("token.held",))

    token_id: str
    fork: str
    tokens: tuple[str, ...]
    blocks: bool = False


class JoinUnfilled(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The join can no longer be filled: the waiting tokens give up, and its step fails with `error`."""

    event_type = "join.unfilled"
    meaning = EventMeaning("token", EventPhase.BAD, ends=("token.held",))

    token_id: str
    fork: str
    tokens: tuple[str, ...]
    error: Error


class PlaybookPaused(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`actor` is the user who asked for it; None: its parent was paused, or the user is not known."""

    event_type = "playbook.paused"
    meaning = EventMeaning("playbook", EventPhase.HELD)

    reason: str | None = None
    actor: str | None = None


class PlaybookResumed(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """`actor` as in `PlaybookPaused`."""

    event_type = "playbook.resumed"
    meaning = EventMeaning("playbook", EventPhase.OPEN, ends=("playbook.paused",))

    reason: str | None = None
    actor: str | None = None


class PlaybookCancelled(Payload, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "playbook.cancelled"
    meaning = EventMeaning("playbook", EventPhase.BAD)

    reason: str
    compensate: bool = False
    actor: str | None = None  # the user who requested it; None: the engine, a schedule or a limit


class Emitted(Payload, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An author's own event, stored under the author's name for it (EVT-09), or one that a client injected
    (MSG-06). A `key` is the sender's: an event with the same key counts once."""

    event_type = "event.emitted"
    meaning = EventMeaning("event", EventPhase.GOOD)

    emitted: str
    data: Any = None
    key: str | None = None
