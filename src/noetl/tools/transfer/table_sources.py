"""Where chunks of tables come from: queries, objects and files, stored tables."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from noetl.base.errors import ToolError
from noetl.store.results.files import file_checksum
from noetl.templates.sql.statements import Bound, Statement, quoted, quoted_name
from noetl.tools.tables.stored import fetched_table
from noetl.tools.tables.table_sql import copy_to, scan
from noetl.tools.transfer.contract import TransferEnd, TransferPosition
from noetl.tools.transfer.sources import SqlSource
from noetl.tools.transfer.table_ends import ChunkFiles, TableChunk, table_of

_LAST = "SELECT {column} AS c FROM read_parquet({file}, file_row_number = true) ORDER BY file_row_number DESC LIMIT 1"


class QueryTables(SqlSource):
    """Rows of a query. With `cursor` they come in chunks, each a query of its own, and a repeated run goes on after the
    last one. Without it they are one chunk, of any size: no two queries could be trusted to give the same order."""

    def __init__(self, end: TransferEnd, chunk_size: int, files: ChunkFiles) -> None:
        super().__init__(end, chunk_size)
        self._files = files

    async def chunks(self, position: TransferPosition) -> AsyncIterator[TableChunk]:  # type: ignore[override]
        if self._cursor is None and not position.end:
            whole = await self._files.chunk(await self._table(self._query), TransferPosition(end=True))
            yield whole
            whole.file.unlink(missing_ok=True)
            return
        if position == TransferPosition():
            await self._refuse_nulls()
        while not position.end:
            file, position = await self._cut(await self._table(self._following(position)), position)
            chunk = await self._files.chunk(file, position)
            yield chunk
            chunk.file.unlink(missing_ok=True)

    async def _cut(self, file: Path, before: TransferPosition) -> tuple[Path, TransferPosition]:
        """The rows of a chunk, and where the next one begins. One row more was asked for: rows that share their value
        of the cursor must not be parted, or the rest of them would never be seen."""
        column = quoted_name(str(self._cursor))
        if await self._counted(file) <= self._size:
            last = await self._last(file, column)
            return file, TransferPosition(last[0]["c"] if last else before.at, end=True)
        kept = self._files.new()
        condition = f"{column} IS DISTINCT FROM ({_LAST.format(column=column, file=_text(file))})"
        await self._files.sql(copy_to(kept, f"SELECT * FROM {scan(file)} WHERE {condition}"))  # noqa: S608
        file.unlink()
        last = await self._last(kept, column)
        if not last:
            message = (
                f'more than {self._size} rows share one value of "{self._cursor}": take a cursor with fewer, or a '
            )
            raise ToolError("transfer.input", message + "larger chunk_size")
        return kept, TransferPosition(last[0]["c"])

    async def _counted(self, file: Path) -> int:
        counted, described = await self._files.sql(
            f"SELECT count(*) AS n FROM {scan(file)}",  # noqa: S608  a path of ours
            f"DESCRIBE SELECT * FROM {scan(file)}",  # noqa: S608
        )
        if str(self._cursor) not in [row["column_name"] for row in described]:
            raise ToolError("transfer.input", f'the source has no column "{self._cursor}" to be its cursor')
        return int(counted[0]["n"])

    async def _last(self, file: Path, column: str) -> list[dict[str, Any]]:
        (rows,) = await self._files.sql(_LAST.format(column=column, file=_text(file)))
        return rows

    async def _table(self, statement: Statement) -> Path:
        file = self._files.new()
        asked = {"command": Bound((statement,)), "query": None, "params": None, "table": None}
        await table_of(self._end, asked, file)
        return file


def _text(file: Path) -> str:
    return quoted(str(file))


class FileTables:
    """Rows of a file in Parquet, in chunks by their number. What the file holds is part of the position: after a crash
    a transfer goes on only in the same content."""

    def __init__(self, chunk_size: int, files: ChunkFiles) -> None:
        self._size, self._files = chunk_size, files

    async def chunks(self, position: TransferPosition) -> AsyncIterator[TableChunk]:
        if position.end:
            return
        file = self._files.new()
        await self._fetch(file)
        checksum, _ = await asyncio.to_thread(file_checksum, file)
        begin = self._begin(position, checksum)
        (rows,) = await self._files.sql(f"SELECT count(*) AS n FROM {scan(file)}")  # noqa: S608  a path of ours
        count = int(rows[0]["n"])
        while begin <= count:
            # One chunk is the file as it is: to write it once more would cost as much as to make it.
            part = file if count <= self._size else await self._part(file, begin)
            begin += self._size
            then = TransferPosition({"row": min(begin, count), "of": checksum}, end=begin >= count)
            chunk = await self._files.chunk(part, then)
            yield chunk
            chunk.file.unlink(missing_ok=True)
            if then.end:
                return

    async def _part(self, file: Path, begin: int) -> Path:
        part = self._files.new()
        rest = f"WHERE file_row_number >= {begin} AND file_row_number < {begin + self._size}"
        numbered = f"read_parquet({_text(file)}, file_row_number = true)"
        query = f"SELECT * EXCLUDE (file_row_number) FROM {numbered} {rest}"  # noqa: S608
        await self._files.sql(copy_to(part, query))
        return part

    async def _fetch(self, into: Path) -> None:
        raise NotImplementedError

    @staticmethod
    def _begin(position: TransferPosition, checksum: str) -> int:
        if position.at is None:
            return 0
        if not isinstance(position.at, dict) or position.at.get("of") != checksum:
            raise ToolError("transfer.input", "the source has changed since this transfer began, so it cannot go on")
        return int(position.at["row"])


class StoredTables(FileTables):
    """A table that an earlier task has kept."""

    def __init__(self, end: TransferEnd, chunk_size: int, files: ChunkFiles) -> None:
        super().__init__(chunk_size, files)
        self._end = end

    async def _fetch(self, into: Path) -> None:
        await fetched_table(self._end.said.get("ref"), self._end.context, into)


class ObjectTables(FileTables):
    """An object or a file: Parquet as it is, anything else that `convert` reads as it would be converted."""

    def __init__(self, end: TransferEnd, chunk_size: int, files: ChunkFiles) -> None:
        super().__init__(chunk_size, files)
        if not isinstance(end.said.get("url"), str):
            raise ToolError(
                "transfer.input", 'a storage source needs "url": s3://bucket/key, or a file in a data folder'
            )
        self._end = end

    async def _fetch(self, into: Path) -> None:
        said, context = self._end.said, self._end.context
        assert context.tool is not None
        within = msgspec.structs.replace(context, data_folders=(*context.data_folders, str(into.parent)), spec={})
        url, auth = str(said["url"]), {"auth": said["auth"]} if said.get("auth") is not None else {}
        if format_of(said) == "parquet":
            source = url if "://" in url or url.startswith("file:") else f"file:{url}"
            copy = {"op": "copy", "url": source, "target": {"url": f"file:{into}"}, **auth}
            await context.tool("storage").run(copy, within)
            return
        options = {name: value for name, value in said.items() if name not in ("kind", "type", "auth", "cursor")}
        await context.tool("convert").run({"source": options, "target": str(into), **auth}, within)


def format_of(said: Any) -> str:
    """The format of an object, as its end says or its name does."""
    if said.get("format"):
        return str(said["format"])
    name = urlsplit(str(said.get("url"))).path.lower()
    for ending in (".gz", ".bz2", ".xz"):
        name = name.removesuffix(ending)
    return name.rpartition(".")[2]
