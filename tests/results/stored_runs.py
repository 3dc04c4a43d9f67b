"""Runs into a file, and what is then really in its tables."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.clock import ManualClock
from noetl.base.settings import results_folder
from noetl.operations.embedded import RunResult, run_net
from noetl.store.results.files import FileResults
from noetl.tools.registry import Registry
from tests.engine_script import net_of
from tests.playbook_runs import Scripted


class Row(msgspec.Struct, frozen=True):
    """One row of the event table, as SQLite has it."""

    event_type: str
    body: str

    @property
    def size_bytes(self) -> int:
        return len(self.body.encode())

    @property
    def payload(self) -> dict[str, Any]:
        payload: dict[str, Any] = msgspec.json.decode(self.body)
        return payload


class StoredRun(msgspec.Struct, frozen=True):
    result: RunResult
    rows: list[Row]
    tool: Scripted
    results: FileResults
    db: Path

    def payloads(self, event_type: str) -> list[dict[str, Any]]:
        return [row.payload for row in self.rows if row.event_type == event_type]

    @property
    def largest(self) -> Row:
        return max(self.rows, key=lambda row: row.size_bytes)


def run_stored(db: Path, text: str, payload: dict[str, Any] | None = None, **answers: Any) -> StoredRun:
    """Run a playbook to its end on SQLite, with scripted python tasks."""
    tool, clock = Scripted(**answers), ManualClock()

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)

    tools = Registry({"python": tool})
    running = run_net(net_of(text), payload=payload or {}, db=str(db), tools=tools, clock=clock, sleep=sleep)
    result = asyncio.run(running)
    return StoredRun(result, rows_in(db), tool, FileResults(results_folder(db)), db)


def rows_in(db: Path) -> list[Row]:
    connection = sqlite3.connect(db)
    try:
        found = connection.execute("SELECT event_type, payload FROM event ORDER BY execution_id, seq").fetchall()
    finally:
        connection.close()
    return [Row(*one) for one in found]
