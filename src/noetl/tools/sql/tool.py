"""`sql`: runs SQL on MySQL, SQL Server, Oracle, Snowflake, ClickHouse, Trino, Redshift, Databricks, SQLite.

It runs in a child process: drivers are many and large, a cancelled task ends with its process, and the sockets of that
process are held to the address policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.templates.sql.lists import ALL_OF, ANY_OF
from noetl.templates.sql.statements import Bound, Part, Statement
from noetl.tools.child_process import ChildPool, Program
from noetl.tools.contract import ToolContext, ToolResult, TriggerBatch, TriggerPoll
from noetl.tools.sql.answers import SqlAnswer, result_of
from noetl.tools.sql.connection_fields import connection_of
from noetl.tools.sql.dialects import DIALECTS, Connection, SqlDialect
from noetl.tools.sql.requests import Insertion, keeps_transactions, new_rows, reference_to, request, with_script
from noetl.tools.tables.files import TableFiles
from noetl.tools.tables.stored import RowLoad, store_table, table_folder, wants_table
from noetl.tools.tables.table_sql import TypedColumn

if find_spec("sqlalchemy") is None:  # the child imports it; say so before there is one
    raise ImportError("sqlalchemy is not installed")

_PROGRAM = Program(module="noetl.tools.sql.child", name="SQL", error="sql.error", retryable=True)
_LISTS = {ANY_OF: "any", ALL_OF: "all"}


class SqlTool:
    """`program` is what the child runs: another one in tests, whose drivers are in an environment of their own."""

    def __init__(self, program: Program = _PROGRAM) -> None:
        self._children, self._tables = ChildPool(program), TableFiles()

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if context.spec.get("exactly_once"):
            raise ToolError("sql.input", "spec.exactly_once is a promise of the postgres tool: sql cannot make it")
        connection = connection_of(inputs, context)
        if isinstance(load := inputs.get("load"), RowLoad):
            told = {name: getattr(load, name) for name in ("table", "columns", "binary", "key", "empties")}
            call = {**_call(Bound(load.then), connection), **_limits(context), "load": {**told, "file": str(load.file)}}
            await self._children.call(context.execution_id, {**call, "transaction": True})
            return ToolResult(result=None)
        work = request(await with_script(inputs, context.data_folders), question_marks=True)
        call = {**_call(work, connection), **_limits(context)}
        call["transaction"] = context.spec.get("transaction") is not False and not (
            isinstance(work, Bound) and keeps_transactions(work)
        )
        if wants_table(context.spec) and isinstance(work, Bound):
            return await self._table(call, context)
        answer = await self._children.call(context.execution_id, call)
        answers = msgspec.convert(answer["answers"], list[SqlAnswer])
        if isinstance(work, Insertion):
            return ToolResult(result=reference_to(work, "sql.table", sum(each.row_count for each in answers)))
        return ToolResult(result=result_of(answers), wrapped=True)

    async def _table(self, call: dict[str, Any], context: ToolContext) -> ToolResult:
        """The rows of the last statement as a table."""
        with table_folder() as folder:
            csv, file = folder / "rows.csv", folder / "rows.parquet"
            answer = await self._children.call(context.execution_id, {**call, "rows_file": str(csv)})
            columns = msgspec.convert(answer["columns"], list[TypedColumn])
            await self._tables.from_csv(context.execution_id, csv, columns, file)
            csv.unlink()
            return ToolResult(result=await store_table(file, context, self._tables))

    async def poll(self, inputs: Mapping[str, Any], poll: TriggerPoll, context: ToolContext) -> TriggerBatch:
        """Rows that a query finds after the cursor."""
        return await new_rows(self, inputs, poll, context)

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Whether the credential opens the database. ToolError says why it does not."""
        connection = connection_of(inputs, context)
        statement = "SELECT 1 FROM dual" if connection.dialect == "oracle" else "SELECT 1"
        await self.run({"command": statement, **inputs}, context)
        return f"connected to the {connection}"

    def release(self, execution_id: str) -> None:
        self._children.release(execution_id)
        self._tables.release(execution_id)

    async def close(self) -> None:
        await self._children.close()
        await self._tables.close()

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


def _call(work: Bound | Insertion, connection: Connection) -> dict[str, Any]:
    call: dict[str, Any] = {"connection": msgspec.to_builtins(connection), "statements": [], "insertion": None}
    if isinstance(work, Insertion):
        call["insertion"] = {"table": work.name, "groups": work.groups, "key": work.key}
        return call
    for statement in work.statements:
        check_quotes(statement.parts, DIALECTS[connection.dialect])
        call["statements"].append(_parts(statement))
    return call


def _parts(statement: Statement) -> list[Any]:
    """Text as text, a value as {value}, the beginning of a comparison with a list as {list}."""
    told: list[Any] = []
    for part in statement.parts:
        if isinstance(part, str):
            told.append({"list": _LISTS[part]} if part in _LISTS else part)
        else:
            told.append({"value": part.value})
    return told


def _limits(context: ToolContext) -> dict[str, Any]:
    return {
        "max_rows": context.spec.get("max_rows"),
        "isolation": context.spec.get("isolation"),
        "policy": msgspec.to_builtins(context.addresses.policy),
    }


# Quotes: whether a database would read a statement as our lexer has read it.
#
# Templates were bound by rules that hold for standard SQL. Where a database has other rules (a backslash that escapes
# a quote, names in backticks, comments after #), text that looks closed to us may be open to it, and a value could
# leave its place. Such a statement is refused, with the way to write it.

_QUOTES = ("'", '"')
_PREFIXES = "eEbBxXnNuUrR&"


def check_quotes(parts: Iterable[Part], dialect: SqlDialect) -> None:
    """Nothing, or ToolError `sql.fragment`."""
    in_backticks = False
    for part in parts:
        if not isinstance(part, str):
            if in_backticks:
                raise _refusal(dialect, "a value stands in backticks: write {{ … | identifier }} without them")
        elif part.lstrip(_PREFIXES).startswith(_QUOTES):
            if in_backticks:
                raise _refusal(dialect, "a quote stands in backticks")
            _check_quoted(part, dialect)
        elif dialect.backticks:
            in_backticks ^= part.count("`") % 2 == 1
            if (
                dialect.hash_comments
                and "#" in part
                and not in_backticks
                and not part.lstrip().startswith(("--", "/*"))
            ):
                raise _refusal(dialect, "# begins a comment: write --")


def _check_quoted(text: str, dialect: SqlDialect) -> None:
    if dialect.backslashes and "\\" in text:
        raise _refusal(dialect, "quoted text holds a backslash: give the text as a value, {{ … }} or params")
    if dialect.backslashes and text.lstrip(_PREFIXES).startswith('"') and '""' in text[1:-1]:
        raise _refusal(dialect, 'a name holds "": give it another name')


def _refusal(dialect: SqlDialect, why: str) -> ToolError:
    return ToolError("sql.fragment", f"{dialect.name} would read this SQL in another way than it was checked: {why}")
