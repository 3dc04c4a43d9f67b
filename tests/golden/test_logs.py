"""Logs of earlier versions stay readable, and their views stay the same (reliability.md §3.8, F21).

Each version of the payloads has its folder here. A file holds the events of one run and what followed from them; it is
never written again; `log_writing` adds further ones.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from noetl.base.errors import BackendError
from noetl.events.envelope import SCHEMA, Event, decode_payload, encode_payload
from noetl.events.payloads import EventSource
from noetl.store.sqlite.database import known_migrations, migrate
from noetl.store.sqlite.store import SqliteStore
from tests.golden.log_writing import FOLDER, views_of

FILES = sorted(FOLDER.glob("v*/*.json"))
EVERY = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
BEFORE_CHECKSUMS = 7  # migrations of the file


def _event(plain: dict[str, Any]) -> Event:
    fields = {name: plain[name] for name in plain if name != "event_type"}
    payload = decode_payload(plain["event_type"], json.dumps(plain["payload"]), plain["schema"])
    return Event(**{**fields, "source": EventSource(plain["source"]), "payload": payload})


def _fields_of_then(derived: dict[str, Any], recorded: dict[str, Any]) -> dict[str, Any]:
    """What follows from a log, without the columns that later versions added to the row of an execution."""
    row, columns = derived["rows"]["execution"], recorded["told"]["rows"]["execution"]
    return {**derived, "rows": {**derived["rows"], "execution": {name: row[name] for name in columns}}}


@EVERY
@pytest.mark.req("EVT-07", "EVT-01")
def test_a_log_of_any_version_gives_its_recorded_views(path: Path) -> None:
    for one in json.loads(path.read_text()):
        events = [_event(plain) for plain in one["events"]]
        derived = views_of(events)
        assert _fields_of_then(derived, one) == one["told"]


@pytest.mark.req("EVT-07", "SRV-12")
async def test_a_file_of_an_earlier_version_is_migrated_with_all_its_logs(tmp_path: Path) -> None:
    """As it was before events had checksums."""
    store_path = tmp_path / "old.db"
    old = sqlite3.connect(store_path, isolation_level=None)
    migrate(old, known_migrations()[:BEFORE_CHECKSUMS], "old")
    logs = [one for path in FILES for one in json.loads(path.read_text())]
    for one in logs:
        events = [_event(plain) for plain in one["events"]]
        rows = [_old_row(event) for event in events]
        old.executemany(f"INSERT INTO event VALUES ({', '.join('?' * 13)})", rows)
    old.close()

    store = SqliteStore.open(store_path)
    try:
        assert await store.rebuild() == len({one["events"][0]["execution_id"] for one in logs})
        for one in logs:
            derived = views_of(await store.events(one["events"][0]["execution_id"]))
            assert _fields_of_then(derived, one) == one["told"]
    finally:
        await store.close()


def test_golden_logs_cover_every_version_and_the_usual_events() -> None:
    assert {path.parent.name for path in FILES} == {f"v{number}" for number in range(1, SCHEMA + 1)}
    types = {plain["event_type"] for path in FILES for one in json.loads(path.read_text()) for plain in one["events"]}
    assert {
        "step.done",
        "loop.done",
        "timer.scheduled",
        "message.received",
        "token.dropped",
        "playbook.processed",
    } <= types


@pytest.mark.req("EVT-07")
def test_a_log_of_a_newer_version_is_refused() -> None:
    [plain, *_] = json.loads(FILES[0].read_text())[0]["events"]
    with pytest.raises(BackendError, match="was written by a newer program"):
        _event({**plain, "schema": SCHEMA + 1})


def _old_row(event: Event) -> tuple[object, ...]:
    """A row of the table `event`, as it was before events were stored in batches."""
    return (
        event.execution_id,
        event.seq,
        event.event_id,
        event.event_type,
        event.ts,
        event.source.value,
        event.parent_id,
        event.step,
        event.step_run_id,
        event.task_run_id,
        event.on_behalf,
        event.schema,
        encode_payload(event.payload).decode(),
    )
