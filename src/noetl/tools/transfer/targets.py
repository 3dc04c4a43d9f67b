"""Where rows go: SQL tables, HTTP endpoints, artifacts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.templates.sql.statements import Parameter, Statement, quoted_name
from noetl.tools.artifact import reference_row, store_value
from noetl.tools.sql.requests import Insertion, conflict_clause, request
from noetl.tools.transfer.contract import Rows, TransferEnd, TransferProgress

TABLE = "noetl_transfers"
_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} "
    "(key text NOT NULL, write_number bigint NOT NULL, progress text NOT NULL, PRIMARY KEY (key, write_number))"
)
# MySQL has "key" as a word of its own, and no key of a text without a length.
_CREATE_ANYWHERE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (transfer_key varchar(64) NOT NULL, write_number bigint NOT NULL, "
    "progress text NOT NULL, PRIMARY KEY (transfer_key, write_number))"
)
_LOOK = Statement((f"SELECT to_regclass('{TABLE}') IS NOT NULL AS found",), "SELECT")
# CREATE TABLE IF NOT EXISTS is no lock: of two that create at once, one gets one of these.
_CREATED_MEANWHILE = frozenset({"23505", "42P07"})


class SqlTarget:
    """Rows into a table. Each chunk is one transaction that also records how far the transfer has come.

    The record of a chunk has a primary key of its own: of two workers that believe to hold the same task, the later one
    fails on it and changes nothing."""

    def __init__(self, end: TransferEnd, mode: str, key: Any) -> None:
        if not end.said.get("table"):
            raise ToolError("transfer.input", f'a {end.kind} target needs "table"')
        self._end, self._mode, self._key = end, mode, key
        self._name, self._column, self._create = end.context.idempotency_key, "key", _CREATE
        if end.kind not in ("postgres", "duckdb"):
            self._name = hashlib.sha256(self._name.encode()).hexdigest()
            self._column, self._create = "transfer_key", _CREATE_ANYWHERE
        self._checked([{"": None}])

    async def progress(self) -> TransferProgress:
        await self._ensure_table()
        text = f"SELECT progress FROM {TABLE} WHERE {self._column} = "  # noqa: S608  names of ours
        last = Statement((text, Parameter(self._name), " ORDER BY write_number DESC LIMIT 1"), "SELECT")
        found = (await self._end.run_sql((last,)))["data"]
        return msgspec.json.decode(found[0]["progress"], type=TransferProgress) if found else TransferProgress()

    async def write(self, pieces: list[Rows], progress: TransferProgress) -> None:
        statements = [statement for piece in pieces for statement in self._insertion(piece)]
        if self._mode == "replace" and progress.writes == 1:
            statements.insert(0, Statement((f"DELETE FROM {self._table}",), "DELETE"))  # noqa: S608  a checked name
        await self._end.run_sql((*statements, self._record(progress)))

    async def reference(self, progress: TransferProgress) -> Mapping[str, Any]:
        table = str(self._end.said["table"])
        told = {"store": f"{self._end.kind}.table", "key": table, "size": progress.size}
        return {**told, "row_count": progress.rows, "schema_hint": "rows"}

    async def _ensure_table(self) -> None:
        if self._end.kind == "postgres" and (await self._end.run_sql((_LOOK,)))["data"][0]["found"]:
            return  # a role that may not create tables can still use one that somebody made for it
        try:
            await self._end.run_sql((Statement((self._create,), "CREATE"),))
        except ToolError as problem:
            if problem.details.get("code") in _CREATED_MEANWHILE:
                return
            message = f"the table {TABLE}, where a transfer records its progress, cannot be made: {problem.message}"
            told = ToolError(problem.kind, message, retryable=problem.retryable)
            told.details.update(problem.details)
            raise told from None

    def _record(self, progress: TransferProgress) -> Statement:
        told = msgspec.json.encode(progress).decode()
        values = (Parameter(self._name), ", ", Parameter(progress.writes, typed=True), ", ", Parameter(told))
        return Statement((f"INSERT INTO {TABLE} VALUES (", *values, ")"), "INSERT")  # noqa: S608

    def _checked(self, rows: Rows) -> Insertion:
        mode = {"mode": "upsert", "key": self._key} if self._mode == "upsert" else {}
        work = request({"table": self._end.said["table"], "args": rows, **mode})
        assert isinstance(work, Insertion)
        self._table = work.table
        return work

    def _insertion(self, rows: Rows) -> Iterator[Statement]:
        insertion = self._checked(rows)
        if self._end.kind == "duckdb":
            from noetl.tools.duckdb.parameters import insertion_statements

            yield from insertion_statements(insertion).statements
        else:
            yield from _for_postgres(insertion)


def _for_postgres(insertion: Insertion) -> Iterator[Statement]:
    """All rows as one parameter, which the server reads by the types of the table's own columns."""
    for group in insertion.groups:
        columns = sorted(group[0])
        names = ", ".join(map(quoted_name, columns))
        begin = f"INSERT INTO {insertion.table} ({names}) SELECT {names} "
        begin += f"FROM jsonb_populate_recordset(NULL::{insertion.table}, CAST(CAST("
        rows = Parameter(msgspec.json.encode(group).decode())
        yield Statement((begin, rows, " AS text) AS jsonb))", conflict_clause(insertion, columns)), "INSERT")


class HttpTarget:
    """Rows to an HTTP endpoint: one request for each chunk, its body the rows, or `{rows_key: rows}`.

    There is no transaction to record anything in; each request carries an idempotency key of its own, the same for
    every attempt, by which the other side can know it again (reliability.md §3.4)."""

    def __init__(self, end: TransferEnd, mode: str) -> None:
        if mode != "append":
            raise ToolError("transfer.input", f'an http target only takes rows: mode "{mode}" is for tables')
        self._end = end
        self._sent = 0

    async def progress(self) -> TransferProgress:
        return TransferProgress()

    async def write(self, pieces: list[Rows], progress: TransferProgress) -> None:
        key = self._end.said.get("rows_key")
        for piece in pieces:
            self._sent += 1
            body = {str(key): piece} if key else piece
            method = self._end.said.get("method") or "POST"
            await self._end.call({"method": method, "json": body}, key=f"chunk-{self._sent}")

    async def reference(self, progress: TransferProgress) -> Mapping[str, Any]:
        url = str(self._end.said.get("url")).partition("?")[0]
        address = url.rpartition("@")[2] if "@" in url else url
        return {"store": "http", "key": address, "size": progress.size, "row_count": progress.rows}


PARTS = "noetl.parts"


class ArtifactTarget:
    """Rows into the results store: one list, or, where there are several chunks, a list of parts that says where they
    are.

    Nothing is recorded on the way, and nothing need be: an equal content is stored once, so a repeated run finds its
    own parts again."""

    def __init__(self, end: TransferEnd, mode: str) -> None:
        if mode != "append":
            raise ToolError("transfer.input", f'an artifact cannot be changed: mode "{mode}" has no meaning there')
        self._end = end
        self._parts: list[dict[str, Any]] = []

    async def progress(self) -> TransferProgress:
        return TransferProgress()

    async def write(self, pieces: list[Rows], progress: TransferProgress) -> None:
        self._parts += [reference_row(store_value(piece, self._end.context)) for piece in pieces]

    async def reference(self, progress: TransferProgress) -> Mapping[str, Any]:
        if not self._parts:
            self._parts.append(reference_row(store_value([], self._end.context)))
        if len(self._parts) == 1:
            return {**self._parts[0], "row_count": progress.rows}
        reference = store_value({PARTS: self._parts, "row_count": progress.rows}, self._end.context)
        return {**reference_row(reference), "schema_hint": "rows.parts", "row_count": progress.rows}


def parts_of(value: Any) -> list[Any] | None:
    """The references of the parts, where `value` is a list of parts."""
    if isinstance(value, dict) and isinstance(value.get(PARTS), list):
        return list(value[PARTS])
    return None
