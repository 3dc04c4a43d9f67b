"""Programs of two versions on one store: what the older one writes while the newer one serves is taken up, what the
older one cannot know it leaves alone, and it does not begin on a store that has moved on (reliability.md §3.8).

There is one program here. The older one is told by the rows it wrote; the newer one by rows that nobody writes yet.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import UnreadableError
from noetl.events.envelope import SCHEMA
from noetl.store.open_store import open_store
from noetl.store.postgres.database import DEFAULT_SCHEMA, address_of
from noetl.store.sqlite.store import SqliteStore
from tests.cluster.backends import Postgres
from tests.cluster.checkers import check
from tests.cluster.machines import cluster
from tests.cluster.watching import ends_of
from tests.contracts.stores import fresh_url
from tests.control.control_plane import ControlPlane
from tests.faults.processes import noetl
from tests.upgrade.goldens import POSTGRES, text_of

LATER = (99, "0099_later", "x")
COMMANDS = {
    "serving": ("server", "start", "--port", "0", "--token-file", "token"),
    "migrating": ("db", "migrate"),
    "looking": ("db", "check"),
    "rebuilding": ("db", "rebuild"),
    "removing": ("db", "retention", "--run", "--days", "0"),
}


async def _asked(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(**address_of(url).connect_arguments())
    try:
        return [tuple(row) for row in await connection.fetch(statement, *values)]
    finally:
        await connection.close()


def _newer_file(path: Path) -> Callable[[], object]:
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("INSERT INTO migration VALUES (?, ?, ?)", LATER)
    return path.read_bytes


def _newer_schema(url: str) -> Callable[[], object]:
    """Gives who tells everything that changes when somebody writes there."""
    asyncio.run(_asked(url, "INSERT INTO migration VALUES ($1, $2, $3)", *LATER))
    tables = asyncio.run(_asked(url, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema"))
    every = " UNION ALL ".join(f"SELECT '{name}', xmin::text, ctid::text, t::text FROM {name} t" for (name,) in tables)
    return lambda: sorted(asyncio.run(_asked(url, every)))


async def _filled(db: str) -> None:
    """An execution of every kind: over, and held by somebody."""
    store, _ = await open_store(db)
    control_plane = ControlPlane(store, shared=True)
    for execution_id in ("x1", "x2"):
        await control_plane.start(execution_id=execution_id)
    orders = (await control_plane.turn(capacity=1)).orders
    while orders := (await control_plane.turn(*map(control_plane.done, orders), capacity=1)).orders:
        if any(one.execution_id == "x2" for one in orders):
            break
    await store.close()


@pytest.mark.req("SRV-12")
@pytest.mark.parametrize("command", COMMANDS.values(), ids=list(COMMANDS))
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_version_older_than_the_store_refuses_it_and_changes_nothing(
    kind: str, command: tuple[str, ...], tmp_path: Path
) -> None:
    db = str(tmp_path / "s.db") if kind == "sqlite" else fresh_url()
    asyncio.run(_filled(db))
    told = _newer_file(tmp_path / "s.db") if kind == "sqlite" else _newer_schema(db)
    before = told()

    refused = noetl(*command, "--db", db, cwd=tmp_path)

    assert refused.code == 4, refused.stdout + refused.stderr
    assert "was written by a newer noetl (it is at migration 99, this program knows" in refused.problem
    assert "install that version" in refused.problem
    assert "Traceback" not in refused.stderr
    assert told() == before


@pytest.mark.timeout(300)
@pytest.mark.req("SRV-12", "TMR-06", "WRK-04")
def test_rows_written_by_an_older_server_beside_a_newer_one_are_taken_over(tmp_path: Path, postgres: Postgres) -> None:
    """The newer one has migrated the store under the feet of the older one, which goes on writing what it knows: rows
    without what was added since."""
    rows = [line for line in text_of(POSTGRES[-1]).splitlines() if line.startswith("INSERT")]
    meanwhile = "\n".join(line for line in rows if f"{DEFAULT_SCHEMA}.migration" not in line)
    with cluster(tmp_path, postgres.url) as grounds:
        grounds.server()
        grounds.worker()

        postgres.ask(f"BEGIN; {meanwhile} COMMIT", postgres.database)

        assert ends_of(grounds, ["timed", "held"]) == ["completed", "completed"]
        check(grounds.db, ["over", "timed", "held"])
        checked = noetl("db", "check", "--db", grounds.db, cwd=tmp_path)
        assert checked.code == 0, checked.stdout


@pytest.mark.req("SRV-12")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_columns_that_an_older_server_did_not_update_are_ignored_until_recounted(
    kind: str, tmp_path: Path
) -> None:
    """It moves an execution on and leaves the columns that it does not know as they were: at an earlier event."""
    path = tmp_path / "s.db"
    db = str(path) if kind == "sqlite" else fresh_url()
    store, _ = await open_store(db)
    try:
        control_plane = ControlPlane(store, shared=True)
        await control_plane.start(execution_id="x1")
        before = await store.execution("x1")
        assert before is not None
        assert (before.failed_iterations, before.iterations) == (0, 0)

        # As the version before moves a row. What it appends to the log is of no interest here.
        older = "UPDATE execution SET last_seq = last_seq + {} WHERE execution_id = 'x1'"
        await _done(kind, path, db, older.format(1))
        moved = await store.execution("x1")
        await _done(kind, path, db, older.format(-1))
        orders = (await control_plane.turn(capacity=1)).orders
        counted = await store.execution("x1")

        assert moved is not None
        assert (moved.failed_iterations, moved.iterations) == (None, None)
        assert orders
        assert counted is not None
        assert (counted.failed_iterations, counted.iterations) == (0, 0)
    finally:
        await store.close()


async def _done(kind: str, path: Path, url: str, statement: str) -> None:
    if kind == "postgres":
        await _asked(url, statement)
        return
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(statement)


@pytest.mark.req("EVT-07", "SRV-12")
async def test_an_older_server_leaves_executions_moved_by_a_newer_one_alone(tmp_path: Path) -> None:
    """Its last event is of a version that is not known here; whoever would go on from the one before it would undo
    what the newer one did."""
    path = tmp_path / "s.db"
    await _filled(str(path))
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(
            "INSERT INTO event SELECT execution_id, seq + 1, 'newer', 'step.teleported', ts, source, NULL, NULL, NULL,"
            " NULL, 0, ?, '{}', 2745614147 FROM event WHERE execution_id = 'x2' ORDER BY seq DESC LIMIT 1",
            (SCHEMA + 1,),
        )
        file.execute("UPDATE execution SET last_seq = last_seq + 1, wake_at = 1 WHERE execution_id = 'x2'")

    store = SqliteStore.open(path)
    try:
        control_plane = ControlPlane(store, shared=True, clock=ManualClock(2_000_000_000.0))
        with pytest.raises(UnreadableError, match=r"execution x2 cannot be read: .* was written by a newer program"):
            await store.events("x2")
        before = (await store.execution("x2"), await store.orders("x2"))
        await control_plane.start(execution_id="x3")
        orders = list((await control_plane.turn(capacity=5)).orders)
        while orders:
            orders = list((await control_plane.turn(*map(control_plane.done, orders), capacity=5)).orders)
        assert {row.execution_id: row.status for row in await store.executions()}["x3"] == "completed"
        with pytest.raises(UnreadableError):
            await control_plane.executions.cancel("x2", "enough")
        assert (await store.execution("x2"), await store.orders("x2")) == before
    finally:
        await store.close()
