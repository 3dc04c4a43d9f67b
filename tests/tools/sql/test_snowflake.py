"""`snowflake` and `sql` with drivers in an environment of their own: fakesnow, and recorded texts for the rest."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from noetl.templates.sql.binding import bind
from noetl.tools.sql.tool import SqlTool
from tests.servers.snowflake import drivers_program, drivers_python, snowflake_auth
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


async def test_rows_go_into_snowflake_and_come_out(tool: SqlTool) -> None:
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


async def test_a_backslash_in_quotes_is_refused_where_it_would_escape(tool: SqlTool) -> None:
    outcome = await outcome_of(tool, {"auth": snowflake_auth(), "command": "SELECT 'a\\'"})

    assert outcome.error is not None
    assert outcome.error.kind == "sql.fragment"


async def test_every_dialect_makes_the_statement_that_was_read_and_kept() -> None:
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
