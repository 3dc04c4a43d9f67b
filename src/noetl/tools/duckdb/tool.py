"""`duckdb`: runs SQL on DuckDB, in memory or on a database file (TOOL-06).

It runs in a child process that can open nothing but the data folders of the worker. A database in memory lives as long
as its task: what must outlive it belongs in a file, since the next task may run elsewhere after a crash. One process at
a time may have a file open, so the tasks of a worker that use the same one take turns, as long as their timeout lasts.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from noetl.base.errors import ToolError
from noetl.templates.sql.statements import Bound
from noetl.tools.child_process import ChildPool, Program
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.duckdb.attachments import Attachment
from noetl.tools.duckdb.parameters import insertion_statements, written
from noetl.tools.files import allowed_path
from noetl.tools.postgres.targets import libpq_address, target_of
from noetl.tools.python.limits import size_bytes
from noetl.tools.sql.answers import SqlAnswer, check_rows, result_of
from noetl.tools.sql.requests import Insertion, keeps_transactions, reference_to, request, with_script
from noetl.tools.tables.files import DUCKDB, TableFiles
from noetl.tools.tables.stored import fetched_tables, store_table, table_folder, wants_table

if find_spec("duckdb") is None:  # the child imports it; say so before there is one
    raise ImportError("duckdb is not installed")

STORE = "duckdb.table"
MEMORY_BYTES = 1 << 30
THREADS = 2
MAX_THREADS = 64


class DuckdbTool:
    store = STORE  # what a reference to inserted rows says

    def __init__(self, program: Program = DUCKDB) -> None:
        self._children, self._tables = ChildPool(program), TableFiles()
        self._turns: WeakValueDictionary[str | None, asyncio.Lock] = WeakValueDictionary()  # by database file

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        work = request(await with_script(inputs, context.data_folders), question_marks=True)
        call = _call(work, inputs, context)
        attached = await self._attachment(inputs, context)
        call |= {"attach": msgspec.to_builtins(attached), "file": (attached and attached.file) or call["database"]}
        if inputs.get("tables") is None and not wants_table(context.spec):
            return self._result(work, await self._answers(call, context.execution_id))
        with table_folder() as folder:
            return await self._with_tables(work, call, inputs.get("tables"), context, folder)

    async def _attachment(self, inputs: Mapping[str, Any], context: ToolContext) -> Attachment | None:
        """The database to attach beside its own."""
        if inputs.get("auth") is None:
            return None
        target = target_of(inputs["auth"], context, kind="duckdb")
        return Attachment(kind="postgres", address=await libpq_address(target, context), password=target.password)

    async def _with_tables(
        self, work: Bound | Insertion, call: dict[str, Any], tables: Any, context: ToolContext, folder: Path
    ) -> ToolResult:
        """The same, with tables to read, or rows that become one."""
        files = await fetched_tables(tables, context, folder)
        call |= {
            "tables": {name: str(file) for name, file in files.items()},
            "folders": [*call["folders"], str(folder)],
        }
        if not wants_table(context.spec) or isinstance(work, Insertion):
            return self._result(work, await self._answers(call, context.execution_id))
        file = folder / "rows.parquet"
        answers = await self._answers({**call, "rows_file": str(file)}, context.execution_id)
        check_rows(answers[-1].row_count, context.spec.get("max_rows"))
        return ToolResult(result=await store_table(file, context, self._tables))

    def _result(self, work: Bound | Insertion, answers: list[SqlAnswer]) -> ToolResult:
        if isinstance(work, Insertion):
            return ToolResult(result=reference_to(work, self.store, sum(each.row_count for each in answers)))
        return ToolResult(result=result_of(answers), wrapped=True)

    async def _answers(self, call: dict[str, Any], execution_id: str) -> list[SqlAnswer]:
        answer = await self._answer(call, execution_id)
        if "answers" not in answer:
            raise ToolError(answer.pop("kind"), answer.pop("message"), **answer)
        return msgspec.convert(answer["answers"], list[SqlAnswer])

    async def _answer(self, call: dict[str, Any], execution_id: str) -> dict[str, Any]:
        file = call["file"]
        # DuckDB lets one process at a time open a file for writing, so tasks on the same file queue here instead of
        # failing.
        turn = self._turns.setdefault(file, asyncio.Lock()) if file is not None else asyncio.Lock()
        async with turn, self._children.child(execution_id) as child:
            return await child.call(call)

    def release(self, execution_id: str) -> None:
        """This execution is over: nothing is kept for it."""
        self._children.release(execution_id)
        self._tables.release(execution_id)

    async def close(self) -> None:
        await self._children.close()
        await self._tables.close()

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


def _call(work: Bound | Insertion, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    spec = context.spec
    if spec.get("exactly_once"):
        raise ToolError("sql.input", "spec.exactly_once is a promise of the postgres tool: duckdb cannot make it")
    bound = insertion_statements(work) if isinstance(work, Insertion) else work
    folders = [os.path.realpath(folder) for folder in context.data_folders]
    return {
        "statements": [written(each) for each in bound.statements],
        "transaction": spec.get("transaction") is not False and not keeps_transactions(bound),
        "database": _database(inputs.get("database"), folders),
        "folders": folders,
        "memory_bytes": _memory(spec),
        "threads": _threads(spec.get("threads")),
        "max_rows": spec.get("max_rows"),
    }


def _database(written: Any, folders: list[str]) -> str | None:
    if written in (None, "", ":memory:"):
        return None
    return allowed_path(str(written), folders, kind="sql.input")


def _memory(spec: Mapping[str, Any]) -> int:
    memory = (spec.get("resources") or {}).get("memory")
    try:
        return size_bytes(memory) if memory is not None else MEMORY_BYTES
    except ToolError as problem:
        raise ToolError("sql.input", f"spec.resources.memory: {problem.message}") from None


def _threads(written: Any) -> int:
    if written is None:
        return THREADS
    if isinstance(written, bool) or not isinstance(written, int) or not 1 <= written <= MAX_THREADS:
        raise ToolError("sql.input", f'spec.threads "{written}" is not a number from 1 to {MAX_THREADS}')
    return written
