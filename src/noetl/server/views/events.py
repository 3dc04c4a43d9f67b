"""Events as clients read them, under their names of today or the older ones (EVT-02, EVT-05)."""

from __future__ import annotations

from typing import Any, Literal

from noetl.events.envelope import Event, readable, status_of
from noetl.events.legacy_names import legacy_name

Names = Literal["dotted", "legacy"]


def shown_event(event: Event, names: Names = "dotted") -> dict[str, Any]:
    told = readable(event)
    if names == "legacy":
        told["event_type"] = told["name"] = legacy_name(event.event_type, status_of(event.payload))
    return told
