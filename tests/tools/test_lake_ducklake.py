"""`ducklake` on catalogues of DuckDB, SQLite and PostgreSQL, with the extensions of an environment of its own."""

from __future__ import annotations

import asyncio
import os
import secrets
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import duckdb
import msgspec
import pytest
import pytest_asyncio

from noetl.base.addresses.policy import CLOSED, AddressGuard
from noetl.base.errors import ToolError
from noetl.events.outcomes import Outcome
from noetl.templates.sql.binding import bind
from noetl.tools.duckdb.attachments import Attachment
from noetl.tools.duckdb.sandboxed_connection import CheckedExtensions
from noetl.tools.lake import DucklakeTool
from tests.process_liveness import is_alive
from tests.servers.lakes import lake_interpreters
from tests.servers.postgres import pg_auth, server
from tests.servers.proxy import Proxy
from tests.tools.sql_tasks import context, outcome_of
from tests.tools.table_tasks import SharedTools, TableTasks

__all__ = ["lake_interpreters", "pg_auth"]
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("lake_interpreters"),
    pytest.mark.asyncio(loop_scope="module"),  # one child process for all tests
]
STORES = ("duckdb", "sqlite", "postgres")


class Lake:
    """One lake: its tool, and what a task says to reach it."""

    def __init__(self, tool: DucklakeTool, folder: Path, **where: Any) -> None:
        self.tool, self.folder, self.where = tool, folder, where

    async def outcome(self, sql: str | None = None, scope: dict[str, Any] | None = None, **more: Any) -> Outcome:
        spec, around = more.pop("spec", None), more.pop("around", {})
        inputs = {**self.where, **more, **({"command": bind(sql, scope or {})} if sql is not None else {})}
        return await outcome_of(self.tool, inputs, spec, data_folders=(str(self.folder),), **around)

    async def rows(self, sql: str, scope: dict[str, Any] | None = None, **more: Any) -> Any:
        outcome = await self.outcome(sql, scope, **more)
        assert outcome.error is None, outcome.error
        return outcome.result["data"]

    async def error(self, sql: str | None = None, scope: dict[str, Any] | None = None, **more: Any) -> Any:
        outcome = await self.outcome(sql, scope, **more)
        assert outcome.error is not None, outcome.result
        return outcome.error


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tool(lake_interpreters: None) -> AsyncIterator[DucklakeTool]:
    tool = DucklakeTool()
    yield tool
    await tool.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def in_postgres(tool: DucklakeTool, folder: Path, pg_auth: dict[str, Any], **more: Any) -> Lake:
    """A lake of its own in the database of this module."""
    auth = {**pg_auth, "schema": f"lake_{uuid4().hex[:8]}", **more}
    return Lake(tool, folder, auth=auth, data_path="files")


@pytest.fixture(params=STORES)
def lake(request: pytest.FixtureRequest, tool: DucklakeTool, folder: Path) -> Lake:
    if request.param == "postgres":
        return in_postgres(tool, folder, request.getfixturevalue("pg_auth"))
    return Lake(tool, folder, catalog={"duckdb": "shop.ducklake", "sqlite": "sqlite:shop.cat"}[request.param])


@pytest.fixture
def file_lake(tool: DucklakeTool, folder: Path) -> Lake:
    return Lake(tool, folder, catalog="shop.ducklake")


async def test_rows_are_written_read_changed_and_read_at_an_earlier_version(lake: Lake) -> None:
    nasty = "O'Reilly\"; DROP TABLE t; --"
    await lake.rows("CREATE TABLE t (id INT, name TEXT); INSERT INTO t SELECT range, 'n' FROM range(2000)")
    inserted = await lake.outcome(table="t", args=[{"id": 5000, "name": nasty}, {"id": 5001, "name": "b"}])
    await lake.rows(
        "UPDATE t SET name = 'x' WHERE id = {{ n }}; DELETE FROM t WHERE id IN ({{ ids }})", {"n": 7, "ids": [1, 2]}
    )

    found = await lake.rows("SELECT id FROM t WHERE name = '{{ s }}'", {"s": nasty})
    counted = "SELECT count(*) AS n FROM t"
    snapshots = await lake.rows("SELECT snapshot_id AS id, snapshot_time AS at FROM lake.snapshots() ORDER BY id")

    assert (inserted.result["store"], inserted.result["row_count"]) == ("ducklake.table", 2)
    assert found == [{"id": 5000}]
    assert await lake.rows(counted) == [{"n": 2000}]
    assert await lake.rows(counted, version=1) == [{"n": 2000}]
    assert await lake.rows(counted, version=snapshots[-2]["id"]) == [{"n": 2002}]
    assert await lake.rows(counted, as_of=snapshots[-2]["at"]) == [{"n": 2002}]
    assert await lake.rows("SELECT count(*) AS n FROM t AT (VERSION => {{ v }})", {"v": snapshots[-2]["id"]}) == [
        {"n": 2002}
    ]
    assert (await lake.error("INSERT INTO t VALUES (1, 'a')", version=1)).kind == "duckdb.error"
    assert list(lake.folder.rglob("*.parquet"))


async def test_all_statements_of_a_task_are_one_snapshot(lake: Lake) -> None:
    await lake.rows("CREATE TABLE t (a INT)")

    failed = await lake.error("INSERT INTO t VALUES (1); SELECT error('no')")
    await lake.rows("INSERT INTO t VALUES (2); INSERT INTO t VALUES (3)")

    assert failed.code == "InvalidInputException"
    assert await lake.rows("SELECT a FROM t ORDER BY a") == [{"a": 2}, {"a": 3}]
    assert await lake.rows("SELECT max(snapshot_id) AS n FROM lake.snapshots()") == [{"n": 2}]


async def test_rows_of_a_lake_become_a_stored_table_and_the_reverse(folder: Path) -> None:
    tools = SharedTools()
    tasks = TableTasks(folder, tools)
    lake = {"catalog": "shop.ducklake"}

    made = await tasks.run("duckdb", {"query": "SELECT range AS id FROM range(3000)"}, rows="parquet")
    await tasks.run("ducklake", {**lake, "command": "CREATE TABLE t AS FROM staged", "tables": {"staged": made["ref"]}})
    kept = await tasks.run("ducklake", {**lake, "query": "SELECT id * 2 AS id FROM t"}, rows="parquet")

    assert (kept["row_count"], kept["columns"]) == (3000, ["id"])
    assert await tasks.rows(kept["ref"], "SELECT sum(id) AS n FROM t") == [{"n": 8997000}]
    tasks.close()
    await tools.close()


async def test_sql_cannot_load_unsigned_extensions(file_lake: Lake) -> None:
    """From the second task on the signatures are known, and DuckDB does not check them once more."""
    asked = "SELECT current_setting('allow_unsigned_extensions') AS is_allowed"

    assert [await file_lake.rows(asked) for _ in range(3)] == [[{"is_allowed": False}]] * 3


async def test_a_verified_extension_file_is_verified_again_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "duckdb_extension_ducklake" / "extensions" / f"v{duckdb.__version__}"
    folder.mkdir(parents=True)
    (tmp_path / "duckdb_extension_ducklake" / "__init__.py").touch()
    (file := folder / "ducklake.duckdb_extension").write_bytes(b"one")
    monkeypatch.syspath_prepend(tmp_path)
    attachment, checked = Attachment(kind="ducklake"), CheckedExtensions()

    seen = [checked.holds(checked.states(attachment))]
    checked.add(checked.states(attachment))
    seen.append(checked.holds(checked.states(attachment)))
    file.write_bytes(b"other")
    seen.append(checked.holds(checked.states(attachment)))
    file.unlink()
    seen.append(checked.holds(checked.states(attachment)))

    assert seen == [False, True, False, False]


# The rest of what DuckDB itself keeps to is in tests/tools/test_duckdb.py.
PROBES = {
    "duckdb": [
        "SELECT * FROM read_text('/etc/passwd')",
        "COPY (SELECT 1) TO '{outside}/made.csv'",
        "ATTACH 'ducklake:{outside}/made.ducklake' AS x (DATA_PATH '{inside}/x/')",
        "CALL ducklake_add_data_files('lake', 't', '{outside}/secret.parquet')",
        "LOAD httpfs",
        "LOAD '{inside}/made.duckdb_extension'",
        "SET allow_unsigned_extensions = true",
        "SET enable_external_access = true",
    ],
    "sqlite": [
        "SELECT * FROM sqlite_scan('{outside}/other.sqlite', 't')",
        "SELECT * FROM query('SELECT * FROM sqlite' || '_scan(''{outside}/other.sqlite'', ''t'')')",
        "CALL sqlite_attach('{outside}/other.sqlite')",
        "ATTACH '{outside}/other.sqlite' AS x (TYPE sqlite); SELECT * FROM x.t",
        "ATTACH '{outside}/made.sqlite' AS x (TYPE sqlite); CREATE TABLE x.t (a INT)",
        "ATTACH 'ducklake:sqlite:{outside}/made.sqlite' AS x (DATA_PATH '{inside}/x/')",
    ],
    "postgres": [
        "SELECT * FROM postgres_scan('{there}', 'pg_catalog', 'pg_class')",
        "SELECT * FROM query('SELECT * FROM postgres' || '_scan(''{there}'', ''pg_catalog'', ''pg_class'')')",
        "CALL postgres_attach('{there}')",
        "ATTACH '{there}' AS x (TYPE postgres)",
        "ATTACH 'ducklake:postgres:{there}' AS x (DATA_PATH '{inside}/x/')",
        "SELECT * FROM read_postgres_binary('/etc/passwd', columns => {{'a': 'INT'}})",
    ],
}


async def test_only_the_lake_and_the_data_folders_are_reachable(
    lake: Lake, tmp_path: Path, pg_auth: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    """The extensions of SQLite and PostgreSQL ask nobody what they may open: the kernel holds them."""
    duckdb.sql("SELECT 1 AS a").write_parquet(str(tmp_path / "secret.parquet"))
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as other, other:
        other.execute("CREATE TABLE t (a)")
    other.close()
    await lake.rows("CREATE TABLE t (a INT)")
    before, reached = sorted(os.listdir(tmp_path)), []

    with Proxy(f"{pg_auth['host']}/.s.PGSQL.5432") as line:
        there = f"host=127.0.0.1 port={line.port} user=postgres dbname=postgres"
        for probe in PROBES[request.node.callspec.params["lake"]]:
            sql = probe.format(inside=lake.folder, outside=tmp_path, there=there)
            outcome = await lake.outcome(sql, spec={"transaction": False})
            if outcome.error is None or outcome.error.kind != "duckdb.error":
                reached.append((probe, outcome))

        assert reached == []
        assert line.connections == 0
    assert sorted(os.listdir(tmp_path)) == before


async def test_a_catalogue_with_files_outside_the_data_folders_is_refused(file_lake: Lake, tmp_path: Path) -> None:
    """Whoever can write to the catalogue, or hands one over, chooses the paths in it."""
    duckdb.sql("SELECT 42 AS a").write_parquet(str(tmp_path / "secret.parquet"))
    await file_lake.rows("CREATE TABLE t AS SELECT range::INT AS a FROM range(1000)")
    changed = "UPDATE __ducklake_metadata_lake.ducklake_data_file SET path = '{{ p }}', path_is_relative = false"
    await file_lake.rows(changed, {"p": str(tmp_path / "secret.parquet")})

    error = await file_lake.error("SELECT sum(a) AS n FROM t WHERE a > 0")
    moved = await file_lake.error("SELECT 1", data_path="../elsewhere")

    assert error.code == "PermissionException"
    assert "disabled by configuration" in error.message
    assert (moved.kind, "outside the folders" in moved.message) == ("sql.input", True)


async def test_damaged_catalogues_and_files_are_errors(file_lake: Lake) -> None:
    (file_lake.folder / "junk.ducklake").write_bytes(secrets.token_bytes(20_000))
    (file_lake.folder / "junk.sqlite").write_bytes(secrets.token_bytes(20_000))
    await file_lake.rows("CREATE TABLE t AS SELECT range AS a FROM range(5000)")
    (parquet,) = file_lake.folder.rglob("*.parquet")
    parquet.write_bytes(parquet.read_bytes()[:50] + secrets.token_bytes(500))

    for catalog in ("junk.ducklake", "junk.sqlite"):
        assert (await file_lake.error("SELECT 1", catalog=catalog)).kind == "duckdb.error"
    assert (await file_lake.error("SELECT sum(a) FROM t")).kind == "duckdb.error"
    assert await file_lake.rows("SELECT 1 AS n") == [{"n": 1}]


async def test_a_cancelled_task_ends_its_processes_and_leaves_no_rows(file_lake: Lake) -> None:
    tool = DucklakeTool()  # of its own: the one process that it has is to be gone
    file_lake = Lake(tool, file_lake.folder, **file_lake.where)
    await file_lake.rows("CREATE TABLE t (a BIGINT)")
    pids = [child.pid for _, child in tool._children._idle]
    endless = "INSERT INTO t SELECT 1; INSERT INTO t SELECT count(*) FROM range(10000000000) a, range(1000) b"

    outcome = await file_lake.error(endless, spec={"timeout": 2})

    assert outcome.kind == "timeout"
    assert not any(is_alive(pid) for pid in pids)
    assert await file_lake.rows("SELECT * FROM t") == []
    await tool.close()


async def test_a_broken_connection_to_the_catalogue_is_retryable(
    tool: DucklakeTool, folder: Path, pg_auth: dict[str, Any]
) -> None:
    with Proxy(f"{pg_auth['host']}/.s.PGSQL.5432") as line:
        lake = in_postgres(tool, folder, pg_auth, host="127.0.0.1", port=line.port)
        await lake.rows("CREATE TABLE t (a BIGINT)")
        # A line that breaks before the transaction is made anew, and nobody notices. The second statement reads a pipe:
        # once DuckDB has opened it the transaction is open, and it stays open until the pipe is closed.
        gate = folder / "gate.csv"
        os.mkfifo(gate)
        piped = f"SELECT a FROM read_csv('{gate}', columns = {{'a': 'BIGINT'}}, auto_detect = false)"
        busy = asyncio.ensure_future(
            lake.error(f"INSERT INTO t SELECT 1; INSERT INTO t {piped}; INSERT INTO t SELECT 2")
        )
        with await asyncio.to_thread(gate.open, "w") as pipe:
            line.cut()
            pipe.write("3\n")
        broken = await busy
        with line.down():
            refused = await lake.error("SELECT 1")

        assert (broken.kind, broken.retryable) == ("duckdb.error", True), broken
        assert (refused.kind, refused.retryable) == ("duckdb.error", True), refused
        assert await lake.rows("SELECT * FROM t") == []


async def test_no_secret_is_revealed(tool: DucklakeTool, folder: Path, pg_auth: dict[str, Any]) -> None:
    """A wrong password, and one that SQL asks for: the catalogue is shown without it."""
    password = secrets.token_urlsafe(16)
    role = f"r_{uuid4().hex[:8]}"
    server().ask(f"CREATE ROLE {role} SUPERUSER LOGIN PASSWORD '{password}'")
    asked = "SELECT * FROM duckdb_databases(); SELECT * FROM duckdb_secrets(); SELECT * FROM duckdb_settings()"
    told = []

    with Proxy(f"{pg_auth['host']}/.s.PGSQL.5432") as line:
        lake = in_postgres(tool, folder, pg_auth, host="127.0.0.1", port=line.port, user=role, password=password)
        told.append((password, await lake.outcome(asked)))
        with line.down():
            for _ in range(5):  # ten in one password: each call loads the extensions anew, a third of a second
                words = [secrets.token_urlsafe(12) for _ in range(10)]
                auth = f"postgresql://u:{quote(' '.join(words))}@127.0.0.1:{line.port}/d"
                outcome = await lake.outcome("SELECT 1", auth=auth)
                told += [(word, outcome) for word in words]

    assert told[0][1].error is None, told[0][1].error
    assert all(one.error is not None for _, one in told[1:])
    assert [secret for secret, one in told if secret.encode() in msgspec.json.encode(one)] == []


async def test_a_rejected_catalogue_credential_is_reported_with_the_server_message(
    lake_auth: dict[str, Any], folder: Path
) -> None:
    tool = DucklakeTool()
    lake = Lake(tool, folder, auth=lake_auth, data_path="files")

    error = await lake.error("SELECT 1")
    with pytest.raises(ToolError, match="does not exist"):
        await tool.check({"auth": lake_auth}, context())
    await tool.close()

    assert error.kind == "duckdb.error"
    assert 'role "nobody_here" does not exist' in error.message


@pytest.fixture
def lake_auth(pg_auth: dict[str, Any]) -> dict[str, Any]:
    return {**pg_auth, "user": "nobody_here", "password": "pw-canary-42"}


async def test_a_check_names_what_it_opened_and_creates_no_lake(lake: Lake) -> None:
    around = context(data_folders=(str(lake.folder),))

    with pytest.raises(ToolError, match=r"does not exist|unable to open"):
        await lake.tool.check(lake.where, around)
    assert os.listdir(lake.folder) == []
    await lake.rows("CREATE TABLE t (a INT)")

    assert await lake.tool.check(lake.where, around) == "opened the lake: 2 snapshots"


async def test_an_address_blocked_by_the_policy_is_not_reached(
    tool: DucklakeTool, folder: Path, pg_auth: dict[str, Any]
) -> None:
    with Proxy(f"{pg_auth['host']}/.s.PGSQL.5432") as line:
        lake = in_postgres(tool, folder, pg_auth, host="127.0.0.1", port=line.port)

        error = await lake.error("SELECT 1", around={"addresses": AddressGuard(CLOSED)})

        assert "blocked" in error.message
        assert line.connections == 0


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({}, 'needs "catalog"'),
        ({"catalog": "postgres:host=h password=hunter22"}, 'into "auth"'),
        ({"catalog": "/etc/lake.ducklake"}, "outside the folders"),
        ({"catalog": "s3://shop/lake.ducklake"}, "s3:// cannot be opened"),
        ({"catalog": "a.ducklake", "data_path": "hdfs://shop/files"}, "hdfs:// cannot be opened"),
        ({"catalog": "a.ducklake", "version": 1, "as_of": "2026-01-01"}, "keep one of them"),
        ({"catalog": "a.ducklake", "version": "first"}, "not the number of a snapshot"),
        ({"catalog": "a.ducklake", "as_of": "long ago"}, "long ago"),
    ],
)
async def test_invalid_inputs_are_reported(tool: DucklakeTool, folder: Path, inputs: dict[str, Any], said: str) -> None:
    error = await Lake(tool, folder, **inputs).error("SELECT 1")

    assert said in error.message
    assert "hunter22" not in error.message


async def test_concurrent_tasks_take_turns_on_one_catalogue(file_lake: Lake) -> None:
    await file_lake.rows("CREATE TABLE t (a INT)")

    done = await asyncio.gather(*(file_lake.outcome("INSERT INTO t VALUES ({{ n }})", {"n": n}) for n in range(4)))

    assert [one.error for one in done] == [None] * 4
    assert await file_lake.rows("SELECT count(*) AS n FROM t") == [{"n": 4}]
