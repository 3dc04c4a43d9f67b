"""Where chunks of tables go: tables of databases, objects and files, the results store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.events.outcomes import PARQUET, Reference
from noetl.templates.sql.statements import Bound, Statement, quoted, quoted_name
from noetl.tools.sql.requests import conflict_clause
from noetl.tools.tables.files import TableFiles
from noetl.tools.tables.stored import RowLoad, store_table
from noetl.tools.tables.table_sql import NULL, TypedColumn, scan
from noetl.tools.transfer.contract import TransferEnd, TransferProgress
from noetl.tools.transfer.table_ends import ChunkFiles, TableChunk
from noetl.tools.transfer.table_sources import format_of
from noetl.tools.transfer.targets import SqlTarget

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
    """A table of DuckDB reads the file itself."""

    def __init__(self, end: TransferEnd, mode: str, key: Any, files: ChunkFiles) -> None:
        super().__init__(end, mode, key)
        self._files = files

    async def write(self, chunk: TableChunk, progress: TransferProgress) -> None:  # type: ignore[override]
        statements = [*self._emptied(progress), self._inserted(chunk), self._record(progress)]

        async def copied(_: Reference, into: Path) -> None:
            into.hardlink_to(chunk.file)  # both are folders of ours; nothing writes to it

        end = msgspec.structs.replace(self._end, context=msgspec.structs.replace(self._end.context, fetch_table=copied))
        ref = {"media_type": PARQUET, "checksum": "0" * 64, "size": 0}
        await end.call(
            {"command": Bound(tuple(statements)), "query": None, "params": None, "table": None, "tables": {_VIEW: ref}}
        )

    def _emptied(self, progress: TransferProgress) -> list[Statement]:
        if self._mode != "replace" or progress.writes != 1:
            return []
        return [Statement((f"DELETE FROM {self._table}",), "DELETE")]  # noqa: S608  a checked name

    def _inserted(self, chunk: TableChunk) -> Statement:
        columns = [one.name for one in chunk.columns]
        names = ", ".join(map(quoted_name, columns))
        clause = conflict_clause(self._checked([dict.fromkeys(columns)]), columns)
        text = f"INSERT INTO {self._table} ({names}) SELECT {names} FROM {_VIEW}{clause}"  # noqa: S608  quoted names
        return Statement((text,), "INSERT")


class LoadedTable(DuckdbTable):
    """A table of PostgreSQL or of a database of `sql`: the tool of the kind loads a text of the rows, in one
    transaction with the record of the progress."""

    async def write(self, chunk: TableChunk, progress: TransferProgress) -> None:  # type: ignore[override]
        is_postgres = self._end.kind == "postgres"
        file = self._files.new("csv" if is_postgres else "jsonl")
        form = _csv_options(chunk) if is_postgres else "FORMAT json"
        values = ", ".join(f"{_loaded(one, is_postgres)} AS {quoted_name(one.name)}" for one in chunk.columns)
        await self._files.sql(f"COPY (SELECT {values} FROM {scan(chunk.file)}) TO {quoted(str(file))} ({form})")  # noqa: S608
        try:
            await self._end.call({"load": self._load(chunk, file, progress), "table": None})
        finally:
            file.unlink(missing_ok=True)

    def _load(self, chunk: TableChunk, file: Path, progress: TransferProgress) -> RowLoad:
        return RowLoad(
            table=self._table,
            columns=tuple(one.name for one in chunk.columns),
            binary=tuple(one.name for one in chunk.columns if one.type == "BLOB"),
            file=file,
            key=self._checked([{"": None}]).key,
            empties=self._mode == "replace" and progress.writes == 1,
            then=(self._record(progress),),
        )


def _csv_options(chunk: TableChunk) -> str:
    """Texts in quotes: PostgreSQL takes a line of `\\.` alone for the end of all rows."""
    texts = ", ".join(quoted_name(one.name) for one in chunk.columns if one.type == "VARCHAR")
    return f"FORMAT csv, HEADER false, NULLSTR {quoted(NULL)}" + (f", FORCE_QUOTE ({texts})" if texts else "")


def _loaded(column: TypedColumn, is_postgres: bool) -> str:
    """A column as text that its target reads."""
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
    """An object or a file. It is written when all chunks are there, whole or not at all, so that a repeated run begins
    anew and finds nothing of the first."""

    def __init__(self, end: TransferEnd, mode: str, files: ChunkFiles) -> None:
        if mode == "upsert":
            raise ToolError("transfer.input", "an object is written as a whole: mode upsert is for tables")
        if not isinstance(end.said.get("url"), str):
            raise ToolError(
                "transfer.input", 'a storage target needs "url": s3://bucket/key, or a file in a data folder'
            )
        self._format = format_of(end.said)
        if self._format not in _FORMATS:
            raise ToolError("transfer.input", f'format "{self._format}" is not known: write {", ".join(_FORMATS)}')
        self._end, self._files = end, files
        self._parts: list[Path] = []

    async def progress(self) -> TransferProgress:
        return TransferProgress()

    async def write(self, chunk: TableChunk, progress: TransferProgress) -> None:
        part = self._files.new("part")
        part.hardlink_to(chunk.file)
        self._parts.append(part)

    async def _whole(self) -> Path:
        """One file of all chunks. Chunks may differ in the scale of decimals: the wider one is taken."""
        if self._format == "parquet" and len(self._parts) == 1:
            return self._parts[0]  # as it is: to write it once more would cost as much as to make it
        whole = self._files.new("whole")
        names = ", ".join(quoted(str(part)) for part in self._parts)
        rows = f"SELECT * FROM read_parquet([{names}], union_by_name = true)"  # noqa: S608  paths of ours
        await self._files.sql(f"COPY ({rows}) TO {quoted(str(whole))} ({_FORMATS[self._format]})")
        for part in self._parts:
            part.unlink()
        return whole

    async def reference(self, progress: TransferProgress) -> Mapping[str, Any]:
        file, context = await self._whole(), self._end.context
        assert context.tool is not None
        said, url = self._end.said, str(self._end.said["url"])
        target = {"url": url if "://" in url or url.startswith("file:") else f"file:{url}"}
        within = msgspec.structs.replace(context, data_folders=(*context.data_folders, str(file.parent)), spec={})
        auth = {"auth": said["auth"]} if said.get("auth") is not None else {}
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

    def __init__(self, end: TransferEnd, mode: str, files: ChunkFiles, tables: TableFiles) -> None:
        if mode != "append":
            raise ToolError("transfer.input", f'an artifact cannot be changed: mode "{mode}" has no meaning there')
        self._end, self._files, self._tables = end, files, tables
        self._format, self._parts = "parquet", []

    async def reference(self, progress: TransferProgress) -> Mapping[str, Any]:
        ref: Mapping[str, Any] = (await store_table(await self._whole(), self._end.context, self._tables))["ref"]
        return ref
