"""The child process of the `duckdb` tool: runs the SQL of calls and answers them as JSON over pipes.

Every call has its own connection, which is locked down before its SQL runs (reliability.md §2.5): only files in the
folders of the call, no extensions, and no way to change these settings back.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from noetl.base.errors import ToolError
from noetl.templates.sql.statements import quoted_name
from noetl.tools.child_pipes import answer_in_fork, refusal, serve_calls
from noetl.tools.duckdb.attachments import Attachment, ObjectFolder
from noetl.tools.duckdb.object_files import ObjectFiles, files_of
from noetl.tools.duckdb.sandboxed_connection import LOCKED, CheckedExtensions, locked_connection
from noetl.tools.sql.answers import Allowance, SqlAnswer, plain
from noetl.tools.table_sql import copy_to, scan

BATCH_ROWS = 500
_SUCCESS = b'{"answers":'  # the beginning of the answer of a call that succeeded
# DuckDB tries to reconnect to a lost server, which its confined process may not do.
_GONE = "the connection to PostgreSQL was lost"
# DuckDB's messages for a lost server. A rollback fails for no other reason, sometimes without naming it.
_LOST = ("Unable to connect to Postgres", "server closed the connection", "no connection to the", 'query "ROLLBACK"')


def serve() -> None:
    serve_calls(_answer_to)


_checked = CheckedExtensions()


def _answer_to(call: dict[str, Any]) -> bytes:
    if not call["attach"]:
        return _encoded_answer(call)
    states = _checked.states(msgspec.convert(call["attach"], Attachment))
    call["has_checked_extensions"] = _checked.holds(states)
    # A call that loads extensions confines its process for good, so it runs in a forked one.
    body = answer_in_fork(lambda: _encoded_answer(call), "duckdb.error")
    if body.startswith(_SUCCESS):
        _checked.add(states)
    return body


def _encoded_answer(call: dict[str, Any]) -> bytes:
    try:
        return _SUCCESS + msgspec.json.encode(_run(call)) + b"}"
    except ToolError as problem:
        return refusal(problem.kind, problem.message, retryable=problem.retryable, **problem.details)
    except duckdb.Error as problem:
        message = str(problem).split("\n\n")[0]
        if any(sign in message for sign in _LOST):
            return refusal("duckdb.error", _GONE, retryable=True, code=type(problem).__name__)
        return refusal("duckdb.error", message, retryable=is_temporary(message), code=type(problem).__name__)
    # Any error: without an answer the parent would assume that the child has died.
    except Exception as problem:
        return refusal("duckdb.error", f"{type(problem).__name__}: {problem}")


def is_temporary(message: str) -> bool:
    """Whether a retry may succeed: another process has the file open, or wrote at the same time."""
    return any(sign in message for sign in (LOCKED, "database is locked", "Transaction conflict"))


class _ReusedConnection:
    """The reused connection for calls whose SQL is all ours (`is_ours`). Such SQL leaves nothing behind, and no
    playbook uses the connection. Opening one takes 12 ms of CPU time, and a transfer makes nine such calls for each
    chunk."""

    def __init__(self) -> None:
        self._connection: Any = None
        self._options: list[Any] = []

    def connection(self, call: dict[str, Any]) -> Any:
        options = [call[name] for name in ("folders", "spill", "memory_bytes", "threads")]
        if self._connection is None or self._options != options:
            self.drop()
            self._connection, self._options = locked_connection(call), options
        return self._connection

    def drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


_reused = _ReusedConnection()


def _run(call: dict[str, Any]) -> list[SqlAnswer]:
    if call.get("is_ours"):
        try:
            return _answers(_reused.connection(call), call)
        except BaseException:
            _reused.drop()  # some errors of DuckDB leave the connection unusable
            raise
    objects = _object_files(call)
    try:
        connection = locked_connection(call, objects)
        try:
            return _answers(connection, call)
        finally:
            connection.close()
    except duckdb.Error:
        if objects is not None and objects.problem is not None:
            raise objects.problem from None  # DuckDB knows only its text
        raise


def _object_files(call: dict[str, Any]) -> ObjectFiles | None:
    folder = (call["attach"] or {}).get("objects")
    return files_of(msgspec.convert(folder, ObjectFolder), call["threads"]) if folder else None


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
    """The last statement as a COPY to a file, so that its rows are never all in memory."""
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
        converted = [_row(columns, kinds, values) for values in batch]
        rows += converted
        allowance.take(converted, len(rows))
    return SqlAnswer(rows, columns, len(rows))


def _row(columns: list[str], kinds: list[str], values: tuple[Any, ...]) -> dict[str, Any]:
    return {
        name: msgspec.json.decode(value) if kind == "JSON" and isinstance(value, str) else plain(value)
        for name, kind, value in zip(columns, kinds, values, strict=True)
    }
