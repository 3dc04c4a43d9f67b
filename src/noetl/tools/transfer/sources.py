"""Where rows come from: queries, HTTP pages, artifacts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from noetl.base.errors import ToolError
from noetl.engine.pipeline.patches import at_path
from noetl.templates.sql.binding import read
from noetl.templates.sql.placeholders import column, names_in, with_params
from noetl.templates.sql.statements import Bound, Parameter, Part, Statement, quoted_name
from noetl.tools.artifact import loaded
from noetl.tools.transfer.contract import Chunk, Rows, TransferEnd, TransferPosition, rows_in
from noetl.tools.transfer.targets import parts_of

_NAME = "noetl_source"


class SqlSource:
    """Rows of a query. With `cursor`, a column that orders them, they come in chunks of any number; without one all of
    them are read at once, within the limits of a result, since no two queries could be trusted to count the same
    way."""

    def __init__(self, end: TransferEnd, chunk_size: int) -> None:
        self._end, self._size = end, chunk_size
        self._query = _query(end)
        self._cursor = end.said.get("cursor")

    async def chunks(self, position: TransferPosition) -> AsyncIterator[Chunk]:
        if self._cursor is None and not position.end:
            yield Chunk(await self._rows(self._query), TransferPosition(end=True))
            return
        if position == TransferPosition():
            await self._refuse_nulls()
        while not position.end:
            rows, more = self._complete_chunk(await self._rows(self._following(position)))
            at = rows[-1][str(self._cursor)] if rows else position.at
            position = TransferPosition(at, end=not more)
            yield Chunk(rows, position)

    def _complete_chunk(self, rows: Rows) -> tuple[Rows, bool]:
        """The rows of a chunk, and whether there are more. One row more was asked for: rows that share their value of
        the cursor must not be parted, or the rest of them would never be seen."""
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
        return self._around((*after, f" ORDER BY {column} LIMIT {self._size + 1}"))

    async def _refuse_nulls(self) -> None:
        """Rows without a value of the cursor have no place in its order and would be left behind."""
        column = quoted_name(str(self._cursor))
        if await self._rows(self._around((f" WHERE {column} IS NULL LIMIT 1",))):
            raise ToolError("transfer.input", f'the source has rows whose "{self._cursor}" is null: it is no cursor')

    def _around(self, rest: tuple[Part, ...]) -> Statement:
        return Statement(("SELECT * FROM (", *self._query.parts, f"\n) AS {_NAME}", *rest), "SELECT")

    async def _rows(self, statement: Statement) -> Rows:
        rows: Rows = (await self._end.run_sql((statement,)))["data"]
        return rows


def _query(end: TransferEnd) -> Statement:
    """The one statement that gives the rows: a query, or a whole table."""
    said = end.said
    written: Any = said.get("query", said.get("command"))
    if written is None:
        if not said.get("table"):
            raise ToolError("transfer.input", f'a {end.kind} source needs "query", or "table" for all of its rows')
        return Statement(("SELECT * FROM ", _table(said["table"])), "SELECT")
    bound = with_params(written if isinstance(written, Bound) else read(written), said.get("params"))
    if len(bound.statements) != 1:
        raise ToolError("transfer.input", f"the source must be one query, and this holds {len(bound.statements)}")
    return bound.statements[0]


def _table(written: Any) -> str:
    names = names_in(written)
    if names is None or len(names) != 1 or names == ["*"]:
        raise ToolError("transfer.input", f'"{written}" is no name of a table')
    return column(names[0])


class HttpSource:
    """Rows of HTTP answers, page by page (`page`): by number, by a token the answer names, or by the address of
    the next.

    `rows` is the dotted path to the rows in a body, `page.next` and `page.more` paths to what leads on."""

    def __init__(self, end: TransferEnd) -> None:
        self._end = end
        page = end.said.get("page")
        if page is not None and not isinstance(page, Mapping):
            raise ToolError("transfer.input", "source.page must be a mapping such as {param: page, start: 1}")
        self._page: Mapping[str, Any] | None = page
        if page is not None and not page.get("param") and not page.get("next"):
            raise ToolError("transfer.input", 'source.page needs "param", or "next": the path to the next address')

    async def chunks(self, position: TransferPosition) -> AsyncIterator[Chunk]:
        while not position.end:
            answer = await self._end.call(self._request(position))
            rows = rows_in(answer["data"], self._end.said.get("rows"), f"{answer['url']}")
            position = self._then(position, answer["data"], answer["url"], bool(rows))
            yield Chunk(rows, position)

    def _request(self, position: TransferPosition) -> dict[str, Any]:
        page = self._page
        if page is None:
            return {}
        if not page.get("param"):
            return {} if position.at is None else {"url": position.at, "params": None}
        at = position.at if position.at is not None else page.get("start", None if page.get("next") else 1)
        params = self._end.said.get("params")
        return {
            "params": {
                **(params if isinstance(params, Mapping) else {}),
                **({page["param"]: at} if at is not None else {}),
            }
        }

    def _then(self, position: TransferPosition, body: Any, url: str, any_rows: bool) -> TransferPosition:
        page = self._page
        if page is None or (page.get("more") and not at_path(body, str(page["more"]))):
            return TransferPosition(end=True)
        if not page.get("next"):
            at = position.at if position.at is not None else page.get("start", 1)
            return TransferPosition(at + page.get("step", 1), end=not any_rows)
        following = at_path(body, str(page["next"]))
        if not following:
            return TransferPosition(end=True)
        if following == position.at:
            raise ToolError("transfer.input", f'page.next leads from "{following}" to itself')
        return TransferPosition(following if page.get("param") else _same_origin(url, str(following)))


def _same_origin(url: str, following: str) -> str:
    """The address of the next page. A credential goes with every request, so it must not lead elsewhere."""
    target = urljoin(url, following)
    if urlsplit(target)[:2] != urlsplit(url)[:2]:
        raise ToolError("transfer.input", f"page.next leads to another server: {urlsplit(target).netloc}")
    return target


class ArtifactSource:
    """Rows of an artifact: a list in the results store, or the parts that another transfer put there.

    Its content never changes, so a number of rows is position enough."""

    def __init__(self, end: TransferEnd, chunk_size: int) -> None:
        self._end, self._size = end, chunk_size

    async def chunks(self, position: TransferPosition) -> AsyncIterator[Chunk]:
        if position.end:
            return
        skip = begin = int(position.at or 0)
        parts = self._parts()
        for number, part in enumerate(parts):
            rows = rows_in(loaded(part, self._end.context), self._end.said.get("rows"), "the artifact")
            for start in range(min(skip, len(rows)), len(rows), self._size):
                chunk = rows[start : start + self._size]
                begin += len(chunk)
                last = number + 1 == len(parts) and start + self._size >= len(rows)
                yield Chunk(chunk, TransferPosition(begin, end=last))
            skip = max(skip - len(rows), 0)

    def _parts(self) -> list[Any]:
        reference = self._end.said.get("ref")
        return parts_of(loaded(reference, self._end.context)) or [reference]
