"""The child process of the `duckdb` tool: reads calls, runs their SQL, writes answers, as JSON over pipes.

Every call has a connection of its own, locked down before its SQL is seen (reliability.md §2.5): no file but those in
the folders the call names, no extension, no setting that could be changed back.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from noetl.base.errors import ToolError
from noetl.templates.sql.statements import quoted_name
from noetl.tools.child_pipes import forked, refusal, serve_calls
from noetl.tools.duckdb.sandboxed_connection import LOCKED, connected
from noetl.tools.sql.answers import Allowance, SqlAnswer, plain
from noetl.tools.tables.table_sql import copy_to, scan

BATCH_ROWS = 500
# In DuckDB's own words: what it says of a server that has gone. It tries to connect again, which its process may not.
_GONE = "the connection to PostgreSQL was lost"
# A rollback fails for no other reason than that, and then sometimes without a word of why.
_LOST = ("Unable to connect to Postgres", "server closed the connection", "no connection to the", 'query "ROLLBACK"')


def serve() -> None:
    serve_calls(_answer_to)


def _answer_to(call: dict[str, Any]) -> bytes:
    # What loads extensions confines its process for good: such a call has a process of its own.
    return forked(lambda: _answered(call), "duckdb.error") if call["attach"] else _answered(call)


def _answered(call: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode({"answers": _run(call)})
    except ToolError as problem:
        return refusal(problem.kind, problem.message, retryable=problem.retryable, **problem.details)
    except duckdb.Error as problem:
        said = str(problem).split("\n\n")[0]
        if any(sign in said for sign in _LOST):
            return refusal("duckdb.error", _GONE, retryable=True, code=type(problem).__name__)
        return refusal("duckdb.error", said, retryable=is_passing(said), code=type(problem).__name__)
    # Broad: the parent must get an answer, or it takes the child for dead.
    except Exception as problem:
        return refusal("duckdb.error", f"{type(problem).__name__}: {problem}")


def is_passing(said: str) -> bool:
    """Whether the same may go well later: somebody else has the file open, or has written at the same time."""
    return any(sign in said for sign in (LOCKED, "database is locked", "Transaction conflict"))


class _Kept:
    """The connection of the last call whose SQL is all ours (`is_ours`): it leaves nothing there, and no playbook sees
    what it leaves. To open one takes 12 ms of processor time, and a transfer makes nine such calls for each chunk."""

    def __init__(self) -> None:
        self._connection: Any = None
        self._made_for: list[Any] = []

    def connection(self, call: dict[str, Any]) -> Any:
        made_for = [call[name] for name in ("folders", "spill", "memory_bytes", "threads")]
        if self._connection is None or self._made_for != made_for:
            self.drop()
            self._connection, self._made_for = connected(call), made_for
        return self._connection

    def drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


_kept = _Kept()


def _run(call: dict[str, Any]) -> list[SqlAnswer]:
    if call.get("is_ours"):
        try:
            return _answers(_kept.connection(call), call)
        except BaseException:
            _kept.drop()  # some errors of DuckDB spoil the connection for whatever comes after
            raise
    connection = connected(call)
    try:
        return _answers(connection, call)
    finally:
        connection.close()


def _answers(connection: Any, call: dict[str, Any]) -> list[SqlAnswer]:
    allowance = Allowance(call["max_rows"])
    for name, query in (call["attach"] or {}).get("views", {}).items():
        connection.execute(f"CREATE TEMP VIEW {quoted_name(name)} AS {query}")
    for name, file in call.get("tables", {}).items():
        connection.execute(f"CREATE TEMP VIEW {quoted_name(name)} AS SELECT * FROM {scan(Path(file))}")  # noqa: S608
    statements = call["statements"]
    if call.get("rows_file"):
        text, params = statements[-1]
        statements = [*statements[:-1], (_into_table(connection, text, call["rows_file"]), params)]
    if call["transaction"]:
        connection.execute("BEGIN TRANSACTION")
    try:
        answers = [_answer(connection, text, params, allowance) for text, params in statements]
        if call["transaction"]:
            connection.execute("COMMIT")
    except BaseException:
        with suppress(duckdb.Error):  # there may be no transaction any more
            connection.execute("ROLLBACK")
        raise
    return answers


def _into_table(connection: Any, text: str, file: str) -> str:
    """The last statement, its rows going to a file as they are found: they are in no memory as a whole."""
    (statement,) = connection.extract_statements(text)
    if statement.type != duckdb.StatementType.SELECT:
        raise ToolError("sql.input", "spec.rows: parquet keeps the rows of the last statement, which must be a query")
    return copy_to(Path(file), statement.query.rstrip().rstrip(";") + "\n")


def _answer(connection: Any, text: str, params: list[Any], allowance: Allowance) -> SqlAnswer:
    (statement,) = connection.extract_statements(text)
    cursor = connection.execute(statement, params or None)
    described = cursor.description or []
    columns, kinds = [column[0] for column in described], [str(column[1]) for column in described]
    counts = duckdb.ExpectedResultType.CHANGED_ROWS in statement.expected_result_type
    if counts and columns == ["Count"]:
        found = cursor.fetchone()
        return SqlAnswer([], [], int(found[0]) if found else 0)
    if duckdb.ExpectedResultType.NOTHING in statement.expected_result_type:
        return SqlAnswer([], [], 0)
    rows: list[dict[str, Any]] = []
    while batch := cursor.fetchmany(BATCH_ROWS):
        made = [_row(columns, kinds, values) for values in batch]
        rows += made
        allowance.take(made, len(rows))
    return SqlAnswer(rows, columns, len(rows))


def _row(columns: list[str], kinds: list[str], values: tuple[Any, ...]) -> dict[str, Any]:
    return {
        name: msgspec.json.decode(value) if kind == "JSON" and isinstance(value, str) else plain(value)
        for name, kind, value in zip(columns, kinds, values, strict=True)
    }
