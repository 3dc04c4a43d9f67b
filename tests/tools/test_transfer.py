"""`transfer`: rows between real databases, an HTTP server and the results store; whole, once, and resumed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from noetl.base.clock import SystemClock
from noetl.events.outcomes import Outcome
from noetl.store.results.files import MemoryResults
from noetl.tools.contract import ToolContext, ToolResult
from noetl.worker.attempt import attempt
from tests.servers.http import HttpServer, Request, reply
from tests.servers.postgres import pg_auth, server
from tests.tools.sql_tasks import context, outcome_of
from tests.tools.table_tasks import Breaking, SharedTools

__all__ = ["pg_auth"]
pytestmark = [pytest.mark.asyncio(loop_scope="module")]  # all tests use the same tools: each starts child processes


class World:
    """Everything around a transfer: tools, a results store, an open folder, a PostgreSQL database."""

    def __init__(self, auth: dict[str, Any], folder: Path, shared: SharedTools) -> None:
        self.auth, self.folder, self.results = auth, folder, MemoryResults()
        self.tools, self.transfer = shared.registry, shared.transfer
        self.table = f"t_{uuid4().hex[:10]}"

    async def run(self, source: Any, target: Any, *, tool: Callable[[str], Any] | None = None, **more: Any) -> Outcome:
        key = more.pop("idempotency_key", self.table)
        spec = more.pop("spec", None)
        around = context(
            spec,
            key=key,
            keep=self.results.put,
            load=self.results.load,
            tool=tool or self.tools.tool,
            data_folders=(str(self.folder),),
        )
        inputs = {"source": source, "target": target, **more}
        return await attempt(self.transfer, inputs, around, clock=SystemClock(), sleep=asyncio.sleep, trace_id="trace")

    def sql(self, text: str) -> str:
        return server().ask(text, self.auth["database"])

    def numbers(self, count: int) -> dict[str, Any]:
        """A source of that many rows, in PostgreSQL."""
        return {
            "kind": "postgres",
            "auth": self.auth,
            "query": f"SELECT n AS id, 'row ' || n AS name FROM generate_series(1, {count}) AS n",
            "cursor": "id",
        }

    def target(self, columns: str = "id int PRIMARY KEY, name text") -> dict[str, Any]:
        self.sql(f"CREATE TABLE {self.table} ({columns})")
        return {"kind": "postgres", "auth": self.auth, "table": self.table}

    def count(self) -> list[str]:
        """Rows, and distinct ones."""
        return self.sql(f"SELECT count(*), count(DISTINCT id) FROM {self.table}").split("|")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_tools() -> AsyncIterator[SharedTools]:
    tools = SharedTools()
    yield tools
    await tools.close()


@pytest_asyncio.fixture(loop_scope="module")
async def world(pg_auth: dict[str, Any], tmp_path: Path, shared_tools: SharedTools) -> World:
    return World(pg_auth, tmp_path, shared_tools)


@pytest.mark.req("RES-05")
async def test_rows_are_moved_in_chunks_and_the_result_names_their_place(world: World) -> None:
    outcome = await world.run(world.numbers(25), world.target(), chunk_size=10)

    assert outcome.error is None
    assert (outcome.result["rows"], outcome.result["chunks"], outcome.result["cursor"]) == (25, 3, 25)
    reference = outcome.result["reference"]
    assert (reference["store"], reference["key"], reference["row_count"]) == ("postgres.table", world.table, 25)
    assert reference["size"] > 0
    assert world.count() == ["25", "25"]
    assert outcome.meta.stdout == (
        "10 rows, 10 in 1 chunks so far\n10 rows, 20 in 2 chunks so far\n5 rows, 25 in 3 chunks so far"
    )


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 20])
async def test_no_row_is_lost_or_duplicated_at_a_chunk_boundary(world: World, count: int) -> None:
    outcome = await world.run(world.numbers(count), world.target(), chunk_size=10)

    assert outcome.result["rows"] == count
    assert world.count() == [str(count), str(count)]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, 10))
async def test_a_repeated_run_resumes_where_the_first_one_failed(world: World, at: int, after: bool) -> None:
    """Wherever it breaks: before a call has reached the database, or after, when nobody heard that it had."""
    source, target = world.numbers(25), world.target()
    breaking = Breaking(world.tools.tool("postgres"), at, after=after)

    broken = await world.run(source, target, chunk_size=10, tool=lambda kind: breaking)
    whole = await world.run(source, target, chunk_size=10)

    assert broken.error is not None
    assert broken.error.retryable
    assert whole.result["rows"] == 25
    assert world.count() == ["25", "25"]


async def test_a_failed_run_reports_its_progress(world: World) -> None:
    source, target = world.numbers(25), world.target()
    # The first transfer into a database makes the table of progress, which is a call more: not this one, then.
    await world.run(world.numbers(0), target, idempotency_key=f"{world.table}-before")
    breaking = Breaking(world.tools.tool("postgres"), 6, after=False)

    broken = await world.run(source, target, chunk_size=10, tool=lambda kind: breaking)
    whole = await world.run(source, target, chunk_size=10)

    assert broken.error is not None
    assert broken.error.message == "the network is gone (after 10 rows in 1 chunks)"
    assert broken.error.details is not None
    assert (broken.error.details["rows"], broken.error.details["chunks"]) == (10, 1)
    assert str(whole.meta.stdout).startswith("resumed after 10 rows in 1 chunks\n")


async def test_a_completed_run_is_not_repeated(world: World) -> None:
    """Its worker may die between the last commit and the report. `exactly_once` of its calls would be too much."""
    source, target = world.numbers(5), world.target("id int, name text")
    without_cursor = {name: value for name, value in source.items() if name != "cursor"}

    for given in (source, without_cursor):
        key = str(uuid4())
        await world.run(given, target, idempotency_key=key, spec={"exactly_once": True})
        again = await world.run(given, target, idempotency_key=key, spec={"exactly_once": True})
        assert again.result["rows"] == 5

    assert world.count() == ["10", "5"]


async def test_one_of_two_concurrent_workers_moves_a_chunk(world: World) -> None:
    """One was thought lost, and was not: the second write of the same chunk fails as a whole."""
    source, target = world.numbers(25), world.target("id int, name text")
    tool = world.tools.tool("postgres")

    class Slow:
        calls = 0

        async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
            self.calls += 1
            if self.calls == 5:  # about to write its first chunk
                assert (await world.run(source, target, chunk_size=10)).error is None
            return await tool.run(inputs, context)

    slow = Slow()
    outcome = await world.run(source, target, chunk_size=10, tool=lambda kind: slow)

    assert outcome.error is not None
    assert "noetl_transfers_pkey" in outcome.error.message
    assert world.count() == ["25", "25"]


async def test_a_role_that_may_not_record_progress_gets_the_missing_permission(world: World) -> None:
    role = f"r_{uuid4().hex[:10]}"
    world.sql(f"CREATE SCHEMA {role}; CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {role} TO {role}")
    world.sql(f"CREATE TABLE {role}.t (id int, name text); GRANT ALL ON {role}.t TO {role}")
    target = {"kind": "postgres", "auth": {**world.auth, "user": role, "schema": role}, "table": "t"}
    await world.run(world.numbers(1), world.target())  # by one who may, so that there is a table like it

    refused = await world.run(world.numbers(3), target)
    world.sql(f"CREATE TABLE {role}.noetl_transfers (LIKE noetl_transfers INCLUDING ALL)")
    world.sql(f"GRANT SELECT, INSERT ON {role}.noetl_transfers TO {role}")
    allowed = await world.run(world.numbers(3), target)
    world.sql(f"DROP SCHEMA {role} CASCADE; DROP ROLE {role}")

    assert refused.error is not None
    assert refused.error.code == "42501"
    assert refused.error.message.startswith("the table noetl_transfers, where a transfer records its progress, cannot")
    assert allowed.result["rows"] == 3


async def test_rows_with_equal_cursor_values_stay_in_one_chunk(world: World) -> None:
    query = "SELECT n AS id, n / 3 AS day FROM generate_series(0, 20) AS n"
    source = {"kind": "postgres", "auth": world.auth, "query": query, "cursor": "day"}

    outcome = await world.run(source, world.target("id int, day int"), chunk_size=4)
    refused = await world.run(source, {"kind": "artifact"}, chunk_size=2)

    assert outcome.result["rows"] == 21
    assert world.count() == ["21", "21"]
    assert refused.error is not None
    assert 'more than 2 rows share one value of "day"' in refused.error.message


async def test_a_null_cursor_value_is_refused(world: World) -> None:
    """Such rows come after all others, and would never be seen."""
    source = {"kind": "postgres", "auth": world.auth, "cursor": "id", "query": "SELECT NULL::int AS id UNION SELECT 1"}

    outcome = await world.run(source, {"kind": "artifact"})

    assert outcome.error is not None
    assert 'rows whose "id" is null' in outcome.error.message


@pytest.mark.parametrize(
    "column",
    ["timestamptz '2026-01-01' + n * interval '1.000001 s'", "(n * 1.000000000000000001)::numeric", "'k' || 100 + n"],
)
async def test_any_ordered_column_can_be_a_cursor(world: World, column: str) -> None:
    query = f"SELECT n AS id, {column} AS c FROM generate_series(1, 12) AS n -- the end"
    source = {"kind": "postgres", "auth": world.auth, "query": query, "cursor": "c"}

    outcome = await world.run(source, world.target("id int, c text"), chunk_size=5)

    assert outcome.error is None
    assert world.count() == ["12", "12"]


async def test_a_whole_table_can_be_a_source_with_renamed_columns(world: World) -> None:
    world.sql(f"CREATE TABLE {world.table}_src AS SELECT 1 AS a, 'x' AS b, 2 AS c")
    source = {"kind": "postgres", "auth": world.auth, "table": f"{world.table}_src"}

    outcome = await world.run(source, world.target(), mapping={"a": "id", "b": "name"})
    wrong = await world.run(source, {"kind": "artifact"}, mapping={"z": "id"})

    assert outcome.error is None
    assert world.sql(f"SELECT * FROM {world.table}") == "1|x"
    assert wrong.error is not None
    assert wrong.error.message == 'the source has no column "z"; it has a, b, c'


async def test_replace_empties_the_table_with_the_first_chunk(world: World) -> None:
    target = world.target()
    world.sql(f"INSERT INTO {world.table} VALUES (7, 'old'), (99, 'old')")

    outcome = await world.run(world.numbers(25), target, mode="replace", chunk_size=10)

    assert outcome.error is None
    assert world.count() == ["25", "25"]
    nothing = await world.run(world.numbers(0), target, mode="replace", idempotency_key="other")
    assert nothing.result["rows"] == 0
    assert world.count() == ["0", "0"]


async def test_upsert_updates_existing_rows(world: World) -> None:
    target = world.target()
    world.sql(f"INSERT INTO {world.table} VALUES (2, 'old'), (99, 'old')")

    outcome = await world.run(world.numbers(3), target, mode="upsert", key="id")
    needs_key = await world.run(world.numbers(3), target, mode="upsert")

    assert outcome.error is None
    assert world.sql(f"SELECT name FROM {world.table} ORDER BY id").split("\n") == ["row 1", "row 2", "row 3", "old"]
    assert needs_key.error is not None
    assert 'needs "key"' in needs_key.error.message


async def test_a_failed_chunk_writes_nothing(world: World) -> None:
    target = world.target("id int CHECK (id <> 15), name text")

    outcome = await world.run(world.numbers(25), target, chunk_size=10)

    assert outcome.error is not None
    assert outcome.error.code == "23514"
    assert world.count() == ["10", "10"]


async def test_duckdb_can_be_source_and_target_like_postgres(world: World) -> None:
    file = {"kind": "duckdb", "database": "there.duckdb"}
    duckdb = world.tools.tool("duckdb")
    context_free = {"database": "there.duckdb", "command": "CREATE TABLE t (id INT, name VARCHAR)"}
    await outcome_of(duckdb, context_free, data_folders=(str(world.folder),))
    breaking = Breaking(duckdb, 5, after=True)

    broken = await world.run(
        world.numbers(25),
        {**file, "table": "t"},
        chunk_size=10,
        tool=lambda kind: breaking if kind == "duckdb" else world.tools.tool(kind),
    )
    there = await world.run(world.numbers(25), {**file, "table": "t"}, chunk_size=10)
    back = await world.run(
        {**file, "query": "SELECT * FROM t", "cursor": "id"}, world.target(), chunk_size=7, idempotency_key="back"
    )

    assert broken.error is not None
    assert (there.result["rows"], there.result["reference"]["store"]) == (25, "duckdb.table")
    assert back.result["rows"] == 25
    assert world.count() == ["25", "25"]


async def test_rows_are_written_to_artifacts_and_read_back(world: World) -> None:
    one = await world.run(world.numbers(3), {"kind": "artifact"})
    many = await world.run(world.numbers(25), {"kind": "artifact"}, chunk_size=10)
    none = await world.run(world.numbers(0), {"kind": "artifact"})

    assert (one.result["rows"], many.result["rows"], none.result["rows"]) == (3, 25, 0)
    assert many.result["reference"]["schema_hint"] == "rows.parts"
    target = world.target()
    for reference in (one.result["reference"], many.result["reference"], none.result["reference"]):
        world.sql(f"TRUNCATE {world.table}")
        back = await world.run(
            {"kind": "artifact", "ref": reference}, target, chunk_size=7, idempotency_key=str(reference)
        )
        assert back.result["rows"] == reference["row_count"]
        assert world.count() == [str(reference["row_count"])] * 2


@pytest.mark.parametrize("at", range(1, 7))
async def test_an_artifact_source_is_resumed_by_row_number(world: World, at: int) -> None:
    kept = await world.run(world.numbers(25), {"kind": "artifact"}, chunk_size=10)
    source, target = {"kind": "artifact", "ref": kept.result["reference"]}, world.target("id int, name text")
    breaking = Breaking(world.tools.tool("postgres"), at, after=True)

    await world.run(source, target, chunk_size=4, tool=lambda kind: breaking)
    whole = await world.run(source, target, chunk_size=4)

    assert whole.result["rows"] == 25
    assert world.count() == ["25", "25"]


def _page(request: Request) -> Any:
    """Pages of two rows out of five, by number, token or address."""
    at = int(request.query.get("page") or request.query.get("token") or 1)
    rows = [{"id": n, "name": f"row {n}"} for n in range(2 * at - 1, min(2 * at, 5) + 1)]
    more = at < 3
    paging = {"more": more, "token": str(at + 1) if more else None, "url": f"/rows?page={at + 1}" if more else None}
    return reply(json={"data": {"rows": rows}, "paging": paging})


@pytest.mark.parametrize(
    ("page", "requests"),
    [
        ({"param": "page", "start": 1}, 4),
        ({"param": "page", "more": "paging.more"}, 3),
        ({"param": "token", "next": "paging.token"}, 3),
        ({"next": "paging.url"}, 3),
    ],
)
async def test_pages_of_an_http_source_are_chunks(world: World, page: dict[str, Any], requests: int) -> None:
    async with HttpServer({"/rows": _page}) as web:
        source = {"kind": "http", "url": f"{web.url}/rows", "params": {"q": "x"}, "rows": "data.rows", "page": page}
        outcome = await world.run(source, world.target())

        assert outcome.error is None
        assert (outcome.result["rows"], len(web.requests)) == (5, requests)
        assert world.count() == ["5", "5"]


@pytest.mark.parametrize("at", range(1, 6))
async def test_an_http_source_is_resumed_at_its_page(world: World, at: int) -> None:
    target = world.target("id int, name text")
    breaking = Breaking(world.tools.tool("postgres"), at, after=True)
    async with HttpServer({"/rows": _page}) as web:
        page = {"param": "token", "next": "paging.token"}
        source = {"kind": "http", "url": f"{web.url}/rows", "rows": "data.rows", "page": page}
        await world.run(source, target, tool=lambda kind: breaking if kind == "postgres" else world.tools.tool(kind))
        whole = await world.run(source, target)

    assert whole.result["rows"] == 5
    assert world.count() == ["5", "5"]


async def test_a_next_page_on_another_server_is_refused(world: World) -> None:
    """The credential of the first would go there."""
    answer = reply(json={"rows": [{"id": 1}], "next": "http://127.0.0.1:1/steal"})
    async with HttpServer({"/rows": answer}) as web:
        source = {"kind": "http", "url": f"{web.url}/rows", "rows": "rows", "page": {"next": "next"}}
        outcome = await world.run(source, {"kind": "artifact"})

    assert outcome.error is not None
    assert outcome.error.message.startswith("page.next leads to another server: 127.0.0.1:1")


async def test_a_next_page_equal_to_the_current_page_is_refused(world: World) -> None:
    async with HttpServer({"/rows": reply(json={"rows": [{"id": 1}], "next": "again"})}) as web:
        page = {"param": "token", "next": "next"}
        source = {"kind": "http", "url": f"{web.url}/rows", "rows": "rows", "page": page}
        outcome = await world.run(source, {"kind": "artifact"})

    assert outcome.error is not None
    assert 'page.next leads from "again" to itself' in outcome.error.message


async def test_an_http_target_receives_each_chunk_with_its_own_key(world: World) -> None:
    """The same keys in every attempt: that is how the other side knows a chunk again."""
    async with HttpServer({"POST /in": reply(204)}) as web:
        for _ in range(2):
            target = {"kind": "http", "url": f"{web.url}/in", "rows_key": "items"}
            outcome = await world.run(world.numbers(5), target, chunk_size=2)

        assert outcome.result["reference"]["store"] == "http"
        assert [len(request.json["items"]) for request in web.requests] == [2, 2, 1] * 2
        keys = [request.headers["idempotency-key"] for request in web.requests]
        assert keys[:3] == keys[3:]
        assert len(set(keys)) == 3


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"source": None}, "source must be a mapping such as"),
        ({"source": {"kind": "ftp"}}, 'source.kind "ftp" is not one that rows can move by: postgres, duckdb'),
        ({"target": {"kind": "shell"}}, 'target.kind "shell" is not one'),
        ({"source": {"kind": "postgres"}}, 'a postgres source needs "query"'),
        ({"source": {"kind": "postgres", "table": "a; DROP TABLE b"}}, "is not a name of a table"),
        ({"source": {"kind": "duckdb", "query": "SELECT 1; SELECT 2"}}, "must be one query, and this holds 2"),
        ({"source": {"kind": "http", "url": "http://x", "page": {}}}, 'source.page needs "param"'),
        ({"target": {"kind": "postgres"}}, 'a postgres target needs "table"'),
        ({"target": {"kind": "postgres", "table": "a b"}}, "not a valid table name"),
        ({"mode": "truncate"}, 'mode "truncate" is not known'),
        ({"mode": "replace"}, "an artifact cannot be changed"),
        ({"chunk_size": 0}, 'chunk_size "0" is not a number of at least 1'),
        ({"source": {"kind": "artifact", "ref": "0" * 64}}, "is gone"),
    ],
)
async def test_inputs_that_move_nothing_are_reported(world: World, inputs: dict[str, Any], words: str) -> None:
    given = {"source": {"kind": "artifact", "ref": "0" * 64}, "target": {"kind": "artifact"}, **inputs}

    outcome = await world.run(given.pop("source"), given.pop("target"), **given)

    assert outcome.error is not None
    assert re.search(words, outcome.error.message)


async def test_a_response_without_rows_is_reported_with_its_keys(world: World) -> None:
    async with HttpServer({"/rows": reply(json={"items": [], "total": 0})}) as web:
        outcome = await world.run({"kind": "http", "url": f"{web.url}/rows"}, {"kind": "artifact"})

    assert outcome.error is not None
    assert "it is a mapping with items, total; name their path with source.rows" in outcome.error.message
