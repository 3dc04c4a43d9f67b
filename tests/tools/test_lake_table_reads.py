"""`iceberg` and `delta`: tables that pyiceberg and deltalake have written, read by extensions of DuckDB."""

from __future__ import annotations

import json
import secrets
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import msgspec
import pytest
import pytest_asyncio

from noetl.events.outcomes import Outcome
from noetl.templates.sql.binding import bind
from noetl.tools.lake import DeltaTool, IcebergTool, TableReadTool
from tests.process_liveness import is_alive
from tests.servers.lakes import lake_interpreters, written_tables
from tests.servers.postgres import pg_auth, server
from tests.servers.proxy import Proxy
from tests.tools.sql_tasks import context, outcome_of
from tests.tools.table_tasks import SharedTools, TableTasks

__all__ = ["lake_interpreters", "pg_auth"]
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("lake_interpreters"),
    pytest.mark.asyncio(loop_scope="module"),  # one child process of each kind for all tests
]
FORMATS = ("iceberg", "delta")


class Table:
    """One table: its tool, the data folder, and what a task says to find it."""

    def __init__(self, tool: TableReadTool, folder: Path, **where: Any) -> None:
        self.tool, self.folder, self.where = tool, folder, where

    async def outcome(self, where: str | None = None, scope: dict[str, Any] | None = None, **more: Any) -> Outcome:
        spec = more.pop("spec", None)
        chosen = bind(f"SELECT * FROM source WHERE {where}", scope or {}) if where is not None else None
        condition = {"query": chosen} if chosen is not None else {}
        return await outcome_of(self.tool, {**self.where, **condition, **more}, spec, data_folders=(str(self.folder),))

    async def rows(self, where: str | None = None, scope: dict[str, Any] | None = None, **more: Any) -> Any:
        outcome = await self.outcome(where, scope, **more)
        assert outcome.error is None, outcome.error
        return outcome.result["data"]

    async def error(self, where: str | None = None, scope: dict[str, Any] | None = None, **more: Any) -> Any:
        outcome = await self.outcome(where, scope, **more)
        assert outcome.error is not None, outcome.result
        return outcome.error


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tools(lake_interpreters: None) -> AsyncIterator[dict[str, TableReadTool]]:
    made: dict[str, TableReadTool] = {"iceberg": IcebergTool(), "delta": DeltaTool()}
    yield made
    for tool in made.values():
        await tool.close()


def table_of(tools: dict[str, TableReadTool], name: str) -> Table:
    if name == "delta":
        return Table(tools[name], written_tables(), path="delta")
    return Table(tools[name], written_tables(), table="shop.orders", catalog="catalog.sqlite")


@pytest.fixture(params=FORMATS)
def table(request: pytest.FixtureRequest, tools: dict[str, TableReadTool]) -> Table:
    return table_of(tools, request.param)


@pytest.fixture
def iceberg(tools: dict[str, TableReadTool]) -> Table:
    return table_of(tools, "iceberg")


@pytest.fixture
def delta_copy(tools: dict[str, TableReadTool], tmp_path: Path) -> Table:
    shutil.copytree(written_tables() / "delta", tmp_path / "data" / "delta")
    return Table(tools["delta"], tmp_path / "data", path="delta")


def metadata_files() -> list[Path]:
    return sorted((written_tables() / "iceberg").rglob("*.metadata.json"))


def versions(name: str) -> list[tuple[int, int]]:
    """Every version of a table, with its time in milliseconds."""
    if name == "iceberg":
        return [
            (one["snapshot-id"], one["timestamp-ms"])
            for one in json.loads(metadata_files()[-1].read_text())["snapshots"]
        ]
    logs = sorted((written_tables() / "delta" / "_delta_log").glob("*.json"))
    commits = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    return list(enumerate(one["commitInfo"]["timestamp"] for one in commits if "commitInfo" in one))


async def test_columns_and_rows_are_selected_and_values_are_bound(table: Table) -> None:
    everything = await table.rows()
    some = await table.rows(
        "id > {{ least }} AND name <> '{{ s }}'", {"least": 7, "s": "x' OR 1=1 --"}, columns=["name", "id"]
    )
    listed = await table.rows("id IN ({{ ids }})", {"ids": [3, 9]}, columns="id")
    grouped = await table.rows(query=bind("SELECT count(*) AS n FROM source WHERE total < {{ t }}", {"t": 1.25}))

    assert sorted(row["id"] for row in everything) == [0, 0, 1, 1, 2, 2, 3, 5, 6, 7, 8, 9]
    assert everything[0].keys() == {"id", "name", "total"}
    assert sorted(some, key=lambda row: row["id"]) == [{"name": "n8", "id": 8}, {"name": "n9", "id": 9}]
    assert sorted(row["id"] for row in listed) == [3, 9]
    assert grouped == [{"n": 6}]


@pytest.mark.parametrize("name", FORMATS)
async def test_a_table_is_read_at_an_earlier_version(tools: dict[str, TableReadTool], name: str) -> None:
    table = table_of(tools, name)
    found = versions(name)

    by_version = [len(await table.rows(version=version)) for version, _ in found]
    at_first = await table.rows(as_of=f"{duckdb.sql(f'SELECT make_timestamp_ms({found[0][1]})').fetchall()[0][0]}+00")
    early = await table.outcome(as_of="2001-01-01 00:00:00+00")

    assert (by_version[0], by_version[-1]) == (10, 12)
    assert len(at_first) == 10
    assert early.error is not None or early.result["data"] == [], "Iceberg had no rows then, Delta no version"
    assert (await table.error(version=99)).kind == "duckdb.error"


async def test_iceberg_is_found_by_its_metadata_file_too(iceberg: Table) -> None:
    (first, *_, last) = metadata_files()[1:]
    by_path = Table(iceberg.tool, iceberg.folder)

    assert len(await by_path.rows(path=str(first))) == 10
    assert len(await by_path.rows(path=str(last))) == 12
    assert "version-hint" in (await by_path.error(path=str(last.parents[1]))).message


async def test_rows_become_a_stored_table_that_the_next_task_reads() -> None:
    tools = SharedTools()
    tasks = TableTasks(written_tables(), tools)

    made = await tasks.run("delta", {"path": "delta", "columns": ["id"]}, rows="parquet")

    assert await tasks.rows(made["ref"], "SELECT sum(id) AS n FROM t") == [{"n": 44}]
    tasks.close()
    await tools.close()


# What a table names, and what is in it, is somebody else's.


async def test_a_delta_log_that_points_outside_the_data_folders_is_refused(delta_copy: Table, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    duckdb.sql("SELECT 42::BIGINT AS id, 'secret' AS name, 1.5::DOUBLE AS total").write_parquet(
        str(outside / "s.parquet")
    )
    size = (outside / "s.parquet").stat().st_size
    log = delta_copy.folder / "delta" / "_delta_log" / "00000000000000000003.json"
    told = []

    for place in (
        f"file://{outside}/s.parquet",
        f"{outside}/s.parquet",
        "../../outside/s.parquet",
        "/etc/passwd",
        "file:///etc/passwd",
    ):
        add = {"path": place, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
        log.write_text(json.dumps({"add": add}) + "\n")
        told.append(await delta_copy.outcome("id = 42"))

    assert [one.result for one in told if one.error is None] == []
    assert "secret" not in str(told)
    assert "root:" not in str(told)


async def test_a_log_outside_the_data_folders_is_not_read(delta_copy: Table, tmp_path: Path) -> None:
    """The extension of Delta reads logs without asking DuckDB: the kernel holds it."""
    shutil.move(delta_copy.folder / "delta" / "_delta_log", tmp_path / "log")
    (delta_copy.folder / "delta" / "_delta_log").symlink_to(tmp_path / "log")
    (delta_copy.folder / "link").symlink_to(written_tables() / "delta")

    through = await delta_copy.error()
    linked = await delta_copy.error(path="link")

    assert through.kind == "duckdb.error"
    assert "n5" not in str(through)
    assert (linked.kind, "outside the folders" in linked.message) == ("lake.input", True)


async def test_iceberg_metadata_that_points_outside_the_data_folders_is_refused(
    tools: dict[str, TableReadTool], tmp_path: Path
) -> None:
    """Copied metadata still names the manifests of the table it was copied from, which is no data folder here."""
    shutil.copytree(written_tables() / "iceberg", tmp_path / "data" / "iceberg")
    (copied,) = (tmp_path / "data").rglob(metadata_files()[-1].name)
    hostile = copied.with_name("00009-x.metadata.json")
    text = json.loads(copied.read_text())
    for snapshot in text["snapshots"]:
        snapshot["manifest-list"] = "file:///etc/passwd"
    hostile.write_text(json.dumps(text))
    table = Table(tools["iceberg"], tmp_path / "data")

    elsewhere, passwords = await table.error(path=str(copied)), await table.error(path=str(hostile))

    assert (elsewhere.code, passwords.code) == ("PermissionException", "PermissionException")
    assert "root:" not in passwords.message


async def test_a_catalogue_that_points_outside_the_data_folders_is_refused(
    tools: dict[str, TableReadTool], tmp_path: Path
) -> None:
    places = {
        "a": "file:///etc/passwd",
        "b": "hdfs://bucket/m.json",
        "c": "http://127.0.0.1:1/m.json",
        "d": "../m.json",
    }
    with closing(sqlite3.connect(tmp_path / "c.sqlite")) as catalogue, catalogue:
        columns = ("catalog_name", "table_namespace", "table_name", "metadata_location")
        catalogue.execute(f"CREATE TABLE iceberg_tables ({', '.join(f'{name} VARCHAR' for name in columns)})")
        catalogue.executemany("INSERT INTO iceberg_tables VALUES ('c', 'n', ?, ?)", places.items())
    catalogue.close()
    table = Table(tools["iceberg"], tmp_path, catalog="c.sqlite")

    found = {name: await table.error(table=f"n.{name}") for name in (*places, "nothing")}

    assert {one.kind for one in found.values()} == {"lake.input"}
    assert "outside the folders" in found["a"].message
    assert "cannot be read" in found["b"].message
    assert "no tables" in found["nothing"].message


async def test_damaged_tables_are_errors(delta_copy: Table, tools: dict[str, TableReadTool], tmp_path: Path) -> None:
    log = delta_copy.folder / "delta" / "_delta_log" / "00000000000000000002.json"
    log.write_text("{" * 50_000)
    deep = await delta_copy.error()
    log.write_bytes(secrets.token_bytes(5000))
    noise = await delta_copy.error()
    log.unlink()
    for parquet in (delta_copy.folder / "delta").glob("*.parquet"):
        parquet.write_bytes(parquet.read_bytes()[:30] + secrets.token_bytes(300))
    cut = await delta_copy.error()
    (tmp_path / "data" / "m.metadata.json").write_bytes(b'{"format-version": 2, "snapshots": [' + b"[" * 20_000)
    junk = await Table(tools["iceberg"], tmp_path / "data").error(path="m.metadata.json")

    assert {one.kind for one in (deep, noise, cut, junk)} == {"duckdb.error"}


async def test_a_query_reaches_only_the_data_folders(table: Table, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("x\n1\n")
    told = [
        await table.error(f"id IN (SELECT x FROM read_csv('{tmp_path}/secret.csv'))"),
        await table.error("name = (SELECT content FROM read_text('/etc/passwd'))"),
        await table.error(f"1 = 1; COPY (SELECT 1) TO '{tmp_path}/made.csv'"),
    ]

    assert {one.kind for one in told} <= {"duckdb.error", "lake.input"}
    assert "root:" not in str(told)


async def test_a_read_that_times_out_ends_with_its_processes(table: Table) -> None:
    await table.rows()
    pids = [child.pid for _, child in table.tool._children._idle]

    error = await table.error("id < (SELECT count(*) FROM range(10000000000) a, range(1000) b)", spec={"timeout": 0.7})

    assert error.kind == "timeout"
    assert not any(is_alive(pid) for pid in pids)


# A catalogue in PostgreSQL.


@pytest.fixture
def catalogue(pg_auth: dict[str, Any]) -> dict[str, Any]:
    """The catalogue that pyiceberg made in SQLite, as it makes it in PostgreSQL."""
    columns = "catalog_name text, table_namespace text, table_name text, metadata_location text"
    make = f"CREATE TABLE IF NOT EXISTS iceberg_tables ({columns}); TRUNCATE iceberg_tables"
    server().ask(make, pg_auth["database"])
    row = f"('shop', 'shop', 'orders', 'file://{metadata_files()[-1]}')"
    server().ask(f"INSERT INTO iceberg_tables VALUES {row}", pg_auth["database"])
    return pg_auth


async def test_a_table_is_found_in_a_postgres_catalogue(iceberg: Table, catalogue: dict[str, Any]) -> None:
    found = await iceberg.rows(catalog=None, auth=catalogue, columns="id")

    assert len(found) == 12
    assert await iceberg.tool.check({"auth": catalogue}, context()) == "opened the catalogue: 1 tables"  # type: ignore[attr-defined]


async def test_an_unreachable_catalogue_is_reported_without_secrets(iceberg: Table, catalogue: dict[str, Any]) -> None:
    told = []
    with Proxy(f"{catalogue['host']}/.s.PGSQL.5432") as line:
        there = {**catalogue, "host": "127.0.0.1", "port": line.port}
        assert len(await iceberg.rows(catalog=None, auth=there)) == 12
        with line.down():
            for secret in [secrets.token_urlsafe(12) for _ in range(5)]:  # all fifty with `ducklake`, by the same way
                auth = f"postgresql://u:{quote(secret)}@127.0.0.1:{line.port}/d"
                told.append((secret, await iceberg.error(catalog=None, auth=auth)))
    wrong = await iceberg.error(catalog=None, auth={**catalogue, "user": "nobody_here", "password": "pw-canary-42"})

    assert {(one.kind, one.retryable) for _, one in told} == {("duckdb.error", True)}
    assert [secret for secret, one in told if secret.encode() in msgspec.json.encode(one)] == []
    assert 'role "nobody_here" does not exist' in wrong.message
    assert "pw-canary-42" not in str(wrong)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({}, 'write "path"'),
        ({"path": "a", "table": "b.c"}, 'write "path"'),
        ({"table": "orders", "catalog": "catalog.sqlite"}, "is not namespace.name"),
        ({"table": "shop.orders"}, 'needs "catalog"'),
        ({"path": "hdfs://lake/orders"}, "cannot be read"),
        ({"path": "/etc"}, "outside the folders"),
        ({"path": "iceberg", "version": 1, "as_of": "2026-01-01"}, "keep one of them"),
        ({"path": "iceberg", "version": -1}, "not the number"),
        ({"path": "iceberg", "columns": [1]}, "list of names"),
    ],
)
async def test_invalid_inputs_are_reported(tools: dict[str, TableReadTool], inputs: dict[str, Any], said: str) -> None:
    error = await Table(tools["iceberg"], written_tables()).error(**inputs)

    assert (error.kind, said in error.message) == ("lake.input", True), error
