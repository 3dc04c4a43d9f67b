"""Events as clients read them, under their names of today or the older ones (EVT-02, EVT-05)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from noetl.events.envelope import Event, readable, status_of
from noetl.events.legacy_names import legacy_name

Names = Literal["dotted", "legacy"]


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """The envelope of EVT-02 with both its spellings."""

    event_id: str
    execution_id: str
    seq: int
    event_type: str
    name: str
    ts: str
    timestamp: str
    source: str
    entity: str
    entity_id: str
    status: str
    step: str | None
    step_run_id: str | None
    task_run_id: str | None
    trace_id: str
    parent_id: str | None
    on_behalf: bool
    schema: int
    payload: dict[str, Any]
    data: dict[str, Any]


def shown_event(event: Event, names: Names = "dotted") -> dict[str, Any]:
    told = readable(event)
    if names == "legacy":
        told["event_type"] = told["name"] = legacy_name(event.event_type, status_of(event.payload))
    return told
