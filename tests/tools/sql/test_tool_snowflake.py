"""`snowflake` and `sql` with drivers in an environment of their own: fakesnow, and recorded texts for the rest."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from noetl.templates.sql.binding import bind
from noetl.tools.sql.tool import SqlTool
from tests.process_liveness import is_alive
from tests.servers.http import HttpServer, Reply, reply
from tests.servers.proxy import Proxy
from tests.servers.snowflake import LOGIN_REFUSED, drivers_program, drivers_python, fakesnow, snowflake_auth
from tests.tools.sql_tasks import outcome_of

pytestmark = [
    pytest.mark.timeout(900),  # the first run installs the drivers
    pytest.mark.asyncio(loop_scope="module"),  # one child process for all tests: its drivers take seconds to import
]
HERE = Path(__file__).parent
RECORDED = HERE / "dialect_texts.json"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tool() -> AsyncIterator[SqlTool]:
    tool = SqlTool(drivers_program())
    yield tool
    await tool.close()


async def rows_of(tool: SqlTool, **inputs: Any) -> Any:
    given = {"auth": snowflake_auth(), "database": "shop", "schema": "public", **inputs}
    outcome = await outcome_of(tool, given, {"transaction": False})
    assert outcome.error is None, outcome.error
    return outcome.result.get("data", outcome.result)


async def test_rows_are_written_to_snowflake_and_read_back(tool: SqlTool) -> None:
    await rows_of(tool, command="CREATE OR REPLACE TABLE orders (id INT, label TEXT)")
    await rows_of(tool, table="orders", args=[{"id": 1, "label": "it's"}, {"id": 2, "label": "\\' OR 1=1 --"}])

    found = await rows_of(
        tool, command=bind("SELECT id, label FROM orders WHERE label = '{{ x }}'", {"x": "\\' OR 1=1 --"})
    )
    listed = await rows_of(
        tool, command=bind("SELECT id FROM orders WHERE id IN ({{ xs }}) ORDER BY id", {"xs": [1, 2]})
    )

    assert [list(row.values()) for row in found] == [[2, "\\' OR 1=1 --"]]
    assert [list(row.values()) for row in listed] == [[1], [2]]


async def test_an_error_has_the_code_of_snowflake(tool: SqlTool) -> None:
    outcome = await outcome_of(
        tool, {"auth": snowflake_auth(), "database": "shop", "schema": "public", "command": "SELECT * FROM nowhere"}
    )

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.code) == ("sql.error", "42S02")


async def test_a_backslash_in_quotes_is_refused_if_it_would_escape(tool: SqlTool) -> None:
    outcome = await outcome_of(tool, {"auth": snowflake_auth(), "command": "SELECT 'a\\'"})

    assert outcome.error is not None
    assert outcome.error.kind == "sql.fragment"


async def test_a_connection_lost_in_the_middle_of_a_query_is_retryable(tool: SqlTool) -> None:
    numbers = "SELECT seq4() AS n, repeat('x', 200) AS word FROM table(generator(rowcount => 5000))"
    with Proxy("127.0.0.1", fakesnow().port) as line:
        given = {"auth": {**snowflake_auth(), "port": line.port}, "database": "shop", "schema": "public"}
        await rows_of(tool, **given, command="SELECT 1 AS one")
        line.rate, before = 200_000, line.carried
        task = asyncio.ensure_future(outcome_of(tool, {**given, "command": numbers}))
        while line.carried < before + 50_000:
            assert not task.done(), "it was over before its line was cut"
            await asyncio.sleep(0.02)
        line.rate = None
        line.cut()
        broken = await task
        again = await rows_of(tool, **given, command=numbers)

    assert broken.error is not None
    assert (broken.error.kind, broken.error.retryable) == ("sql.error", True)
    assert sorted(next(iter(row.values())) for row in again) == list(range(5_000))


@pytest.mark.deep  # drivers of its own take seconds to import; `sql` ends its process by the same way
async def test_a_cancelled_task_ends_its_process() -> None:
    tool = SqlTool(drivers_program())
    async with HttpServer({"*": reply(hang=True)}) as silent:
        auth = {**snowflake_auth(), "port": int(silent.url.rpartition(":")[2])}
        task = asyncio.ensure_future(outcome_of(tool, {"auth": auth, "command": "SELECT 1"}))
        while not silent.requests:
            assert not task.done(), task.result()
            await asyncio.sleep(0.02)
        (child,) = tool._children._busy
        task.cancel()
        left = await asyncio.gather(task, return_exceptions=True)
        await tool.close()

    assert isinstance(left[0], asyncio.CancelledError)
    assert not is_alive(child.pid)


@pytest.mark.parametrize(
    "answer",
    [
        reply(body=b"<html>\x1b[31m"),
        reply(json=[1, 2]),
        reply(json={"success": True, "data": None}),
        reply(json={"success": False, "code": "1\x1b[31m", "message": "\x1b[31m" + "x" * 5000, "data": {}}),
    ],
    ids=["html", "a list", "no data", "colours"],
)
async def test_a_hostile_response_is_an_error(tool: SqlTool, answer: Reply) -> None:
    async with HttpServer({"*": answer}) as hostile:
        auth = {**snowflake_auth(), "port": int(hostile.url.rpartition(":")[2])}
        outcome = await outcome_of(tool, {"auth": auth, "command": "SELECT 1"})

    assert outcome.error is not None
    assert outcome.error.kind == "sql.error"
    assert outcome.error.message.isprintable()
    assert len(outcome.error.message) < 3000


async def test_a_wrong_snowflake_password_is_reported_with_its_code_and_without_secrets(tool: SqlTool) -> None:
    async with HttpServer({"POST /session/v1/login-request": reply(json=LOGIN_REFUSED)}) as stand_in:
        words = [secrets.token_urlsafe(12) for _ in range(50)]
        port = int(stand_in.url.rpartition(":")[2])
        # Ten in each of five passwords: each login has a connection of its own.
        for part in range(0, 50, 10):
            auth = {**snowflake_auth(), "port": port, "password": " ".join(words[part : part + 10])}
            outcome = await outcome_of(tool, {"auth": auth, "command": "SELECT 1"})

            assert outcome.error is not None
            assert (outcome.error.kind, outcome.error.code, outcome.error.retryable) == ("sql.error", "28000", False)
            assert "Incorrect username or password" in outcome.error.message
            told = msgspec.json.encode(outcome)
            assert [word for word in words if word.encode() in told] == []


async def test_every_dialect_generates_its_golden_statement() -> None:
    """NOETL_GOLDEN=1 writes the file; read the diff."""
    source = str(HERE.parents[2] / "src")
    done = await asyncio.to_thread(
        subprocess.run,
        [drivers_python(), str(HERE / "dialect_texts.py")],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    if os.environ.get("NOETL_GOLDEN"):
        RECORDED.write_text(done.stdout)

    assert json.loads(done.stdout) == json.loads(RECORDED.read_text())
