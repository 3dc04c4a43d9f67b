"""Notifications: what a playbook tells people and other programs of its executions (NTF-01)."""

from __future__ import annotations

from typing import Any

from noetl.net.task import _Data
from noetl.templates.authored import Authored

EVENTS = ("failed", "completed", "cancelled", "late", "task_assigned", "task_overdue")
# The options of each kind of destination; the first is the one it cannot do without.
DESTINATIONS = {
    "email": ("to", "auth", "cc", "bcc", "from", "reply_to"),
    "webhook": ("url", "auth", "headers"),
    "slack": ("auth",),
    "teams": ("auth",),
}


class Destination(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """Where a notice goes. `auth` of its options is the name of a credential."""

    kind: str
    options: dict[str, Any] = {}


class Notification(_Data, frozen=True, kw_only=True, omit_defaults=True):
    """One event and where it is told. `after_s`: the expected duration of `late`. With `throttle_s`, repeats within
    that time become one notice with their count."""

    event: str
    notify: tuple[Destination, ...] = ()
    after_s: float | None = None
    throttle_s: float = 0.0
    subject: Authored | None = None
    text: Authored | None = None
