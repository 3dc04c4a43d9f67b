"""`duckdb`: runs SQL on DuckDB, in memory or on a database file (TOOL-06).

It runs in a child process that can open nothing but the data folders of the worker. A database in memory lives as long
as its task: persistent data belongs in a file, since the next task may run elsewhere after a crash. One process at a
time may have a file open, so the tasks of a worker that use the same one take turns, as long as their timeout lasts.

DuckDB gives a parameter the type of its value. A number with a point is a DECIMAL there, not a DOUBLE; and text in an
`IN (…)` takes the type it is compared with, while a list of texts does not.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from noetl.base.errors import ToolError
from noetl.templates.sql.positions import ALL_OF, ANY_OF
from noetl.templates.sql.statements import Bound, Parameter, Part, Statement, numbering, quoted_name
from noetl.tools.child_process import ChildPool, Program
from noetl.tools.contract import OwningTool, ToolContext, ToolResult
from noetl.tools.duckdb.attachments import Attachment
from noetl.tools.files import allowed_path
from noetl.tools.input_shapes import whole_number
from noetl.tools.postgres.targets import libpq_address, target_of
from noetl.tools.sandbox import size_bytes
from noetl.tools.sql.answers import SqlAnswer, check_rows, result_of
from noetl.tools.sql.requests import Insertion, conflict_clause, keeps_transactions, reference_to, request, with_script
from noetl.tools.table_files import DUCKDB, TableFiles, fetched_tables, store_table, table_folder, wants_table

MAX_DIGITS = 38  # of a DECIMAL
MAX_ITEMS = 10_000  # of an IN that is written out
_IN = {ANY_OF: "IN (", ALL_OF: "NOT IN ("}


def written(statement: Statement) -> tuple[str, list[Any]]:
    """The text of a statement for DuckDB, and the values of its parameters."""
    parts = tuple(_expanded_lists(statement.parts))
    numbers, parameters = numbering(parts)
    casts = [_cast(parameter) for parameter in parameters]
    following = iter(numbers)
    text = "".join(part if isinstance(part, str) else _placeholder(next(following), casts) for part in parts)
    return text, [
        str(each.value) if cast else _plain_parameter(each.value) for each, cast in zip(parameters, casts, strict=True)
    ]


def _expanded_lists(parts: tuple[Part, ...]) -> Iterator[Part]:
    """Lists of texts in `IN (…)` as their items."""
    before: Part = ""
    for part, following in zip(parts, (*parts[1:], ""), strict=True):
        if isinstance(part, str) and part in _IN and _has_texts(following):
            yield _IN[part]
        elif isinstance(part, Parameter) and isinstance(before, str) and before in _IN and _has_texts(part):
            for index, item in enumerate(part.value):
                yield ", " if index else ""
                yield Parameter(item, typed=True)
        else:
            yield part
        before = part


def _has_texts(part: Part) -> bool:
    if isinstance(part, str) or not isinstance(part.value, list) or len(part.value) > MAX_ITEMS:
        return False
    return any(isinstance(item, str) for item in part.value)


def _placeholder(number: int, casts: list[str]) -> str:
    return f"CAST(${number} AS {casts[number - 1]})" if casts[number - 1] else f"${number}"


def _cast(parameter: Parameter) -> str:
    """The DuckDB type of the same constant, if its parameter would get another type."""
    if not parameter.typed or not isinstance(parameter.value, float):
        return ""
    number = Decimal(repr(parameter.value)) if "e" not in repr(parameter.value) else None
    if number is None or not number.is_finite():
        return ""
    scale = -int(number.as_tuple().exponent)
    digits = max(len(number.as_tuple().digits), scale)
    return f"DECIMAL({digits}, {scale})" if digits <= MAX_DIGITS else ""


def _plain_parameter(value: Any) -> Any:
    """Mappings are sent as JSON text, which every JSON column accepts; lists stay lists."""
    nested = isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, dict) for item in value))
    return msgspec.json.encode(value).decode() if nested else value


# Insertion: rows into a table of DuckDB, as statements with parameters.
ROWS_AT_ONCE = 200


def insertion_statements(insertion: Insertion) -> Bound:
    return Bound(tuple(_statements(insertion)))


def _statements(insertion: Insertion) -> Iterator[Statement]:
    for group in insertion.groups:
        columns = sorted(group[0])
        names = ", ".join(map(quoted_name, columns))
        for start in range(0, len(group), ROWS_AT_ONCE):
            parts: list[Part] = [f"INSERT INTO {insertion.table} ({names}) VALUES "]  # noqa: S608  names are quoted
            for index, row in enumerate(group[start : start + ROWS_AT_ONCE]):
                parts.append(", (" if index else "(")
                for number, name in enumerate(columns):
                    parts += [", "] if number else []
                    parts.append(Parameter(row[name]))
                parts.append(")")
            parts.append(conflict_clause(insertion, columns))
            yield Statement(tuple(parts), "INSERT")


if find_spec("duckdb") is None:  # the child imports it; fail here, before a child starts
    raise ImportError("duckdb is not installed")

STORE = "duckdb.table"
MEMORY_BYTES = 1 << 30
THREADS = 2
MAX_THREADS = 64


class DuckdbTool(OwningTool):
    store = STORE  # the contents of a reference to inserted rows

    def __init__(self, program: Program = DUCKDB) -> None:
        self._children, self._tables = ChildPool(program), TableFiles()
        self._turns: WeakValueDictionary[str | None, asyncio.Lock] = WeakValueDictionary()  # by database file
        super().__init__(self._children, self._tables)

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        work = request(await with_script(inputs, context.permissions.data_folders), question_marks=True)
        call = _call(work, inputs, context)
        attached = await self._attachment(inputs, context)
        call |= {"attach": msgspec.to_builtins(attached), "file": (attached and attached.file) or call["database"]}
        if inputs.get("tables") is None and not wants_table(context.spec):
            return self._result(work, await self._answers(call, context.task_run.execution_id))
        with table_folder() as folder:
            return await self._with_tables(work, call, inputs.get("tables"), context, folder)

    async def _attachment(self, inputs: Mapping[str, Any], context: ToolContext) -> Attachment | None:
        """The database to attach besides that of the connection."""
        if inputs.get("auth") is None:
            return None
        target = target_of(inputs["auth"], context, kind="duckdb")
        return Attachment(kind="postgres", address=await libpq_address(target, context), password=target.password)

    async def _with_tables(
        self, work: Bound | Insertion, call: dict[str, Any], tables: Any, context: ToolContext, folder: Path
    ) -> ToolResult:
        """Run the SQL with tables to read, or with rows that become a table."""
        files = await fetched_tables(tables, context, folder)
        call |= {
            "tables": {name: str(file) for name, file in files.items()},
            "folders": [*call["folders"], str(folder)],
        }
        if not wants_table(context.spec) or isinstance(work, Insertion):
            return self._result(work, await self._answers(call, context.task_run.execution_id))
        file = folder / "rows.parquet"
        answers = await self._answers({**call, "rows_file": str(file)}, context.task_run.execution_id)
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


def _call(work: Bound | Insertion, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    spec = context.spec
    if spec.get("exactly_once"):
        raise ToolError("sql.input", "spec.exactly_once is a promise of the postgres tool: duckdb cannot make it")
    bound = insertion_statements(work) if isinstance(work, Insertion) else work
    folders = [os.path.realpath(folder) for folder in context.permissions.data_folders]
    return {
        "statements": [written(each) for each in bound.statements],
        "transaction": spec.get("transaction") is not False and not keeps_transactions(bound),
        "database": _database(inputs.get("database"), folders),
        "folders": folders,
        "memory_bytes": _memory(spec),
        "threads": whole_number(spec.get("threads"), "spec.threads", THREADS, error="sql.input", most=MAX_THREADS),
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
