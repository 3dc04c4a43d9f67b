"""`transfer` when an end refuses it, or is lost in the middle of a chunk: the error, what stays, and how it
continues."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from noetl.events.outcomes import PARQUET
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.sql.tool import SqlTool
from noetl.worker.remote_values import RemoteTables
from tests.server.live import live
from tests.server.worker_turns import holding
from tests.servers.http import HttpServer, reply
from tests.servers.mariadb import mariadb
from tests.servers.object_stores import google_bucket, s3_bucket
from tests.servers.postgres import server
from tests.servers.proxy import Proxy
from tests.servers.snowflake import LOGIN_REFUSED, drivers_program, fakesnow, snowflake_auth
from tests.tools.sql_tasks import outcome_of
from tests.tools.table_tasks import Transfers

pytestmark = [
    pytest.mark.timeout(600),  # the first run fetches the counterparts
    pytest.mark.asyncio(loop_scope="module"),
]
COLUMNS = "id int, name text, price numeric(12, 2)"
ROWS, CHUNK = 6_000, 2_000
RATE = 60_000  # bytes in a second: slow enough that a chunk is under way when its line is cut

Wanted = Callable[[Mapping[str, Any], ToolContext], bool]


def loads(inputs: Mapping[str, Any], _: ToolContext) -> bool:
    return inputs.get("load") is not None


def reads(_: Mapping[str, Any], context: ToolContext) -> bool:
    return context.spec.get("rows") == "parquet"


def copies(inputs: Mapping[str, Any], _: ToolContext) -> bool:
    return inputs.get("op") == "copy"


class Cutting:
    """A tool whose line is cut in the middle of its n-th call of a kind, and down until that call has ended."""

    def __init__(self, tool: Any, line: Proxy, wanted: Wanted, at: int, *, stays_down: bool = True) -> None:
        self._tool, self._line, self._wanted, self._left = tool, line, wanted, at
        self._stays_down = stays_down
        self.was_cut = False

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        self._left -= self._wanted(inputs, context)
        if self._left or not self._wanted(inputs, context):
            done: ToolResult = await self._tool.run(inputs, context)
            return done
        self._line.rate, before = RATE, self._line.carried
        running = asyncio.ensure_future(self._tool.run(inputs, context))
        while self._line.carried < before + 8_000 and not running.done():
            await asyncio.sleep(0.005)
        assert not running.done(), "it was over before its line was cut"
        self.was_cut = True
        if not self._stays_down:
            self._line.cut()
            self._line.rate = None
        with self._line.down() if self._stays_down else nullcontext():
            try:
                lost: ToolResult = await running
                return lost
            finally:
                self._line.rate = None


@pytest.mark.parametrize("role", ["source", "target"])
@pytest.mark.parametrize("kind", ["sql", "postgres", "storage"])
async def test_an_interrupted_transfer_resumes_and_moves_each_row_once(here: Transfers, kind: str, role: str) -> None:
    with Proxy(*_address(here, kind)) as line:
        far, at = await _far_end(here, kind, role, line)
        ends = (far, here.created()) if role == "source" else (here.numbers(ROWS, cursor="id"), far)
        wanted = copies if kind == "storage" else reads if role == "source" else loads
        # Only the end behind the line is cut: the other may be of the same kind.
        tools = {"sql": here.tools.tool("sql"), "storage": here.tools.tool("storage")}
        tools["postgres"] = here.tools.tool("postgres")
        cut = Cutting(tools[kind], line, lambda inputs, context: _is_far(inputs, line) and wanted(inputs, context), at)

        broken = await here.moved(*ends, chunk_size=CHUNK, tool=lambda one: cut if one == kind else tools[one])
        moved = await here.result(*ends, chunk_size=CHUNK)

    assert broken.error is not None
    assert (broken.error.kind, broken.error.retryable) == (f"{_word(kind)}.error", True)
    assert moved["rows"] == ROWS
    assert await _rows_there(here, kind, role, far) == [str(ROWS), str(ROWS)]


def _word(kind: str) -> str:
    return {"postgres": "pg"}.get(kind, kind)


def _address(here: Transfers, kind: str) -> tuple[str, int]:
    if kind == "postgres":
        return f"{server().socket}/.s.PGSQL.5432", 0
    return "127.0.0.1", mariadb().port if kind == "sql" else s3_bucket().port


def _is_far(inputs: Mapping[str, Any], line: Proxy) -> bool:
    target = inputs.get("target")
    auths = (inputs.get("auth"), target.get("auth") if isinstance(target, Mapping) else None)
    return any(
        isinstance(one, Mapping) and str(line.port) in f"{one.get('port')} {one.get('endpoint')}" for one in auths
    )


async def _far_end(here: Transfers, kind: str, role: str, line: Proxy) -> tuple[dict[str, Any], int]:
    """The end behind the line, filled where it is a source, and the call of it that is to be cut."""
    if kind == "storage":
        bucket = s3_bucket()
        auth = {**bucket.auth, "endpoint": f"http://127.0.0.1:{line.port}"}
        end: dict[str, Any] = {"kind": "storage", "url": f"{bucket.url}/rows.parquet", "auth": auth}
        if role == "source":
            await here.result(here.numbers(ROWS), {**end, "auth": bucket.auth}, run="made")
        return end, 1
    table = f"far_{uuid4().hex[:10]}"
    if kind == "sql":
        auth, straight = {**mariadb().auth, "port": line.port}, {"kind": "sql", "auth": mariadb().auth}
    else:
        auth, straight = {**here.auth, "host": "127.0.0.1", "port": line.port}, here.postgres()
    straight |= {"table": table}
    await here.run(kind, {"auth": straight["auth"], "command": f"CREATE TABLE {table} ({COLUMNS})"})
    if role == "source":
        await here.result(here.numbers(ROWS), straight, run="made")
        return {**straight, "auth": auth, "cursor": "id"}, 2
    return {**straight, "auth": auth}, 2


async def _rows_there(here: Transfers, kind: str, role: str, far: dict[str, Any]) -> list[str]:
    if role == "source":
        return here.count()
    if kind == "storage":
        check = {"kind": "storage", "url": "check.parquet"}
        endpoint = {**far["auth"], "endpoint": f"http://127.0.0.1:{s3_bucket().port}"}
        await here.result({**far, "auth": endpoint}, check, run="check")
        query = f"SELECT count(*) AS n, count(DISTINCT id) AS d FROM '{here.folder / 'check.parquet'}'"
        (row,) = (await here.run("duckdb", {"query": query}))["data"]
    else:
        auth = mariadb().auth if kind == "sql" else here.auth
        query = f"SELECT count(*) AS n, count(DISTINCT id) AS d FROM {far['table']}"
        (row,) = (await here.run(kind, {"auth": auth, "query": query}))["data"]
    return [str(row["n"]), str(row["d"])]


WRONG = "not the password"


@pytest.mark.parametrize("role", ["source", "target"])
@pytest.mark.parametrize(
    ("kind", "error", "code"),
    [("sql", "sql.error", "1045"), ("postgres", "pg.error", "28000"), ("storage", "storage.denied", None)],
)
async def test_a_rejected_credential_of_an_end_is_reported_and_nothing_moves(
    here: Transfers, kind: str, role: str, error: str, code: str | None
) -> None:
    if kind == "storage":
        bucket = google_bucket()
        far: dict[str, Any] = {"url": f"{bucket.url}/rows.parquet", "auth": {**bucket.auth, "bearer_token": WRONG}}
    elif kind == "sql":
        far = {"auth": {**mariadb().auth, "password": WRONG}, "table": "t"}
    else:
        far = {"auth": {**here.auth, "user": "nobody_like_this", "password": WRONG}, "table": "t"}
    end = {"kind": kind, **far}

    refused = await (here.moved(end, here.created()) if role == "source" else here.moved(here.numbers(10), end))

    assert refused.error is not None
    assert (refused.error.kind, refused.error.retryable) == (error, False)
    assert code is None or refused.error.code == code
    assert WRONG not in str(refused.error)
    assert role == "target" or here.count() == ["0", "0"]


@contextmanager
def slowly(line: Proxy) -> Iterator[None]:
    line.rate = RATE
    yield
    line.rate = None


@pytest.mark.parametrize("role", ["source", "target"])
async def test_an_interrupted_upload_of_a_stored_table_is_repeated_with_each_row_once(
    here: Transfers, role: str
) -> None:
    """A worker elsewhere keeps tables with its server, and asks again for as long as it may."""
    async with live(workers=0) as (served, _, talk):
        worker, order = await holding(talk)
        known, execution_id = dict(worker.headers), order.execution_id
        with Proxy("127.0.0.1", int(served.url.rpartition(":")[2])) as line:
            straight = RemoteTables(served.url, known, worker.worker_id)
            behind = RemoteTables(f"http://127.0.0.1:{line.port}", known, worker.worker_id)
            stored = {"kind": "artifact", "format": "parquet"}
            ends = (here.numbers(ROWS), stored)
            if role == "source":
                kept = await here.result(*ends, run="made", tables=straight, execution_id=execution_id)
                ends = ({"kind": "artifact", "ref": kept["reference"]}, here.created())
            with slowly(line):
                running = asyncio.ensure_future(here.result(*ends, tables=behind, execution_id=execution_id))
                while line.carried < 8_000:
                    assert not running.done(), "it was over before its line was cut"
                    await asyncio.sleep(0.005)
                line.cut()
            moved = await running
            tries = line.connections
        if role == "target":
            back = {"kind": "artifact", "ref": moved["reference"]}
            await here.result(back, here.created(), run="back", tables=straight)

    assert tries > 1
    assert moved["rows"] == ROWS
    assert here.count() == [str(ROWS), str(ROWS)]


@pytest.mark.parametrize("role", ["source", "target"])
async def test_a_rejected_worker_token_is_reported_and_nothing_moves(here: Transfers, role: str) -> None:
    async with live() as (served, _, _talk):
        stranger = RemoteTables(served.url, {"authorization": f"Bearer {WRONG}"}, "none")
        ref = {"media_type": PARQUET, "checksum": "0" * 64, "size": 1}
        ends = (here.numbers(10), {"kind": "artifact", "format": "parquet"})
        if role == "source":
            ends = ({"kind": "artifact", "ref": ref}, here.created())
        refused = await here.moved(*ends, tables=stranger)

    assert refused.error is not None
    assert (refused.error.kind, refused.error.retryable) == ("result.table", False)
    assert "401" in refused.error.message
    assert WRONG not in str(refused.error)
    assert role == "target" or here.count() == ["0", "0"]


class SnowflakeDrivers(SqlTool):
    """The kind `snowflake`, with drivers that are in an environment of their own."""

    def __init__(self) -> None:
        super().__init__(drivers_program())

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return await super().run({"dialect": "snowflake", **inputs}, context)


@pytest_asyncio.fixture(loop_scope="module")
async def snowflake() -> AsyncIterator[SnowflakeDrivers]:
    tool = SnowflakeDrivers()
    yield tool
    await tool.close()


async def test_an_interrupted_transfer_from_snowflake_resumes_and_moves_each_row_once(
    here: Transfers, snowflake: SnowflakeDrivers
) -> None:
    table = f"far_{uuid4().hex[:10]}"
    far: dict[str, Any] = {"auth": snowflake_auth(), "database": "shop", "schema": "public"}
    command = (
        f"CREATE TABLE {table} AS SELECT seq4() AS id, repeat('x', 60) AS name FROM table(generator(rowcount => 600))"
    )
    made = await outcome_of(snowflake, {**far, "command": command}, {"transaction": False})
    assert made.error is None, made.error
    target = here.created("id int, name text")
    with Proxy("127.0.0.1", fakesnow().port) as line:
        source = {"kind": "snowflake", **far, "auth": {**snowflake_auth(), "port": line.port}}
        source |= {"query": f"SELECT * FROM {table}", "cursor": "id"}
        # Its driver goes on asking for five minutes where nobody answers: the line comes back at once.
        cut = Cutting(snowflake, line, reads, 2, stays_down=False)

        broken = await here.moved(
            source, target, chunk_size=250, tool=lambda kind: cut if kind == "snowflake" else here.tools.tool(kind)
        )
        moved = await here.moved(
            source,
            target,
            chunk_size=250,
            tool=lambda kind: snowflake if kind == "snowflake" else here.tools.tool(kind),
        )

    assert broken.error is not None, broken.result
    assert (broken.error.kind, broken.error.retryable) == ("sql.error", True)
    assert moved.error is None, moved.error
    assert moved.result["rows"] == 600
    assert here.count() == ["600", "600"]


async def test_an_interrupted_transfer_to_snowflake_writes_each_row_once(
    here: Transfers, snowflake: SnowflakeDrivers
) -> None:
    """Its driver sends a request that was lost once more by itself, so the transfer does not notice."""
    table = f"far_{uuid4().hex[:10]}"
    far: dict[str, Any] = {"auth": snowflake_auth(), "database": "shop", "schema": "public"}
    made = await outcome_of(snowflake, {**far, "command": f"CREATE TABLE {table} ({COLUMNS})"}, {"transaction": False})
    assert made.error is None, made.error
    with Proxy("127.0.0.1", fakesnow().port) as line:
        target = {"kind": "snowflake", **far, "auth": {**snowflake_auth(), "port": line.port}, "table": table}
        cut = Cutting(snowflake, line, loads, 2, stays_down=False)

        moved = await here.moved(
            here.numbers(600, cursor="id"),
            target,
            chunk_size=250,
            tool=lambda kind: cut if kind == "snowflake" else here.tools.tool(kind),
        )

    assert cut.was_cut
    assert moved.error is None, moved.error
    assert moved.result["rows"] == 600
    query = f"SELECT count(*) AS n, count(DISTINCT id) AS d FROM {table}"
    counted = await outcome_of(snowflake, {**far, "query": query})
    assert counted.result["data"] == [{"n": 600, "d": 600}]


@pytest.mark.parametrize("role", ["source", "target"])
async def test_a_rejected_snowflake_login_is_reported_and_nothing_moves(
    here: Transfers, snowflake: SnowflakeDrivers, role: str
) -> None:
    async with HttpServer({"POST /session/v1/login-request": reply(json=LOGIN_REFUSED)}) as stand_in:
        port = int(stand_in.url.rpartition(":")[2])
        far = {"kind": "snowflake", "auth": {**snowflake_auth(), "port": port, "password": WRONG}, "table": "t"}
        ends = (far, here.created()) if role == "source" else (here.numbers(10), far)
        refused = await here.moved(*ends, tool=lambda kind: snowflake if kind == "snowflake" else here.tools.tool(kind))

    assert refused.error is not None
    assert (refused.error.kind, refused.error.code, refused.error.retryable) == ("sql.error", "28000", False)
    assert WRONG not in str(refused.error)
    assert role == "target" or here.count() == ["0", "0"]
