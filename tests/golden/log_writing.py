"""Writes logs of the current version for `test_logs`: `python -m tests.golden.log_writing wcp_19_cancel_task …` runs
these patterns. An existing file is unchanged."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from noetl.engine.evolve import replay
from noetl.events.envelope import SCHEMA, Event, encode_payload
from noetl.store.inspection import derived_rows
from tests.patterns.patterns import run

FOLDER = Path(__file__).parent / "logs"


def views_of(events: list[Event]) -> dict[str, Any]:
    """The views of a log: its rows, and its end."""
    execution = replay(events[0].execution_id, events[0].trace_id, events)
    about = {"ctx": execution.variables.ctx, "error": execution.lifecycle.error, "rows": derived_rows(events)}
    return dict(json.loads(msgspec.json.encode(about)))


def write(name: str) -> None:
    path = FOLDER / f"v{SCHEMA}" / f"{name}.json"
    if path.exists():
        return
    with TemporaryDirectory() as folder:
        _, events = run(name, f"{folder}/s.db")
    streams: dict[str, list[Event]] = {}
    for event in events:
        streams.setdefault(event.execution_id, []).append(event)
    runs = [{"events": [_plain(one) for one in stream], "told": views_of(stream)} for stream in streams.values()]
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(one, separators=(",", ":"), sort_keys=True) for one in runs)
    path.write_text("[" + ",\n".join(lines) + "]\n")


def _plain(event: Event) -> dict[str, Any]:
    fields = {name: getattr(event, name) for name in Event.__struct_fields__}
    payload = json.loads(encode_payload(event.payload))
    return {**fields, "source": event.source.value, "event_type": event.event_type, "payload": payload}


if __name__ == "__main__":
    for one in sys.argv[1:]:
        write(one)
