"""What every event's payload has, and what sets apart those a worker reports."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

Place = tuple[str | int, ...]


class Payload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`apart` tells the places whose value is in the results store; a reference stands there instead (RES-03).
    `attributes` are those that the author of the step wants on its events (ADV-07)."""

    event_type: ClassVar[str]

    apart: tuple[Place, ...] = ()
    attributes: dict[str, Any] = {}


class Reported(Payload, frozen=True, kw_only=True, omit_defaults=True, tag_field="event"):
    """What a worker reports: several kinds travel in one list, so each says which it is."""
