"""Attack: code in a sandbox that reads or returns tables, and so shares files with its worker."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from noetl.tools import sandbox
from tests.tools.table_tasks import SharedTools, TableTasks

SANDBOX = {"sandbox": "strict", "rows": "parquet"}


@pytest_asyncio.fixture
async def tasks(tmp_path: Path) -> AsyncIterator[TableTasks]:
    if (why := await sandbox.unavailable()) is not None:
        pytest.skip(f"NO SANDBOX WAS TESTED HERE: {why}")
    tools = SharedTools()
    tasks = TableTasks(tmp_path, tools)
    yield tasks
    tasks.close()
    await tools.close()


# The argument `t` is the path of a table, and its folder is the one of the task.
EVERYWHERE = """
def main(t):
    import os
    left = []
    for folder in {os.path.dirname(t), os.getcwd(), os.path.expanduser('~'), '/', '/dev'}:
        if folder.startswith('/tmp') and folder != '/tmp':
            try:
                open(folder + '/left', 'w').write('x')
                left.append(folder)
            except OSError:
                pass
            try:
                os.symlink('/etc/passwd', folder + '/link')
                left.append(folder)
            except OSError:
                pass
    return [{'left': str(left)}]
"""


@pytest.mark.req("TOOL-15")
async def test_a_task_with_tables_writes_one_bounded_file_to_the_disk_and_no_other(tasks: TableTasks) -> None:
    first = await tasks.run("python", {"code": "result = [{'a': 1}]"}, **SANDBOX)

    made = await tasks.run("python", {"code": EVERYWHERE, "tables": {"t": first["ref"]}}, **SANDBOX)

    assert await tasks.rows(made["ref"]) == [{"left": "[]"}]


SWAPS = """
def main(t):
    import os
    yield {'n': 1}
    # The rows are written now: links take the places of the files that the worker reads and writes next.
    for folder in {os.getcwd(), os.path.dirname(t)}:
        for name, place in LINKS.items():
            try:
                os.path.lexists(folder + '/' + name) and os.unlink(folder + '/' + name)
                os.symlink(place, folder + '/' + name)
            except OSError:
                pass
"""


@pytest.mark.req("TOOL-15")
async def test_code_in_a_sandbox_makes_its_worker_neither_read_nor_write_another_file(
    tasks: TableTasks, tmp_path: Path
) -> None:
    kept, fresh = tmp_path / "kept.json", tmp_path / "fresh"
    kept.write_text('{"kept": "by the operator"}\n')
    first = await tasks.run("python", {"code": "result = [{'a': 1}]"}, rows="parquet")

    for links in ({"written": str(kept)}, {"rows.parquet": str(fresh)}):
        code = SWAPS.replace("LINKS", repr(links))
        made = await tasks.outcome("python", {"code": code, "tables": {"t": first["ref"]}}, **SANDBOX)

        assert made.error is None, made.error
        assert await tasks.rows(made.result["ref"]) == [{"n": 1}]
    assert not fresh.exists()


@pytest.mark.req("TOOL-15")
async def test_rows_of_duckdb_are_written_in_a_sandbox_too(tasks: TableTasks) -> None:
    code = "import duckdb\nresult = duckdb.sql('SELECT 7 AS n')"

    made = await tasks.run("python", {"code": textwrap.dedent(code)}, **SANDBOX)

    assert await tasks.rows(made["ref"]) == [{"n": 7}]


@pytest.mark.req("TOOL-15")
async def test_the_file_of_rows_is_bounded(tasks: TableTasks) -> None:
    code = "def main():\n    for n in range(10000):\n        yield {'text': 'x' * 1000}"
    spec = {**SANDBOX, "resources": {"file_size": "1Mi"}}

    error = await tasks.error("python", {"code": code}, **spec)

    assert error.kind == "py.exception"
    assert "File too large" in error.message
