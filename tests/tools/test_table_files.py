"""Rows as tables: what one task keeps, the next one reads, typed, masked, and past the event log."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from noetl.base.errors import ToolError
from noetl.events.outcomes import PARQUET
from noetl.templates.sql.statements import quoted
from noetl.tools.table_files import TableFiles
from noetl.tools.table_sql import TypedColumn, copy_to, scan
from tests.servers.object_stores import s3_bucket
from tests.servers.postgres import pg_auth
from tests.servers.snowflake import drivers_python
from tests.tools.table_tasks import TYPES, SharedTools, TableTasks

__all__ = ["pg_auth"]
pytestmark = [pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(loop_scope="module")
async def tasks(tmp_path: Path, shared_tools: SharedTools) -> AsyncIterator[TableTasks]:
    tasks = TableTasks(tmp_path, shared_tools)
    yield tasks
    tasks.close()


@pytest.fixture(autouse=True)
def nothing_left(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of tasks are made in a place of the test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))


def left_behind() -> list[str]:
    return [one.name for one in Path(tempfile.gettempdir()).iterdir() if not one.name.startswith("noetl-tables-")]


@pytest.mark.req("RES-05")
async def test_rows_of_duckdb_become_a_small_reference_that_the_next_task_reads(tasks: TableTasks) -> None:
    made = await tasks.run(
        "duckdb", {"query": "SELECT range AS id, 'row ' || range AS name FROM range(300000)"}, rows="parquet"
    )

    assert (made["row_count"], made["columns"]) == (300_000, ["id", "name"])
    assert made["ref"]["media_type"] == PARQUET
    assert made["ref"]["columns"] == [{"name": "id", "type": "BIGINT"}, {"name": "name", "type": "VARCHAR"}]
    assert len(msgspec.json.encode(made)) < 1_000
    assert await tasks.rows(made["ref"], "SELECT count(*) AS n, sum(id) AS s, max(name) AS m FROM t") == [
        {"n": 300_000, "s": 44999850000, "m": "row 99999"}
    ]
    assert left_behind() == []


@pytest.mark.req("RES-05")
async def test_types_of_postgres_are_preserved(tasks: TableTasks, pg_auth: dict[str, Any]) -> None:
    made = await tasks.run("postgres", {"auth": pg_auth, "query": TYPES}, rows="parquet")

    types = {one["name"]: one["type"] for one in made["ref"]["columns"]}
    assert types == {
        "yes": "BOOLEAN",
        "small": "SMALLINT",
        "whole": "INTEGER",
        "large": "BIGINT",
        "float": "DOUBLE",
        "money": "DECIMAL(38,2)",
        "price": "DECIMAL(18,1)",
        "words": "VARCHAR",
        "empty": "VARCHAR",
        "nothing": "VARCHAR",
        "day": "DATE",
        "moment": "TIMESTAMP",
        "zoned": "TIMESTAMP WITH TIME ZONE",
        "id": "UUID",
        "doc": "JSON",
        "raw": "BLOB",
        "list": "VARCHAR",
        "backslash": "VARCHAR",
    }
    (row,) = await tasks.rows(made["ref"])
    assert row == {
        "yes": True,
        "small": 1,
        "whole": 2,
        "large": 9007199254740993,
        "float": 1.5,
        "money": "12345678901234567890.12",
        "price": -1.5,
        "words": 'a "quoted", text\nä',
        "empty": "",
        "nothing": None,
        "day": "2026-01-31",
        "moment": "2026-01-31T08:00:00.500000",
        "zoned": "2026-01-31T06:00:00Z",
        "id": "c0ffee00-0000-4000-8000-000000000000",
        "doc": {"a": [1]},
        "raw": "AP8=",
        "list": "{1,2}",
        "backslash": "\\N",
    }


@pytest.mark.req("RES-05")
async def test_a_query_with_values_and_one_without_rows_become_tables_too(
    tasks: TableTasks, pg_auth: dict[str, Any]
) -> None:
    query = "SELECT n, NULL::numeric AS nothing FROM generate_series(1, 10) AS n WHERE n > $1"
    some = await tasks.run("postgres", {"auth": pg_auth, "query": query, "params": [7]}, rows="parquet")
    none = await tasks.run("postgres", {"auth": pg_auth, "query": query, "params": [99]}, rows="parquet")
    only_nulls = await tasks.run(
        "postgres", {"auth": pg_auth, "query": "SELECT NULL::int AS n FROM generate_series(1, 5)"}, rows="parquet"
    )

    assert [row["n"] for row in await tasks.rows(some["ref"])] == [8, 9, 10]
    assert (none["row_count"], await tasks.rows(none["ref"])) == (0, [])
    assert await tasks.rows(only_nulls["ref"]) == [{"n": None}] * 5


@pytest.mark.req("RES-05")
async def test_a_column_has_the_type_of_all_its_values(tasks: TableTasks, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE t (id, price, mixed, raw, empty)")
        rows = [(number, number / 4, number, b"\x00\xff", None) for number in range(6_000)]
        database.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", [*rows, (2**40, 7, 'it "is"\n text', b"", None)])
    made = await tasks.run("sql", {"url": "sqlite:///shop.db", "query": "SELECT *, id AS id FROM t"}, rows="parquet")

    types = {one["name"]: one["type"] for one in made["ref"]["columns"]}
    assert types == {
        "id": "BIGINT",
        "price": "DOUBLE",
        "mixed": "VARCHAR",
        "raw": "BLOB",
        "empty": "VARCHAR",
        "id_1": "BIGINT",
    }
    (last,) = await tasks.rows(made["ref"], "SELECT * FROM t ORDER BY id DESC LIMIT 1")
    assert last == {"id": 2**40, "price": 7.0, "mixed": 'it "is"\n text', "raw": "", "empty": None, "id_1": 2**40}


@pytest.mark.req("RES-05")
async def test_python_reads_a_table_by_its_path_and_can_return_one(tasks: TableTasks) -> None:
    made = await tasks.run("duckdb", {"query": "SELECT range AS n FROM range(10)"}, rows="parquet")
    code = "import duckdb\nresult = duckdb.sql(f\"SELECT sum(n)::INTEGER AS total FROM '{numbers}'\")"
    told = await tasks.run("python", {"code": code, "tables": {"numbers": made["ref"]}}, rows="parquet")
    listed = await tasks.run(
        "python", {"code": "def main():\n    for n in range(3):\n        yield {'n': n, 'w': 'x' * n}"}, rows="parquet"
    )

    assert await tasks.rows(told["ref"]) == [{"total": 45}]
    assert await tasks.rows(listed["ref"]) == [{"n": 0, "w": ""}, {"n": 1, "w": "x"}, {"n": 2, "w": "xx"}]


async def test_python_reports_a_result_that_is_not_a_table_and_a_missing_library(tasks: TableTasks) -> None:
    made = await tasks.run("duckdb", {"query": "SELECT 1 AS n"}, rows="parquet")
    one = await tasks.error("python", {"code": "result = {'a': 1}"}, rows="parquet")
    unknown = await tasks.error("python", {"code": "result = t", "tables": {"t": made["ref"]}}, tables="polars")

    assert (one.kind, "one mapping" in one.message) == ("py.exception", True)
    assert "path, arrow, pandas" in unknown.message


@pytest_asyncio.fixture(loop_scope="module")
async def library_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TableTasks]:
    """Tools of its own, whose `python` runs in the environment of the database drivers: it has both libraries, which
    are too large for this one."""
    monkeypatch.setattr(sys, "executable", drivers_python())
    tools = SharedTools()
    tasks = TableTasks(tmp_path, tools)
    yield tasks
    tasks.close()
    await tools.close()


@pytest.mark.timeout(900)  # the first run installs the environment
async def test_python_reads_a_table_with_a_dataframe_library(library_tasks: TableTasks) -> None:
    tasks = library_tasks
    made = await tasks.run("duckdb", {"query": "SELECT range AS n FROM range(10)"}, rows="parquet")
    for kind in ("arrow", "pandas"):
        code = {"code": "result = t", "tables": {"t": made["ref"]}}
        told = await tasks.run("python", code, tables=kind, rows="parquet")

        assert told["row_count"] == 10


async def test_a_table_is_uploaded_to_storage_as_a_file(tasks: TableTasks, tmp_path: Path) -> None:
    made = await tasks.run("duckdb", {"query": "SELECT range AS n FROM range(1000)"}, rows="parquet")
    put = await tasks.run("storage", {"op": "put", "url": "file:out/numbers.parquet", "data": made["ref"]})
    (counted,) = (
        await tasks.run(
            "duckdb", {"query": "SELECT count(*) AS n FROM 'out/numbers.parquet'".replace("out", str(tmp_path / "out"))}
        )
    )["data"]

    assert (put["size"], put["checksum"]) == (made["ref"]["size"], f"sha256:{made['ref']['checksum']}")
    assert counted == {"n": 1000}
    closed = await tasks.error("storage", {"op": "put", "url": "file:/etc/numbers.parquet", "data": made["ref"]})
    assert closed.kind == "storage.input"


@pytest.mark.timeout(600)
async def test_a_table_is_streamed_to_an_object_store(tasks: TableTasks) -> None:
    bucket = s3_bucket()
    made = await tasks.run("duckdb", {"query": "SELECT range AS n FROM range(1000)"}, rows="parquet")
    url = f"{bucket.url}/tables/{secrets.token_hex(4)}.parquet"
    put = await tasks.run("storage", {"op": "put", "url": url, "data": made["ref"], "auth": bucket.auth})
    found = await tasks.run("storage", {"op": "list", "url": f"{bucket.url}/tables", "auth": bucket.auth})

    assert put["checksum"] == f"sha256:{made['ref']['checksum']}"
    assert url in [one["url"] for one in found["objects"]]


@pytest.mark.req("KEY-06")
async def test_no_byte_of_a_secret_appears_in_a_table(tasks: TableTasks, pg_auth: dict[str, Any]) -> None:
    """As they are, in JSON, bytes, lists, numbers and names of columns."""
    tasks.secrets = [secrets.token_urlsafe(18) for _ in range(48)] + [
        f'it\'s "{secrets.token_hex(6)}", ä',
        "1234567890123",
    ]
    values = ", ".join(f"($${one}$$)" for one in tasks.secrets)
    query = f"""
      SELECT s AS word, 'before ' || s || ' after' AS text, jsonb_build_object('k', s) AS doc, s::bytea AS raw,
        ARRAY[s] AS list, encode(convert_to(s, 'UTF8'), 'base64') AS coded, 1234567890123 AS number,
        upper(s) AS "{tasks.secrets[0]}", n AS id
      FROM (VALUES {values}) AS v (s), generate_series(1, 20) AS n
    """
    made = await tasks.run(
        "postgres", {"auth": pg_auth, "query": query.replace("s::bytea", "convert_to(s, 'UTF8')")}, rows="parquet"
    )
    again = await tasks.run(
        "duckdb",
        {"query": "SELECT *, [word] AS words, {'w': word} AS nested FROM t", "tables": {"t": made["ref"]}},
        rows="parquet",
    )

    rows = await tasks.rows(made["ref"])
    told = msgspec.json.encode([made, again, rows]).decode()
    for secret in tasks.secrets:
        assert secret not in told
    assert {row["word"] for row in rows} == {"***"}
    assert {(row["raw"], row["number"]) for row in rows} == {("Kioq", "***")}
    assert sorted({row["id"] for row in rows}) == list(range(1, 21)), "what holds none keeps its type"
    folder = tasks.results.table_file(made["ref"]["checksum"]).parent
    stored = b"".join(one.read_bytes() for one in folder.iterdir())
    assert not [secret for secret in tasks.secrets if secret.encode() in stored]


@pytest.mark.parametrize(
    ("kind", "inputs", "words"),
    [
        ("duckdb", {"query": "CREATE TABLE t (n INT)"}, "must be a query"),
        ("sql", {"url": "sqlite://", "query": "CREATE TABLE t (n INT)"}, "gives none"),
        (
            "duckdb",
            {"query": "SELECT 1", "tables": {"t": {"media_type": PARQUET, "checksum": "../x", "size": 1}}},
            "not the reference",
        ),
        ("duckdb", {"query": "SELECT 1", "tables": {"t": [1]}}, "{{ step.ref }}"),
        (
            "duckdb",
            {"query": "SELECT 1", "tables": {"t": {"media_type": PARQUET, "checksum": "0" * 64, "size": 1}}},
            "cannot be read",
        ),
        ("duckdb", {"query": "SELECT range AS n FROM range(20)"}, "more than 10 rows"),
    ],
)
async def test_a_result_that_cannot_be_a_table_is_refused(
    tasks: TableTasks, kind: str, inputs: Any, words: str
) -> None:
    error = await tasks.error(kind, inputs, rows="parquet", max_rows=10)

    assert words in error.message
    assert left_behind() == []


async def test_an_unknown_rows_option_is_reported(tasks: TableTasks) -> None:
    assert "inline or parquet" in (await tasks.error("duckdb", {"query": "SELECT 1"}, rows="arrow")).message


async def test_a_cancelled_task_leaves_no_file_and_no_table(tasks: TableTasks, pg_auth: dict[str, Any]) -> None:
    query = "SELECT n, pg_sleep(CASE WHEN n > 1000 THEN 60 ELSE 0 END)::text FROM generate_series(1, 2000) AS n"
    copying = (
        "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'COPY%' AND datname = current_database() AND state = 'active'"
    )
    running = asyncio.create_task(tasks.outcome("postgres", {"auth": pg_auth, "query": query}, rows="parquet"))
    # The server ignores a request to cancel that comes before the statement, and the driver sends no second one.
    while (
        not left_behind() or not (await tasks.outcome("postgres", {"auth": pg_auth, "query": copying})).result["data"]
    ):
        assert not running.done(), running.result()
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert left_behind() == []
    assert tasks.results.untouched(before=1e12) == []


async def test_a_rewritten_file_is_read_again_and_an_error_affects_no_later_call(tmp_path: Path) -> None:
    """Calls with SQL of ours share a connection as long as they work in the same folder."""
    files, other = TableFiles(), tmp_path / "other"
    other.mkdir()
    file = tmp_path / "rows.parquet"
    seen: list[Any] = []
    for number in range(3):
        await files.sql("exec", tmp_path, copy_to(file, f"SELECT {number} AS n"))
        (found,) = await files.sql("exec", tmp_path, f"SELECT n FROM {scan(file)}")
        seen += found.rows
        with pytest.raises(ToolError):
            await files.sql("exec", tmp_path, "SELECT error('no')")
    with pytest.raises(ToolError, match="disabled by configuration"):
        await files.sql("exec", other, f"SELECT n FROM {scan(file)}")
    await files.close()

    assert seen == [{"n": 0}, {"n": 1}, {"n": 2}]


@pytest.mark.req("RES-05")
async def test_a_large_file_needs_little_memory(tmp_path: Path) -> None:
    """The process of DuckDB streams 3 million rows: it holds a few of the buffers of 32 MiB that CSV is read in, far
    less than the 512 MiB that it may use. Reading on two threads, it held more than those."""
    columns = [TypedColumn("id", "BIGINT"), TypedColumn("name", "VARCHAR"), TypedColumn("note", "VARCHAR")]
    block = "".join(f'{number},"customer {number}","{secrets.token_hex(24)}"\n' for number in range(20_000)).encode()
    source, file, files = tmp_path / "rows.csv", tmp_path / "rows.parquet", TableFiles()
    with source.open("wb") as opened:
        opened.writelines(block for _ in range(150))

    await files.from_csv("exec", source, columns, file)
    await files.sql("exec", tmp_path, f"COPY (FROM {scan(file)}) TO {quoted(str(source))} (FORMAT csv)")
    shape = await files.shape("exec", file)
    ((_, child),) = files._children._idle
    peak = _peak_mib(child.pid)
    await files.close()

    assert shape.row_count == 3_000_000
    assert peak < 384


def _peak_mib(pid: int) -> float:
    (line,) = [one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmHWM")]
    return int(line.split()[1]) / 1024
