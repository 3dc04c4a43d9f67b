"""`transfer` of tables: databases, objects and stored tables, in chunks that are files; typed, counted, resumed."""

from __future__ import annotations

import asyncio
import csv
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest

from noetl.tools.contract import ToolContext, ToolResult
from tests.servers.mariadb import mariadb
from tests.servers.object_stores import s3_bucket
from tests.tools.table_tasks import TYPES, Breaking, Transfers
from tests.volume import IS_DEEP

pytestmark = [pytest.mark.asyncio(loop_scope="module")]


@pytest.mark.req("RES-05")
async def test_a_query_is_written_to_parquet_and_read_back_with_its_types(here: Transfers) -> None:
    here.sql(f"CREATE TABLE {here.table} AS {TYPES}")
    parquet = {"kind": "storage", "url": "out/all.parquet"}
    there = await here.result(here.postgres(table=here.table), parquet, run="there")
    here.sql(f"CREATE TABLE {here.table}_back (LIKE {here.table})")
    back = await here.result(parquet, here.postgres(table=f"{here.table}_back"), run="back")

    assert there["reference"]["row_count"] == back["rows"] == 1
    assert there["checksum"] == back["checksum"], "the same rows, whichever way they go"
    differing = f"SELECT count(*) FROM {here.table} a, {here.table}_back b WHERE a::text = b::text"
    assert here.sql(differing) == "1"


@pytest.mark.req("RES-05")
@pytest.mark.parametrize(("ending", "count"), [("csv", 25), ("jsonl", 25), ("parquet", 0), ("csv.gz", 3)])
async def test_objects_in_other_formats_can_be_source_and_target(here: Transfers, ending: str, count: int) -> None:
    if ending.endswith(".gz"):
        refused = await here.moved(here.numbers(3), {"kind": "storage", "url": f"x.{ending}", "format": "zip"})
        assert refused.error is not None
        assert 'format "zip" is not known' in refused.error.message
        return
    made = {"kind": "storage", "url": f"rows.{ending}"}
    there = await here.result(here.numbers(count, cursor="id"), made, chunk_size=10, run="there")
    back = await here.result(made, here.created(), chunk_size=7, run="back")

    assert (there["rows"], there["chunks"], back["rows"]) == (count, -(-count // 10), count)
    assert here.count() == [str(count)] * 2
    text = (here.folder / f"rows.{ending}").read_text() if ending != "parquet" else ""
    if ending == "csv":
        assert list(csv.reader(text.splitlines()))[:2] == [
            ["id", "name", "price"],
            ["1", "row 1", "0.25000000000000000000"],
        ]
    if ending == "jsonl":
        assert json.loads(text.splitlines()[-1])["name"] == "row 25"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["sqlite", "mysql", "duckdb", "postgres"])
async def test_rows_are_moved_between_any_two_databases(here: Transfers, kind: str) -> None:
    other: dict[str, Any] = {"kind": "sql", "url": "sqlite:///shop.db"}
    if kind == "mysql":
        other = {"kind": "sql", "auth": mariadb().auth}
    elif kind == "duckdb":
        other = {"kind": "duckdb", "database": "shop.duckdb"}
    elif kind == "postgres":
        other = here.postgres()
    table = f"far_{uuid4().hex[:8]}"
    columns = "id BIGINT PRIMARY KEY, name VARCHAR(50), price DECIMAL(12, 2), day DATE, raw BLOB"
    command = f"CREATE TABLE {table} ({columns.replace('BLOB', 'BYTEA') if kind == 'postgres' else columns})"
    await here.run(other["kind"], {**{k: v for k, v in other.items() if k != "kind"}, "command": command})
    query = (
        "SELECT n AS id, CASE WHEN n % 7 = 0 THEN NULL ELSE 'it''s \"' || n || '\"' END AS name, "
        "(n / 4.0)::numeric(12, 2) AS price, date '2026-01-01' + n AS day, "
        "decode('00ff', 'hex') AS raw FROM generate_series(1, 25) AS n"
    )
    there = await here.result(
        here.postgres(query=query, cursor="id"), {**other, "table": table}, chunk_size=10, run="a"
    )
    again = await here.result(here.postgres(query=query), {**other, "table": table}, mode="upsert", run="b", key="id")
    target = here.created("id bigint, name text, price numeric(12, 2), day date, raw bytea")
    back = await here.result({**other, "query": f"SELECT * FROM {table}", "cursor": "id"}, target, chunk_size=4)

    assert (there["rows"], there["chunks"], again["rows"], back["rows"]) == (25, 3, 25, 25)
    assert here.sql(f"SELECT count(*) FROM ({query}) a JOIN {here.table} b ON a::text = b::text") == "25"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, 6))
async def test_a_transfer_into_sql_resumes_where_it_failed(here: Transfers, at: int, after: bool) -> None:
    with closing(sqlite3.connect(here.folder / "shop.db")) as database, database:
        database.execute("CREATE TABLE t (id, name, price)")
    target = {"kind": "sql", "url": "sqlite:///shop.db", "table": "t"}
    breaking = Breaking(here.tools.tool("sql"), at, after=after)
    broken = await here.moved(
        here.numbers(25, cursor="id"),
        target,
        chunk_size=10,
        tool=lambda kind: breaking if kind == "sql" else here.tools.tool(kind),
    )
    whole = await here.result(here.numbers(25, cursor="id"), target, chunk_size=10)

    assert broken.error is not None
    assert whole["rows"] == 25
    with closing(sqlite3.connect(here.folder / "shop.db")) as database, database:
        assert database.execute("SELECT count(*), count(DISTINCT id) FROM t").fetchone() == (25, 25)


@pytest.mark.parametrize("at", range(3, 6))
async def test_a_transfer_from_a_file_resumes_by_row_number(here: Transfers, at: int) -> None:
    await here.result(here.numbers(25), {"kind": "storage", "url": "rows.parquet"}, run="made")
    source, target = {"kind": "storage", "url": "rows.parquet"}, here.created()
    breaking = Breaking(here.tools.tool("postgres"), at, after=True)
    broken = await here.moved(
        source,
        target,
        chunk_size=10,
        tool=lambda kind: breaking if kind == "postgres" else here.tools.tool(kind),
    )
    whole = await here.result(source, target, chunk_size=10)

    assert broken.error is not None
    assert whole["rows"] == 25
    assert here.count() == ["25", "25"]


async def test_a_transfer_from_a_changed_file_is_not_resumed(here: Transfers) -> None:
    source, target = {"kind": "storage", "url": "rows.parquet"}, here.created()
    await here.result(here.numbers(25), source, run="made")
    breaking = Breaking(here.tools.tool("postgres"), 5, after=False)
    await here.moved(
        source, target, chunk_size=10, tool=lambda kind: breaking if kind == "postgres" else here.tools.tool(kind)
    )
    await here.result(here.numbers(40), source, run="other")
    before = here.count()
    refused = await here.moved(source, target, chunk_size=10)

    assert refused.error is not None
    assert "the source has changed" in refused.error.message
    assert here.count() == before
    assert before[0] in ("10", "20")


async def test_rows_without_a_cursor_are_one_transaction_of_any_size(here: Transfers) -> None:
    size = 100_000 if IS_DEEP else 2_000  # of a chunk
    target = here.created(f"id int CHECK (id <> {size * 3 // 2}), name text, price numeric")
    broken = await here.moved(here.numbers(2 * size), target, chunk_size=size)
    assert broken.error is not None
    assert (broken.error.code, here.count()) == ("23514", ["0", "0"])
    here.sql(f"ALTER TABLE {here.table} DROP CONSTRAINT {here.table}_id_check")
    whole = await here.result(here.numbers(2 * size), target, chunk_size=size)

    assert (whole["rows"], whole["chunks"]) == (2 * size, 2)
    assert here.count() == [str(2 * size)] * 2


async def test_replace_and_a_column_mapping_apply_to_tables_too(here: Transfers) -> None:
    target = here.created("id int, label text")
    here.sql(f"INSERT INTO {here.table} VALUES (99, 'old')")
    moved = await here.result(here.numbers(3), target, mode="replace", mapping={"id": "id", "name": "label"})

    assert moved["rows"] == 3
    assert here.sql(f"SELECT label FROM {here.table} ORDER BY id").split("\n") == ["row 1", "row 2", "row 3"]


async def test_a_stored_table_can_be_source_and_target(here: Transfers) -> None:
    kept = await here.result(here.numbers(25, cursor="id"), {"kind": "artifact", "format": "parquet"}, chunk_size=10)
    back = await here.result({"kind": "artifact", "ref": kept["reference"]}, here.created(), run="back", chunk_size=10)

    assert (kept["reference"]["row_count"], back["rows"], here.count()) == (25, 25, ["25", "25"])
    assert kept["checksum"] == back["checksum"]
    assert (await here.rows(kept["reference"], "SELECT max(id) AS m FROM t")) == [{"m": 25}]


@pytest.mark.timeout(600)
async def test_an_s3_object_can_be_an_end_and_a_rejected_credential_is_reported(here: Transfers) -> None:
    bucket = s3_bucket()
    far = {"kind": "storage", "url": f"{bucket.url}/{uuid4().hex}.parquet", "auth": bucket.auth}
    there = await here.result(here.numbers(25), far, run="there")
    back = await here.result(far, here.created(), run="back")
    missing = await here.moved({**far, "url": f"{bucket.url}/none.parquet"}, here.postgres(table=here.table), run="x")

    assert (there["reference"]["key"], back["rows"]) == (far["url"], 25)
    assert there["reference"]["checksum"].startswith("sha256:")
    assert missing.error is not None
    assert missing.error.kind == "storage.missing"


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ({"kind": "storage"}, {"kind": "storage", "url": "x.csv"}, 'a storage source needs "url"'),
        ({"kind": "storage", "url": "none.csv"}, {"kind": "storage", "url": "x.csv"}, "does not exist"),
        (
            {"kind": "storage", "url": "/etc/passwd", "format": "csv"},
            {"kind": "storage", "url": "x.csv"},
            "outside the folders",
        ),
        ({"kind": "sql", "url": "sqlite://", "query": "SELECT 1"}, {"kind": "http", "url": "http://x"}, "go by duckdb"),
        (
            {"kind": "sql", "url": "sqlite://", "query": "SELECT 1 AS a"},
            {"kind": "storage", "url": "x.pdf"},
            'format "pdf"',
        ),
        (
            {"kind": "sql", "url": "sqlite://", "query": "SELECT 1 AS a", "cursor": "b"},
            {"kind": "storage", "url": "x.csv"},
            "b",
        ),
    ],
)
async def test_an_impossible_transfer_is_reported(here: Transfers, source: Any, target: Any, words: str) -> None:
    outcome = await here.moved(source, target)

    assert outcome.error is not None
    assert words in outcome.error.message


class Holding:
    """A tool that does not come back from its n-th call."""

    def __init__(self, tool: Any, at: int) -> None:
        self._tool, self._left, self.is_held = tool, at, asyncio.Event()

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        self._left -= 1
        if self._left == 0:
            self.is_held.set()
            await asyncio.Event().wait()
        result: ToolResult = await self._tool.run(inputs, context)
        return result


async def test_a_cancelled_transfer_leaves_complete_chunks_and_no_file(here: Transfers) -> None:
    target, holding = here.created(), Holding(here.tools.tool("postgres"), 7)
    running = asyncio.create_task(
        here.moved(here.numbers(25, cursor="id"), target, chunk_size=10, tool=lambda kind: holding)
    )
    await holding.is_held.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert here.count() == ["10", "10"]
