"""Ends of a transfer whose chunks are rows in memory. Sources: queries, HTTP pages, artifacts. Targets: SQL tables,
HTTP endpoints, artifacts."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec

from noetl.base.errors import ToolError
from noetl.engine.pipeline.patches import at_path
from noetl.templates.sql.binding import read
from noetl.templates.sql.statements import Bound, Parameter, Part, Statement, column, names_in, quoted_name, with_params
from noetl.tools.internal import loaded_value, reference_row, store_value
from noetl.tools.sql.requests import Insertion, conflict_clause, request
from noetl.tools.transfer.contract import Chunk, Rows, TransferEnd, TransferPosition, TransferProgress, rows_in

_NAME = "noetl_source"


class SqlSource:
    """Rows of a query. With `cursor`, a column that orders them, they come in any number of chunks. Without one all
    rows are read at once, within the limits of a result: two queries need not return rows in the same order."""

    def __init__(self, end: TransferEnd, chunk_size: int) -> None:
        self._end, self._size = end, chunk_size
        self._query = _query(end)
        self._cursor = end.options.get("cursor")

    async def chunks(self, position: TransferPosition) -> AsyncIterator[Chunk]:
        if self._cursor is None and not position.end:
            yield Chunk(await self._rows(self._query), TransferPosition(end=True))
            return
        # Only at the beginning: a run that continues an earlier one has checked this before its first chunk.
        if position == TransferPosition():
            await self._refuse_nulls()
        while not position.end:
            rows, more = self._complete_chunk(await self._rows(self._following(position)))
            at = rows[-1][str(self._cursor)] if rows else position.at
            position = TransferPosition(at, end=not more)
            yield Chunk(rows, position)

    def _complete_chunk(self, rows: Rows) -> tuple[Rows, bool]:
        """The rows of a chunk, and whether there are more. The query asked for one row more: rows with the same cursor
        value must stay in one chunk, since the next chunk begins after that value."""
        column = str(self._cursor)
        if rows and column not in rows[0]:
            raise ToolError("transfer.input", f'the source has no column "{column}" to be its cursor')
        if len(rows) <= self._size:
            return rows, False
        last = rows[-1][column]
        kept = [row for row in rows if row[column] != last]
        if not kept:
            message = f'more than {self._size} rows share one value of "{column}": take a cursor with fewer, or a '
            raise ToolError("transfer.input", message + "larger chunk_size")
        return kept, True

    def _following(self, position: TransferPosition) -> Statement:
        column = quoted_name(str(self._cursor))
        after: tuple[Part, ...] = (
            () if position.at is None else (f" WHERE {column} > ", Parameter(position.at, typed=True))
        )
        return self._wrapped_query((*after, f" ORDER BY {column} LIMIT {self._size + 1}"))

    async def _refuse_nulls(self) -> None:
        """Refuse rows with a null cursor: they have no place in its order and would be skipped."""
        column = quoted_name(str(self._cursor))
        if await self._rows(self._wrapped_query((f" WHERE {column} IS NULL LIMIT 1",))):
            raise ToolError("transfer.input", f'the source has rows whose "{self._cursor}" is null: it is no cursor')

    def _wrapped_query(self, rest: tuple[Part, ...]) -> Statement:
        return Statement(("SELECT * FROM (", *self._query.parts, f"\n) AS {_NAME}", *rest), "SELECT")

    async def _rows(self, statement: Statement) -> Rows:
        rows: Rows = (await self._end.run_sql((statement,)))["data"]
        return rows


def _query(end: TransferEnd) -> Statement:
    """The statement that returns the rows: a query, or a whole table."""
    options = end.options
    written: Any = options.get("query", options.get("command"))
    if written is None:
        if not options.get("table"):
            raise ToolError("transfer.input", f'a {end.kind} source needs "query", or "table" for all of its rows')
        return Statement(("SELECT * FROM ", _table(options["table"])), "SELECT")
    bound = with_params(written if isinstance(written, Bound) else read(written), options.get("params"))
    if len(bound.statements) != 1:
        raise ToolError("transfer.input", f"the source must be one query, and this holds {len(bound.statements)}")
    return bound.statements[0]


def _table(written: Any) -> str:
    names = names_in(written)
    if names is None or len(names) != 1 or names == ["*"]:
        raise ToolError("transfer.input", f'"{written}" is not a name of a table')
    return column(names[0])


class HttpSource:
    """Rows of HTTP responses, page by page (`page`): by number, by a token in the response, or by the URL of the next
    page.

    `rows` is the dotted path to the rows in a body; `page.next` and `page.more` are paths to the continuation."""

    def __init__(self, end: TransferEnd) -> None:
        self._end = end
        page = end.options.get("page")
        if page is not None and not isinstance(page, Mapping):
            raise ToolError("transfer.input", "source.page must be a mapping such as {param: page, start: 1}")
        self._page: Mapping[str, Any] | None = page
        if page is not None and not page.get("param") and not page.get("next"):
            raise ToolError("transfer.input", 'source.page needs "param", or "next": the path to the next address')

    async def chunks(self, position: TransferPosition) -> AsyncIterator[Chunk]:
        while not position.end:
            answer = await self._end.call(self._request(position))
            rows = rows_in(answer["data"], self._end.options.get("rows"), f"{answer['url']}")
            position = self._next_position(position, answer["data"], answer["url"], bool(rows))
            yield Chunk(rows, position)

    def _request(self, position: TransferPosition) -> dict[str, Any]:
        page = self._page
        if page is None:
            return {}
        if not page.get("param"):
            return {} if position.at is None else {"url": position.at, "params": None}
        at = position.at if position.at is not None else page.get("start", None if page.get("next") else 1)
        params = self._end.options.get("params")
        return {
            "params": {
                **(params if isinstance(params, Mapping) else {}),
                **({page["param"]: at} if at is not None else {}),
            }
        }

    def _next_position(self, position: TransferPosition, body: Any, url: str, any_rows: bool) -> TransferPosition:
        page = self._page
        if page is None or (page.get("more") and not at_path(body, str(page["more"]))):
            return TransferPosition(end=True)
        if not page.get("next"):
            at = position.at if position.at is not None else page.get("start", 1)
            return TransferPosition(at + page.get("step", 1), end=not any_rows)
        following = at_path(body, str(page["next"]))
        if not following:
            return TransferPosition(end=True)
        # Otherwise a server that repeats its last token would be asked forever.
        if following == position.at:
            raise ToolError("transfer.input", f'page.next leads from "{following}" to itself')
        return TransferPosition(following if page.get("param") else _same_origin(url, str(following)))


def _same_origin(url: str, following: str) -> str:
    """The URL of the next page. Every request carries the credential, so it must stay at the same origin."""
    target = urljoin(url, following)
    if urlsplit(target)[:2] != urlsplit(url)[:2]:
        raise ToolError("transfer.input", f"page.next leads to another server: {urlsplit(target).netloc}")
    return target


class ArtifactSource:
    """Rows of an artifact: a list in the results store, or the parts of an earlier transfer.

    Its content never changes, so the number of rows is a sufficient position."""

    def __init__(self, end: TransferEnd, chunk_size: int) -> None:
        self._end, self._size = end, chunk_size

    async def chunks(self, position: TransferPosition) -> AsyncIterator[Chunk]:
        if position.end:
            return
        skip = begin = int(position.at or 0)
        parts = self._parts()
        for number, part in enumerate(parts):
            rows = rows_in(loaded_value(part, self._end.context), self._end.options.get("rows"), "the artifact")
            for start in range(min(skip, len(rows)), len(rows), self._size):
                chunk = rows[start : start + self._size]
                begin += len(chunk)
                last = number + 1 == len(parts) and start + self._size >= len(rows)
                yield Chunk(chunk, TransferPosition(begin, end=last))
            skip = max(skip - len(rows), 0)

    def _parts(self) -> list[Any]:
        reference = self._end.options.get("ref")
        return parts_of(loaded_value(reference, self._end.context)) or [reference]


TABLE = "noetl_transfers"
_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} "
    "(key text NOT NULL, write_number bigint NOT NULL, progress text NOT NULL, PRIMARY KEY (key, write_number))"
)
# In MySQL "key" is a reserved word, and a text without a length cannot be a key.
_CREATE_ANYWHERE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (transfer_key varchar(64) NOT NULL, write_number bigint NOT NULL, "
    "progress text NOT NULL, PRIMARY KEY (transfer_key, write_number))"
)
_LOOK = Statement((f"SELECT to_regclass('{TABLE}') IS NOT NULL AS found",), "SELECT")
# CREATE TABLE IF NOT EXISTS takes no lock: if two transactions create the table at once, one of them gets one of these
# errors.
_CREATED_MEANWHILE = frozenset({"23505", "42P07"})


class SqlTarget:
    """Writes rows to a table. Each chunk is one transaction that also records the progress of the transfer.

    The record of a chunk has its own primary key: if two workers run the same task, the later one fails on it and
    changes nothing."""

    def __init__(self, end: TransferEnd, mode: str, key: Any) -> None:
        if not end.options.get("table"):
            raise ToolError("transfer.input", f'a {end.kind} target needs "table"')
        self._end, self._mode, self._key = end, mode, key
        self._name, self._column, self._create = end.context.task_run.idempotency_key, "key", _CREATE
        # Idempotency keys have any length, and the column of the other databases has 64 characters.
        if end.kind not in ("postgres", "duckdb"):
            self._name = hashlib.sha256(self._name.encode()).hexdigest()
            self._column, self._create = "transfer_key", _CREATE_ANYWHERE
        # Called only for its checks: a wrong table name or key must fail before the source is read.
        self._checked([{"": None}])

    async def progress(self) -> TransferProgress:
        await self._ensure_table()
        text = f"SELECT progress FROM {TABLE} WHERE {self._column} = "  # noqa: S608  names of ours
        last = Statement((text, Parameter(self._name), " ORDER BY write_number DESC LIMIT 1"), "SELECT")
        found = (await self._end.run_sql((last,)))["data"]
        return msgspec.json.decode(found[0]["progress"], type=TransferProgress) if found else TransferProgress()

    async def write(self, pieces: list[Rows], progress: TransferProgress) -> None:
        statements = [statement for piece in pieces for statement in self._insertion(piece)]
        # The first write empties the table, in the transaction of its rows, so that no reader sees it empty. A run that
        # continues has written before, and deletes nothing.
        if self._mode == "replace" and progress.writes == 1:
            statements.insert(0, Statement((f"DELETE FROM {self._table}",), "DELETE"))  # noqa: S608  a checked name
        await self._end.run_sql((*statements, self._record(progress)))

    async def reference(self, progress: TransferProgress) -> Mapping[str, Any]:
        table = str(self._end.options["table"])
        reference = {"store": f"{self._end.kind}.table", "key": table, "size": progress.size}
        return {**reference, "row_count": progress.rows, "schema_hint": "rows"}

    async def _ensure_table(self) -> None:
        if self._end.kind == "postgres" and (await self._end.run_sql((_LOOK,)))["data"][0]["found"]:
            return  # a role that may not create tables can still use an existing one
        try:
            await self._end.run_sql((Statement((self._create,), "CREATE"),))
        except ToolError as problem:
            if problem.details.get("code") in _CREATED_MEANWHILE:
                return
            message = f"the table {TABLE}, where a transfer records its progress, cannot be made: {problem.message}"
            failure = ToolError(problem.kind, message, retryable=problem.retryable)
            failure.details.update(problem.details)
            raise failure from None

    def _record(self, progress: TransferProgress) -> Statement:
        record = msgspec.json.encode(progress).decode()
        values = (Parameter(self._name), ", ", Parameter(progress.writes, typed=True), ", ", Parameter(record))
        return Statement((f"INSERT INTO {TABLE} VALUES (", *values, ")"), "INSERT")  # noqa: S608

    def _checked(self, rows: Rows) -> Insertion:
        mode = {"mode": "upsert", "key": self._key} if self._mode == "upsert" else {}
        work = request({"table": self._end.options["table"], "args": rows, **mode})
        assert isinstance(work, Insertion)
        self._table = work.table
        return work

    def _insertion(self, rows: Rows) -> Iterator[Statement]:
        insertion = self._checked(rows)
        if self._end.kind == "duckdb":
            # Imported here: that module refuses to load without DuckDB, which a transfer to PostgreSQL does not need.
            from noetl.tools.duckdb.tool import insertion_statements

            yield from insertion_statements(insertion).statements
        else:
            yield from _for_postgres(insertion)


def _for_postgres(insertion: Insertion) -> Iterator[Statement]:
    """All rows as one parameter; the server converts it to the column types of the table."""
    for group in insertion.groups:
        columns = sorted(group[0])
        names = ", ".join(map(quoted_name, columns))
        begin = f"INSERT INTO {insertion.table} ({names}) SELECT {names} "
        begin += f"FROM jsonb_populate_recordset(NULL::{insertion.table}, CAST(CAST("
        rows = Parameter(msgspec.json.encode(group).decode())
        yield Statement((begin, rows, " AS text) AS jsonb))", conflict_clause(insertion, columns)), "INSERT")


class HttpTarget:
    """Sends rows to an HTTP endpoint: one request for each chunk, with the rows as body, or `{rows_key: rows}`.

    There is no transaction to record progress in. Each request has its own idempotency key, the same in every attempt,
    by which the endpoint can recognise a repeated one (reliability.md §3.4)."""

    def __init__(self, end: TransferEnd, mode: str) -> None:
        if mode != "append":
            raise ToolError("transfer.input", f'an http target only takes rows: mode "{mode}" is for tables')
        self._end = end
        self._sent = 0

    async def progress(self) -> TransferProgress:
        return TransferProgress()

    async def write(self, pieces: list[Rows], progress: TransferProgress) -> None:
        key = self._end.options.get("rows_key")
        for piece in pieces:
            self._sent += 1
            body = {str(key): piece} if key else piece
            method = self._end.options.get("method") or "POST"
            await self._end.call({"method": method, "json": body}, key=f"chunk-{self._sent}")

    async def reference(self, progress: TransferProgress) -> Mapping[str, Any]:
        # Without query and login: a reference is stored in the log and shown.
        url = str(self._end.options.get("url")).partition("?")[0]
        address = url.rpartition("@")[2] if "@" in url else url
        return {"store": "http", "key": address, "size": progress.size, "row_count": progress.rows}


PARTS = "noetl.parts"


class ArtifactTarget:
    """Writes rows to the results store: one list, or for several chunks a list of references to the parts.

    No progress is recorded, and none is needed: equal content is stored once, so a repeated run finds its parts."""

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
    """The references of the parts if `value` is a list of parts, else None."""
    if isinstance(value, dict) and isinstance(value.get(PARTS), list):
        return list(value[PARTS])
    return None
