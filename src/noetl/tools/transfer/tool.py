"""`transfer`: moves rows from a source to a target, chunk by chunk.

Where the target is a table, a repeated run goes on after the last chunk that it holds, and no row is moved twice; to an
HTTP endpoint or an artifact it begins anew, with the same keys and the same contents. What the ends are asked, they are
asked through the tools of their own kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contract import Printed, ToolContext, ToolResult
from noetl.tools.tables.files import TableFiles
from noetl.tools.tables.stored import table_folder, table_in
from noetl.tools.transfer.contract import (
    Chunk,
    Rows,
    TransferEnd,
    TransferProgress,
    TransferSource,
    TransferTarget,
    end_of,
    pieces,
    renamed,
)
from noetl.tools.transfer.sources import ArtifactSource, HttpSource, SqlSource
from noetl.tools.transfer.table_ends import ChunkFiles, TableChunk, TableSource, TableTarget
from noetl.tools.transfer.table_sources import ObjectTables, QueryTables, StoredTables
from noetl.tools.transfer.table_targets import DuckdbTable, LoadedTable, ObjectTarget, TableArtifact
from noetl.tools.transfer.targets import ArtifactTarget, HttpTarget, SqlTarget

CHUNK_SIZE = 1_000
TABLE_CHUNK_SIZE = 100_000  # of chunks that are files
KINDS = ("postgres", "duckdb", "sql", "snowflake", "storage", "http", "artifact")
_ROW_KINDS = ("http", "artifact")  # whose rows are JSON
MODES = ("append", "replace", "upsert")
_OTHER_WORDS = {"insert": "append", "merge": "upsert"}  # of the SQL kinds
_LINES = 200  # of the report of progress


class TransferTool:
    def __init__(self) -> None:
        self._tables = TableFiles()

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if _moves_tables(inputs, context):
            return await self._move_tables(inputs, context)
        size = _chunk_size(inputs.get("chunk_size"), CHUNK_SIZE)
        source, target = _source(inputs.get("source"), size, context), _target(inputs, context)
        moving = _Moving(target, size, inputs.get("mapping"), context.printed)
        try:
            await moving.resume()
            async for chunk in source.chunks(moving.progress.position):
                await moving.take(chunk)
        except ToolError as problem:
            raise moving.with_progress(problem) from problem
        return await moving.result()

    async def _move_tables(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """The same with chunks that are files: no row of them is in this process."""
        size = _chunk_size(inputs.get("chunk_size"), TABLE_CHUNK_SIZE)
        with table_folder() as folder:
            files = ChunkFiles(folder, self._tables, context.execution_id, inputs.get("mapping"))
            source = _table_source(inputs.get("source"), size, context, files)
            target = _table_target(inputs, context, files, self._tables)
            moving = _MovingTables(target, size, inputs.get("mapping"), context.printed)
            try:
                await moving.resume()
                async for chunk in source.chunks(moving.progress.position):
                    await moving.take_table(chunk)
                return await moving.result()
            except ToolError as problem:
                raise moving.with_progress(problem) from problem

    def release(self, execution_id: str) -> None:
        self._tables.release(execution_id)

    async def close(self) -> None:
        await self._tables.close()  # the tools of the ends are the registry's

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


class _Moving:
    """One transfer on its way."""

    def __init__(self, target: TransferTarget | TableTarget, size: int, mapping: Any, printed: Printed | None) -> None:
        self._target: Any = target
        self._size, self._mapping, self._printed = size, mapping, printed
        self._lines: list[str] = []
        self.progress = TransferProgress()

    async def resume(self) -> None:
        self.progress = await self._target.progress()
        if self.progress.writes:
            self._add_line(f"resumed after {self.progress.rows} rows in {self.progress.chunks} chunks")

    async def take(self, chunk: Chunk) -> None:
        if not chunk.rows and self.progress.writes:
            return
        rows = renamed(chunk.rows, self._mapping)
        parts = list(pieces(rows, self._size))
        self.progress = await self._written(parts, rows, chunk)
        self._add_line(f"{len(rows)} rows, {self.progress.rows} in {self.progress.chunks} chunks so far")

    def _add_line(self, line: str) -> None:
        self._lines = [*self._lines[-_LINES:], line]
        if self._printed is not None:
            self._printed(f"{line}\n".encode())

    async def _written(self, parts: list[Rows], rows: Rows, chunk: Chunk) -> TransferProgress:
        before = self.progress
        after = TransferProgress(
            rows=before.rows + len(rows),
            chunks=before.chunks + len(parts),
            writes=before.writes + 1,
            size=before.size + len(msgspec.json.encode(rows)),
            position=chunk.then,
        )
        await self._target.write(parts, after)
        return after

    async def result(self) -> ToolResult:
        progress = self.progress
        result: dict[str, Any] = {
            "rows": progress.rows,
            "chunks": progress.chunks,
            "reference": await self._target.reference(progress),
        }
        if progress.position.at is not None:
            result["cursor"] = progress.position.at
        return ToolResult(result=result, stdout="\n".join(self._lines) or None)

    def with_progress(self, problem: ToolError) -> ToolError:
        """The problem, and how far it came."""
        moved = self.progress
        after = f" (after {moved.rows} rows in {moved.chunks} chunks)" if moved.writes else ""
        told = ToolError(problem.kind, problem.message + after, retryable=problem.retryable)
        told.details.update(problem.details, rows=moved.rows, chunks=moved.chunks, stdout="\n".join(self._lines))
        return told


class _MovingTables(_Moving):
    async def take_table(self, chunk: TableChunk) -> None:
        before = self.progress
        if not chunk.rows and before.writes:
            return
        after = TransferProgress(
            rows=before.rows + chunk.rows,
            chunks=before.chunks + -(-chunk.rows // self._size),
            writes=before.writes + 1,
            size=before.size + chunk.size,
            checksum=(before.checksum + chunk.checksum) % (1 << 64),
            position=chunk.then,
        )
        await self._target.write(chunk, after)
        self.progress = after
        self._add_line(f"{chunk.rows} rows, {after.rows} in {after.chunks} chunks so far")

    async def result(self) -> ToolResult:
        told = await super().result()
        return msgspec.structs.replace(told, result={**told.result, "checksum": f"{self.progress.checksum:016x}"})


def _moves_tables(inputs: Mapping[str, Any], context: ToolContext) -> bool:
    """Whether both ends can read or write files of rows. Without DuckDB only rows move that fit into results."""
    source = end_of("source", inputs.get("source"), KINDS, context)
    target = end_of("target", inputs.get("target"), KINDS, context)
    needs = {source.kind, target.kind} & {"sql", "snowflake", "storage"}
    if not needs and find_spec("duckdb") is None:
        return False
    reads = source.kind not in _ROW_KINDS or (
        source.kind == "artifact" and table_in(source.said.get("ref")) is not None
    )
    writes = target.kind not in _ROW_KINDS or (target.kind == "artifact" and target.said.get("format") == "parquet")
    if needs and not (reads and writes):
        other = source.kind if not reads else target.kind
        raise ToolError("transfer.input", f"rows of {other} are JSON, and {min(needs)} moves tables: go by duckdb")
    return reads and writes


def _table_source(written: Any, size: int, context: ToolContext, files: ChunkFiles) -> TableSource:
    end = end_of("source", written, KINDS, context)
    match end.kind:
        case "artifact":
            return StoredTables(end, size, files)
        case "storage":
            return ObjectTables(end, size, files)
        case _:
            return QueryTables(end, size, files)


def _table_target(
    inputs: Mapping[str, Any], context: ToolContext, files: ChunkFiles, tables: TableFiles
) -> TableTarget:
    end = end_of("target", inputs.get("target"), KINDS, context)
    mode, key = _mode(inputs, end), inputs.get("key") or end.said.get("key")
    match end.kind:
        case "artifact":
            return TableArtifact(end, mode, files, tables)
        case "storage":
            return ObjectTarget(end, mode, files)
        case "duckdb":
            return DuckdbTable(end, mode, key, files)
        case _:
            return LoadedTable(end, mode, key, files)


def _source(written: Any, size: int, context: ToolContext) -> TransferSource:
    end = end_of("source", written, KINDS, context)
    match end.kind:
        case "http":
            return HttpSource(end)
        case "artifact":
            return ArtifactSource(end, size)
        case _:
            return SqlSource(end, size)


def _target(inputs: Mapping[str, Any], context: ToolContext) -> TransferTarget:
    end = end_of("target", inputs.get("target"), KINDS, context)
    mode = _mode(inputs, end)
    match end.kind:
        case "http":
            return HttpTarget(end, mode)
        case "artifact":
            return ArtifactTarget(end, mode)
        case _:
            return SqlTarget(end, mode, inputs.get("key") or end.said.get("key"))


def _mode(inputs: Mapping[str, Any], target: TransferEnd) -> str:
    mode = str(inputs.get("mode") or target.said.get("mode") or "append")
    mode = _OTHER_WORDS.get(mode, mode)
    if mode not in MODES:
        raise ToolError("transfer.input", f'mode "{mode}" is not known: write {", ".join(MODES)}')
    return mode


def _chunk_size(written: Any, default: int) -> int:
    if written is None:
        return default
    if isinstance(written, bool) or not isinstance(written, int) or written < 1:
        raise ToolError("transfer.input", f'chunk_size "{written}" is not a number of rows')
    return written
