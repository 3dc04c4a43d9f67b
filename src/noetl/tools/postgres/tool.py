"""`postgres`: runs SQL on PostgreSQL (TOOL-05).

All statements of a task are one transaction unless `spec.transaction` is false or the SQL begins its own. A cancelled
task is cancelled on the server too, by the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from noetl.base.durations import seconds
from noetl.base.errors import ToolError
from noetl.templates.sql.statements import Bound, quoted_name
from noetl.tools.contract import Tool, ToolContext, ToolResult, TriggerBatch, TriggerPoll
from noetl.tools.postgres.pools import HELPER, PostgresPools, as_tool_errors
from noetl.tools.postgres.session import PostgresSession
from noetl.tools.postgres.targets import target_of
from noetl.tools.sql.answers import check_rows, result_of
from noetl.tools.sql.requests import (
    Insertion,
    conflict_clause,
    keeps_transactions,
    new_rows,
    reference_to,
    request,
    with_script,
)
from noetl.tools.table_files import RowLoad, TableFiles, store_table, table_folder, wants_table

STORE = "postgres.table"
SUCCESS = "00000"

Work = Bound | Insertion


class PostgresTool(Tool):
    def __init__(self) -> None:
        self._pools, self._tables = PostgresPools(), TableFiles()

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        load = inputs.get("load")
        work = (
            Bound(())
            if isinstance(load, RowLoad)
            else request(await with_script(inputs, context.permissions.data_folders))
        )
        spec = context.spec
        total_s, connect_s = _times(spec.get("timeout"))
        target = target_of(inputs.get("auth"), context)
        reached = self._pools.connection(target, context.addresses, size=spec.get("pool_size"), connect_s=connect_s)
        async with reached as connection:
            with as_tool_errors():
                session = PostgresSession(connection, spec, total_s)
                if isinstance(load, RowLoad):
                    await session.load(load)
                    return ToolResult(result=None)
                if wants_table(spec) and isinstance(work, Bound):
                    return await self._table(work, session, context)
                result = await _run(work, connection, session, context)
        return ToolResult(
            result=result,
            wrapped=isinstance(work, Bound),
            helpers={HELPER: {"code": SUCCESS, "message": None}},
        )

    async def _table(self, work: Bound, session: PostgresSession, context: ToolContext) -> ToolResult:
        """The rows of the last statement as a table."""
        if context.spec.get("exactly_once") or context.spec.get("transaction") is False or keeps_transactions(work):
            raise ToolError("sql.input", "spec.rows: parquet needs one transaction, and cannot be exactly_once")
        with table_folder() as folder:
            csv, file = folder / "rows.csv", folder / "rows.parquet"
            async with session.transaction():
                columns, count = await session.copy_last(work, csv)
            # After the transaction: the number of rows is known when the server has written all of them.
            check_rows(count, context.spec.get("max_rows"))
            await self._tables.from_csv(context.task_run.execution_id, csv, columns, file)
            csv.unlink()
            result = await store_table(file, context, self._tables)
        return ToolResult(result=result, helpers={HELPER: {"code": SUCCESS, "message": None}})

    async def poll(self, inputs: Mapping[str, Any], poll: TriggerPoll, context: ToolContext) -> TriggerBatch:
        """Rows that a query finds after the cursor."""
        return await new_rows(self, inputs, poll, context)

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Test the credential by connecting. Raises ToolError with the reason if it is refused."""
        await self.run({"command": "SELECT 1", **inputs}, context)
        return f"connected to the {target_of(inputs.get('auth'), context)}"

    def release(self, execution_id: str) -> None:
        self._tables.release(execution_id)

    async def close(self) -> None:
        await self._pools.close()
        await self._tables.close()

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {HELPER: {"code": None, "message": None}}


async def _run(work: Work, connection: Any, session: PostgresSession, context: ToolContext) -> Any:
    once = context.spec.get("exactly_once") is True
    singly = context.spec.get("transaction") is False or (isinstance(work, Bound) and keeps_transactions(work))
    if singly and once:
        raise ToolError("sql.input", "spec.exactly_once needs the one transaction of the task: its marker is in it")
    if singly and isinstance(work, Bound):
        return result_of(await session.run_singly(work))
    if once:
        await ensure_table(connection)
    async with session.transaction():
        if once and (recorded := await claim(connection, context.task_run.idempotency_key)) is not None:
            return recorded[0]
        result = await _result(work, connection, session)
        if once:
            await record(connection, context.task_run.idempotency_key, result)
    return result


async def _result(work: Work, connection: Any, session: PostgresSession) -> Any:
    if isinstance(work, Insertion):
        return reference_to(work, STORE, await insert(connection, work))
    return result_of(await session.run(work))


def _times(timeout: Any) -> tuple[float | None, float | None]:
    """The time limits of the whole task, for the server, and of connecting."""
    if isinstance(timeout, dict):
        total = timeout.get("total", timeout.get("read"))
        connect = timeout.get("connect")
        return _seconds(total), _seconds(connect)
    return _seconds(timeout), None


def _seconds(written: Any) -> float | None:
    return seconds(written) if written is not None else None


# Marker: `spec.exactly_once` (reliability.md §3.4). A row that is written in the transaction of the task shows that its
# effect is stored; a repeated run finds the row and returns the result of the first one.

TABLE = "noetl_effects"
_LOCK = 0x6E6F65746C  # an arbitrary number for the lock: two workers must not create the table at the same time


async def ensure_table(connection: Any) -> None:
    """The marker table, in the first schema of the search path."""
    if await connection.fetchval("SELECT to_regclass($1)::text", TABLE) is not None:
        return
    async with connection.transaction():
        # CREATE TABLE IF NOT EXISTS takes no lock: of two that create at once, one would fail.
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        await connection.execute(
            f"CREATE TABLE IF NOT EXISTS {TABLE} "
            "(key text PRIMARY KEY, recorded_at timestamptz NOT NULL DEFAULT now(), result text)"
        )


async def claim(connection: Any, key: str) -> Any:
    """None if this run is the first with `key`, so it has to do the work. Otherwise the result of the first run, as
    `(result,)`.

    If another run is still open elsewhere, this waits: its row is locked until it commits or rolls back.
    """
    taken = await connection.fetchval(
        f"INSERT INTO {TABLE} (key) VALUES ($1) ON CONFLICT DO NOTHING RETURNING key",  # noqa: S608
        key,
    )
    if taken is not None:
        return None
    recorded = await connection.fetchval(f"SELECT result FROM {TABLE} WHERE key = $1", key)  # noqa: S608
    if recorded is None:
        raise ToolError("pg.error", f'the effect "{key}" is recorded, but its result is not', retryable=True)
    return (msgspec.json.decode(recorded),)


async def record(connection: Any, key: str, result: Any) -> None:
    await connection.execute(
        f"UPDATE {TABLE} SET result = $2 WHERE key = $1",  # noqa: S608
        key,
        msgspec.json.encode(result).decode(),
    )


# Insertion: rows into a table (TOOL-05, RES-05). The server reads them from JSON by the table's own column types. In
# JSON, text for a json column is a JSON string. Text that is an object or a list is stored as such, as it would be in
# quotes.
_JSON_COLUMNS = """
SELECT attname::text FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
WHERE attrelid = to_regclass($1) AND attnum > 0
  AND CASE typtype WHEN 'd' THEN typbasetype ELSE atttypid END IN ('json'::regtype, 'jsonb'::regtype)
"""
_documents = msgspec.json.Decoder(dict[str, Any] | list[Any])


async def insert(connection: Any, insertion: Insertion) -> int:
    """Insert all rows; returns how many were inserted or updated."""
    count, json_columns = 0, await _json_columns(connection, insertion)
    for group in insertion.groups:
        columns = sorted(group[0])
        rows = [_with_documents(row, json_columns) for row in group] if json_columns else group
        status = await connection.execute(_text(insertion, columns), msgspec.json.encode(rows).decode())
        count += int(status.rpartition(" ")[2])
    return count


def _text(insertion: Insertion, columns: list[str]) -> str:
    names = ", ".join(map(quoted_name, columns))
    table = insertion.table
    return (
        f"INSERT INTO {table} ({names}) SELECT {names} "  # noqa: S608  names are quoted, rows are one parameter
        f"FROM jsonb_populate_recordset(NULL::{table}, CAST($1::text AS jsonb))" + conflict_clause(insertion, columns)
    )


async def _json_columns(connection: Any, insertion: Insertion) -> frozenset[str]:
    """The JSON columns of the table; not queried if no text could be a document."""
    if not any(_may_be_document(value) for group in insertion.groups for row in group for value in row.values()):
        return frozenset()
    return frozenset(found[0] for found in await connection.fetch(_JSON_COLUMNS, insertion.table))


def _with_documents(row: dict[str, Any], json_columns: frozenset[str]) -> dict[str, Any]:
    return {name: _document(value) if name in json_columns else value for name, value in row.items()}


def _may_be_document(value: Any) -> bool:
    return isinstance(value, str) and value.lstrip()[:1] in ("{", "[")


def _document(value: Any) -> Any:
    """The unchanged text if it is a document, else a JSON string."""
    if _may_be_document(value):
        with suppress(msgspec.DecodeError, UnicodeEncodeError):
            _documents.decode(value)
            # Not decoded and encoded again: numbers would lose digits.
            return msgspec.Raw(value.encode())
    return value
