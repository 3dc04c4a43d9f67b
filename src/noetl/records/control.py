"""Events of holding tokens back, letting them meet, and steering a whole execution (O-01, O-02, O-03, O-16)."""

from __future__ import annotations

from typing import Any

from noetl.records.bases import Body
from noetl.records.outcomes import Error


class TokenHeld(Body, frozen=True, kw_only=True, omit_defaults=True):
    """`reason`: join (it waits for its fork group), park (for a change of `ctx`), limit (for a free `slot`)."""

    event_type = "token.held"

    token_id: str
    reason: str
    slot: str | None = None


class JoinFilled(Body, frozen=True, kw_only=True, omit_defaults=True):
    """The tokens of a fork group have met: `tokens` in the order they came, of which `token_id` goes on for all of
    them and belongs to the group around. `blocks`: no other group may meet here while this one lives."""

    event_type = "join.filled"

    token_id: str
    fork: str
    tokens: tuple[str, ...]
    blocks: bool = False


class JoinUnfilled(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Those that came can wait no longer: the join's step fails with `error`."""

    event_type = "join.unfilled"

    token_id: str
    fork: str
    tokens: tuple[str, ...]
    error: Error


class PlaybookPaused(Body, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "playbook.paused"

    reason: str | None = None


class PlaybookResumed(Body, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "playbook.resumed"

    reason: str | None = None


class PlaybookCancelled(Body, frozen=True, kw_only=True, omit_defaults=True):
    event_type = "playbook.cancelled"

    reason: str


class Emitted(Body, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An author's own event, stored under the author's name for it (EVT-09)."""

    event_type = "event.emitted"

    emitted: str
    data: Any = None
