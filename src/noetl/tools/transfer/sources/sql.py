"""Rows of a query. With `cursor`, a column that orders them, they come in chunks of any number; without one all of
them are read at once, within the limits of a result, since no two queries could be trusted to count the same way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from noetl.base.errors import ToolError
from noetl.templates.sql.binding import read
from noetl.templates.sql.names import column, names_in
from noetl.templates.sql.placeholders import with_params
from noetl.templates.sql.statements import Bound, Parameter, Part, Statement
from noetl.tools.sql.requests import quoted_name
from noetl.tools.transfer.calls import TransferEnd
from noetl.tools.transfer.contract import Chunk, Rows, TransferPosition

_NAME = "noetl_source"


class SqlSource:
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
