"""One changed byte in the store is noticed and reported for its execution; the others are not affected (reliability.md
§4.2)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import UnreadableError
from noetl.store.contract import Store
from noetl.store.inspection import SqlStore, inspected
from noetl.store.postgres.store import PostgresStore
from noetl.store.sqlite.store import SqliteStore
from tests.contracts.stores import fresh_url
from tests.control.control_plane import ControlPlane
from tests.faults.processes import noetl, written

CANARY = "canary-0123456789"
WORK = """
workload: {canary: CANARY}
workflow:
  - {step: start, tool: {kind: python, code: x}, next: {arcs: [{step: b}]}}
  - {step: b, tool: {kind: python, code: x}}
""".replace("CANARY", CANARY)
# What the third byte of the canary becomes: other JSON, no JSON, no text.
FLIPS = {"another value": b"m", "no JSON": b'"', "no text": b"\xff"}


async def _begun(store: Store) -> None:
    control_plane = ControlPlane(store, shared=True)
    await control_plane.start(WORK.replace(CANARY, "another"), execution_id="x0")
    await control_plane.start(WORK, execution_id="x1")
    await control_plane.start(WORK.replace(CANARY, "another"), execution_id="x2")
    await store.close()


def _flip(path: Path, to: bytes) -> None:
    body = path.read_bytes()
    before = CANARY.encode()
    after = before[:2] + to + before[3:]
    assert before in body
    path.write_bytes(body.replace(before, after))


@asynccontextmanager
async def _flipped_file(folder: Path, to: bytes) -> AsyncIterator[Store]:
    """A file of which one byte was changed while nobody had it open."""
    path = folder / "store.db"
    await _begun(SqliteStore.open(path))
    _flip(path, to)
    store = SqliteStore.open(path)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def _changed_table(to: bytes) -> AsyncIterator[Store]:
    """The same in a table, past all triggers."""
    url = fresh_url()
    await _begun(await PostgresStore.open(url))
    store = await PostgresStore.open(url)
    changed = f"{CANARY[:2]}{to.decode()}{CANARY[3:]}"
    try:
        async with store._db._pool.acquire() as connection, connection.transaction():
            await connection.execute("GRANT UPDATE ON history TO CURRENT_USER")
            await connection.execute("SET LOCAL session_replication_role = replica")
            await connection.execute("UPDATE history SET payloads = replace(payloads, $1, $2)", CANARY, changed)
        yield store
    finally:
        await store.close()


@pytest.mark.req("EVT-01", "EVT-07")
@pytest.mark.parametrize(
    ("backend", "flip"),
    [*(("sqlite", one) for one in FLIPS), ("postgres", "another value"), ("postgres", "no JSON")],
)
async def test_a_corrupted_event_stops_its_own_execution_and_no_other(tmp_path: Path, backend: str, flip: str) -> None:
    made = _flipped_file(tmp_path, FLIPS[flip]) if backend == "sqlite" else _changed_table(FLIPS[flip])
    async with made as store:
        with pytest.raises(UnreadableError, match=r"execution x1 is damaged: "):
            await store.events("x1")
        found = await inspected(cast("SqlStore", store), sample=10)
        assert {flaw.execution_id for flaw in found.flaws} == {"x1"}, "noetl db check finds it"
        assert "is damaged" in found.flaws[0].what

        control_plane = ControlPlane(store, shared=True, clock=ManualClock())
        orders = list((await control_plane.turn(capacity=5)).orders)
        assert sorted(order.execution_id for order in orders) == ["x0", "x2"], "others are served, in the same turn"
        while orders:
            orders = list((await control_plane.turn(*map(control_plane.done, orders), capacity=5)).orders)
        rows = {row.execution_id: row.status for row in await store.executions()}
        assert rows == {"x0": "completed", "x1": "running", "x2": "completed"}
        with pytest.raises(UnreadableError, match="execution x1"):
            await control_plane.executions.cancel("x1", "enough")


def test_the_command_line_names_the_damaged_execution(tmp_path: Path) -> None:
    play = f"workload: {{canary: {CANARY}}}\nworkflow: [{{step: start, tool: {{kind: noop}}}}]"
    file = written(tmp_path, play)
    whole = noetl("run", file, "--db", "s.db", "-q", "--set", "canary=another", cwd=tmp_path)
    assert whole.code == 0, whole.stderr
    assert noetl("run", file, "--db", "s.db", "-q", cwd=tmp_path).code == 0
    assert noetl("db", "check", "--db", "s.db", cwd=tmp_path).code == 0
    _flip(tmp_path / "s.db", b"m")

    checked = noetl("db", "check", "--db", "s.db", cwd=tmp_path)
    shown = noetl("events", "last", "--db", "s.db", cwd=tmp_path)

    assert checked.code == 1
    assert "is damaged: it differs from what was written" in checked.stdout
    assert shown.code == 4
    assert "is damaged: it differs from what was written" in shown.problem
    assert noetl("run", file, "--db", "s.db", "-q", cwd=tmp_path).code == 0, "the store is good for others"
