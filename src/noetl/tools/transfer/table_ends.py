"""Ends of a transfer whose chunks are Parquet files, so that no row becomes a Python object in the worker.

Sources: queries, objects and files, stored tables. Targets: tables of databases, objects and files, the results store.
A source writes each chunk to a file through the tool of its kind; a target loads the file through its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from noetl.base.errors import ToolError
from noetl.events.outcomes import PARQUET, Reference
from noetl.store.results.files import file_checksum
from noetl.templates.sql.statements import Bound, Statement, quoted, quoted_name
from noetl.tools.sql.requests import conflict_clause
from noetl.tools.table_files import RowLoad, TableFiles, fetched_table, store_table
from noetl.tools.table_sql import NULL, TypedColumn, copy_to, scan
from noetl.tools.transfer import contract
from noetl.tools.transfer.row_ends import SqlSource, SqlTarget

_LAST = "SELECT {column} AS c FROM read_parquet({file}, file_row_number = true) ORDER BY file_row_number DESC LIMIT 1"


class QueryTables(SqlSource):
    """Rows of a query. With `cursor` they come in chunks, each from its own query, and a repeated run continues after
    the last chunk. Without it they are one chunk of any size: two queries need not return rows in the same order."""

    def __init__(self, end: contract.TransferEnd, chunk_size: int, files: contract.ChunkFiles) -> None:
        super().__init__(end, chunk_size)
        self._files = files

    async def chunks(self, position: contract.TransferPosition) -> AsyncIterator[contract.TableChunk]:  # type: ignore[override]
        if self._cursor is None and not position.end:
            whole = await self._files.chunk(await self._table(self._query), contract.TransferPosition(end=True))
            yield whole
            whole.file.unlink(missing_ok=True)
            return
        if position == contract.TransferPosition():
            await self._refuse_nulls()
        while not position.end:
            file, position = await self._cut_chunk(await self._table(self._following(position)), position)
            chunk = await self._files.chunk(file, position)
            yield chunk
            chunk.file.unlink(missing_ok=True)

    async def _cut_chunk(self, file: Path, before: contract.TransferPosition) -> tuple[Path, contract.TransferPosition]:
        """The rows of a chunk, and where the next one begins. The query asks for one row more: rows with the same
        cursor value must stay in one chunk, since the next chunk begins after that value."""
        column = quoted_name(str(self._cursor))
        # No row beyond the size of a chunk: these are the last rows.
        if await self._counted(file) <= self._size:
            last = await self._last_row(file, column)
            return file, contract.TransferPosition(last[0]["c"] if last else before.at, end=True)
        kept = self._files.new()
        # All rows with the last cursor value are dropped, not only the last row: the next query begins after the last
        # value that is kept.
        condition = f"{column} IS DISTINCT FROM ({_LAST.format(column=column, file=_text(file))})"
        await self._files.sql(copy_to(kept, f"SELECT * FROM {scan(file)} WHERE {condition}"))  # noqa: S608
        file.unlink()
        last = await self._last_row(kept, column)
        if not last:
            message = (
                f'more than {self._size} rows share one value of "{self._cursor}": take a cursor with fewer, or a '
            )
            raise ToolError("transfer.input", message + "larger chunk_size")
        return kept, contract.TransferPosition(last[0]["c"])

    async def _counted(self, file: Path) -> int:
        counted, described = await self._files.sql(
            f"SELECT count(*) AS n FROM {scan(file)}",  # noqa: S608  a path of ours
            f"DESCRIBE SELECT * FROM {scan(file)}",  # noqa: S608
        )
        if str(self._cursor) not in [row["column_name"] for row in described]:
            raise ToolError("transfer.input", f'the source has no column "{self._cursor}" to be its cursor')
        return int(counted[0]["n"])

    async def _last_row(self, file: Path, column: str) -> list[dict[str, Any]]:
        (rows,) = await self._files.sql(_LAST.format(column=column, file=_text(file)))
        return rows

    async def _table(self, statement: Statement) -> Path:
        file = self._files.new()
        asked = {"command": Bound((statement,)), "query": None, "params": None, "table": None}
        await contract.table_of(self._end, asked, file)
        return file


def _text(file: Path) -> str:
    return quoted(str(file))


class FileTables:
    """Rows of a file in Parquet, in chunks by their number. A hash of the file is part of the position: after a
    crash a transfer resumes only with the same content."""

    def __init__(self, chunk_size: int, files: contract.ChunkFiles) -> None:
        self._size, self._files = chunk_size, files

    async def chunks(self, position: contract.TransferPosition) -> AsyncIterator[contract.TableChunk]:
        if position.end:
            return
        file = self._files.new()
        await self._fetch(file)
        checksum, _ = await asyncio.to_thread(file_checksum, file)
        begin = self._begin(position, checksum)
        (rows,) = await self._files.sql(f"SELECT count(*) AS n FROM {scan(file)}")  # noqa: S608  a path of ours
        count = int(rows[0]["n"])
        # Also for a file without rows: its one empty chunk tells the target the columns, and lets `replace` empty the
        # table.
        while begin <= count:
            # A single chunk is the file itself: writing it again would cost as much as making it.
            part = file if count <= self._size else await self._part(file, begin)
            begin += self._size
            then = contract.TransferPosition({"row": min(begin, count), "of": checksum}, end=begin >= count)
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
    def _begin(position: contract.TransferPosition, checksum: str) -> int:
        if position.at is None:
            return 0
        if not isinstance(position.at, dict) or position.at.get("of") != checksum:
            raise ToolError("transfer.input", "the source has changed since this transfer began, so it cannot go on")
        return int(position.at["row"])


class StoredTables(FileTables):
    """A table that an earlier task has stored."""

    def __init__(self, end: contract.TransferEnd, chunk_size: int, files: contract.ChunkFiles) -> None:
        super().__init__(chunk_size, files)
        self._end = end

    async def _fetch(self, into: Path) -> None:
        await fetched_table(self._end.options.get("ref"), self._end.context, into)


class ObjectTables(FileTables):
    """An object or a file: Parquet is read directly, other formats are converted as by the kind `convert`."""

    def __init__(self, end: contract.TransferEnd, chunk_size: int, files: contract.ChunkFiles) -> None:
        super().__init__(chunk_size, files)
        if not isinstance(end.options.get("url"), str):
            raise ToolError(
                "transfer.input", 'a storage source needs "url": s3://bucket/key, or a file in a data folder'
            )
        self._end = end

    async def _fetch(self, into: Path) -> None:
        options, context = self._end.options, self._end.context
        assert context.tool is not None
        within = msgspec.structs.replace(context.with_folder(str(into.parent)), spec={})
        url, auth = str(options["url"]), {"auth": options["auth"]} if options.get("auth") is not None else {}
        if format_of(options) == "parquet":
            source = url if "://" in url or url.startswith("file:") else f"file:{url}"
            copy = {"op": "copy", "url": source, "target": {"url": f"file:{into}"}, **auth}
            await context.tool("storage").run(copy, within)
            return
        options = {name: value for name, value in options.items() if name not in ("kind", "type", "auth", "cursor")}
        await context.tool("convert").run({"source": options, "target": str(into), **auth}, within)


def format_of(options: Any) -> str:
    """The format of an object: from its end, or from the ending of its name."""
    if options.get("format"):
        return str(options["format"])
    name = urlsplit(str(options.get("url"))).path.lower()
    for ending in (".gz", ".bz2", ".xz"):
        name = name.removesuffix(ending)
    return name.rpartition(".")[2]


_VIEW = "noetl_rows"
_FORMATS = {
    "parquet": "FORMAT parquet, ROW_GROUP_SIZE 100000",
    "csv": "FORMAT csv, HEADER true",
    "tsv": "FORMAT csv, HEADER true, DELIMITER '\t'",
    "json": "FORMAT json, ARRAY true",
    "jsonl": "FORMAT json",
    "ndjson": "FORMAT json",
}


class DuckdbTable(SqlTarget):
    """A table of DuckDB, which reads the file of a chunk itself."""

    def __init__(self, end: contract.TransferEnd, mode: str, key: Any, files: contract.ChunkFiles) -> None:
        super().__init__(end, mode, key)
        self._files = files

    async def write(self, chunk: contract.TableChunk, progress: contract.TransferProgress) -> None:  # type: ignore[override]
        statements = [*self._emptied(progress), self._inserted(chunk), self._record(progress)]

        async def copied(_: Reference, into: Path) -> None:
            into.hardlink_to(chunk.file)  # both folders are ours, and nothing writes to the file

        results = msgspec.structs.replace(self._end.context.results, fetch_table=copied)
        end = msgspec.structs.replace(self._end, context=msgspec.structs.replace(self._end.context, results=results))
        # A placeholder: `copied` hands over the file of the chunk, regardless of the reference.
        ref = {"media_type": PARQUET, "checksum": "0" * 64, "size": 0}
        await end.call(
            {"command": Bound(tuple(statements)), "query": None, "params": None, "table": None, "tables": {_VIEW: ref}}
        )

    def _emptied(self, progress: contract.TransferProgress) -> list[Statement]:
        if self._mode != "replace" or progress.writes != 1:
            return []
        return [Statement((f"DELETE FROM {self._table}",), "DELETE")]  # noqa: S608  a checked name

    def _inserted(self, chunk: contract.TableChunk) -> Statement:
        columns = [one.name for one in chunk.columns]
        names = ", ".join(map(quoted_name, columns))
        clause = conflict_clause(self._checked([dict.fromkeys(columns)]), columns)
        text = f"INSERT INTO {self._table} ({names}) SELECT {names} FROM {_VIEW}{clause}"  # noqa: S608  quoted names
        return Statement((text,), "INSERT")


class LoadedTable(DuckdbTable):
    """A table of PostgreSQL or of a database of `sql`: the tool of the kind loads the rows as text, in one transaction
    with the record of the progress."""

    async def write(self, chunk: contract.TableChunk, progress: contract.TransferProgress) -> None:  # type: ignore[override]
        is_postgres = self._end.kind == "postgres"
        file = self._files.new("csv" if is_postgres else "jsonl")
        form = _csv_options(chunk) if is_postgres else "FORMAT json"
        values = ", ".join(f"{_loaded(one, is_postgres)} AS {quoted_name(one.name)}" for one in chunk.columns)
        await self._files.sql(f"COPY (SELECT {values} FROM {scan(chunk.file)}) TO {quoted(str(file))} ({form})")  # noqa: S608
        try:
            await self._end.call({"load": self._load(chunk, file, progress), "table": None})
        finally:
            file.unlink(missing_ok=True)

    def _load(self, chunk: contract.TableChunk, file: Path, progress: contract.TransferProgress) -> RowLoad:
        return RowLoad(
            table=self._table,
            columns=tuple(one.name for one in chunk.columns),
            binary=tuple(one.name for one in chunk.columns if one.type == "BLOB"),
            file=file,
            key=self._checked([{"": None}]).key,
            empties=self._mode == "replace" and progress.writes == 1,
            then=(self._record(progress),),
        )


def _csv_options(chunk: contract.TableChunk) -> str:
    r"""Texts are quoted: PostgreSQL takes a line of `\.` alone for the end of all rows."""
    texts = ", ".join(quoted_name(one.name) for one in chunk.columns if one.type == "VARCHAR")
    return f"FORMAT csv, HEADER false, NULLSTR {quoted(NULL)}" + (f", FORCE_QUOTE ({texts})" if texts else "")


def _loaded(column: TypedColumn, is_postgres: bool) -> str:
    """A column as text that its target can read."""
    name = quoted_name(column.name)
    if column.type == "BLOB":
        return f"'\\x' || hex({name})" if is_postgres else f"hex({name})"
    if column.type.startswith(("STRUCT(", "MAP(", "UNION(")) or column.type.endswith("]"):
        return f"CAST(to_json({name}) AS VARCHAR)"
    if not is_postgres and column.type == "TIMESTAMP WITH TIME ZONE":
        return f"strftime({name}, '%Y-%m-%d %H:%M:%S.%f')"  # in UTC: not every database reads an offset
    if (not is_postgres and column.type.startswith("DECIMAL")) or column.type == "JSON":
        return f"CAST({name} AS VARCHAR)"
    return name


class ObjectTarget:
    """An object or a file. It is written once all chunks are there, whole or not at all. A repeated run starts from the
    beginning and finds nothing of the earlier run."""

    def __init__(self, end: contract.TransferEnd, mode: str, files: contract.ChunkFiles) -> None:
        if mode == "upsert":
            raise ToolError("transfer.input", "an object is written as a whole: mode upsert is for tables")
        if not isinstance(end.options.get("url"), str):
            raise ToolError(
                "transfer.input", 'a storage target needs "url": s3://bucket/key, or a file in a data folder'
            )
        self._format = format_of(end.options)
        if self._format not in _FORMATS:
            raise ToolError("transfer.input", f'format "{self._format}" is not known: write {", ".join(_FORMATS)}')
        self._end, self._files = end, files
        self._parts: list[Path] = []

    async def progress(self) -> contract.TransferProgress:
        return contract.TransferProgress()

    async def write(self, chunk: contract.TableChunk, progress: contract.TransferProgress) -> None:
        part = self._files.new("part")
        # A hard link: the source deletes the file of its chunk before it makes the next one.
        part.hardlink_to(chunk.file)
        self._parts.append(part)

    async def _whole(self) -> Path:
        """One file of all chunks. Chunks may differ in the scale of decimals: the wider one is taken."""
        if self._format == "parquet" and len(self._parts) == 1:
            return self._parts[0]  # used directly: writing it again would cost as much as making it
        whole = self._files.new("whole")
        names = ", ".join(quoted(str(part)) for part in self._parts)
        rows = f"SELECT * FROM read_parquet([{names}], union_by_name = true)"  # noqa: S608  paths of ours
        await self._files.sql(f"COPY ({rows}) TO {quoted(str(whole))} ({_FORMATS[self._format]})")
        for part in self._parts:
            part.unlink()
        return whole

    async def reference(self, progress: contract.TransferProgress) -> Mapping[str, Any]:
        file, context = await self._whole(), self._end.context
        assert context.tool is not None
        options, url = self._end.options, str(self._end.options["url"])
        target = {"url": url if "://" in url or url.startswith("file:") else f"file:{url}"}
        within = msgspec.structs.replace(context.with_folder(str(file.parent)), spec={})
        auth = {"auth": options["auth"]} if options.get("auth") is not None else {}
        copy = {"op": "copy", "url": f"file:{file}", "target": {**target, **auth}}
        done = (await context.tool("storage").run(copy, within)).result
        return {
            "store": "storage",
            "key": done["url"],
            "size": done["size"],
            "checksum": done["checksum"],
            "row_count": progress.rows,
        }


class TableArtifact(ObjectTarget):
    """The results store: a table, which the next task reads as a file."""

    def __init__(self, end: contract.TransferEnd, mode: str, files: contract.ChunkFiles, tables: TableFiles) -> None:
        if mode != "append":
            raise ToolError("transfer.input", f'an artifact cannot be changed: mode "{mode}" has no meaning there')
        self._end, self._files, self._tables = end, files, tables
        self._format, self._parts = "parquet", []

    async def reference(self, progress: contract.TransferProgress) -> Mapping[str, Any]:
        ref: Mapping[str, Any] = (await store_table(await self._whole(), self._end.context, self._tables))["ref"]
        return ref
