"""`transfer`: moves rows from a source to a target, chunk by chunk.

If the target is a table, a repeated run continues after the last recorded chunk, and no row is moved twice. To an HTTP
endpoint or an artifact it starts again, with the same keys and contents. Each end uses the tool of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contract import OutputWriter, OwningTool, ToolContext, ToolResult
from noetl.tools.input_shapes import whole_number
from noetl.tools.table_files import TableFiles, table_folder, table_in
from noetl.tools.transfer import contract, table_ends
from noetl.tools.transfer.row_ends import ArtifactSource, ArtifactTarget, HttpSource, HttpTarget, SqlSource, SqlTarget

CHUNK_SIZE = 1_000
TABLE_CHUNK_SIZE = 100_000  # rows in a chunk that is a file
KINDS = ("postgres", "duckdb", "sql", "snowflake", "storage", "http", "artifact")
_ROW_KINDS = ("http", "artifact")  # rows in a chunk that is JSON
MODES = ("append", "replace", "upsert")
_MODE_ALIASES = {"insert": "append", "merge": "upsert"}  # of the SQL kinds
_MAX_REPORT_LINES = 200  # of the report of progress


class TransferTool(OwningTool):
    """The tool of the kind `transfer`."""

    def __init__(self) -> None:
        self._tables = TableFiles()
        super().__init__(self._tables)

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if _moves_tables(inputs, context):
            return await self._move_tables(inputs, context)
        size = _chunk_size(inputs.get("chunk_size"), CHUNK_SIZE)
        source, target = _source(inputs.get("source"), size, context), _target(inputs, context)
        transfer = _RunningTransfer(target, size, inputs.get("mapping"), context.live.write_output)
        try:
            await transfer.resume()
            async for chunk in source.chunks(transfer.progress.position):
                await transfer.take(chunk)
        except ToolError as problem:
            raise transfer.with_progress(problem) from problem
        return await transfer.result()

    async def _move_tables(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Move the rows in chunks that are files: no row is in the memory of this process."""
        size = _chunk_size(inputs.get("chunk_size"), TABLE_CHUNK_SIZE)
        with table_folder() as folder:
            files = contract.ChunkFiles(folder, self._tables, context.task_run.execution_id, inputs.get("mapping"))
            source = _table_source(inputs.get("source"), size, context, files)
            target = _table_target(inputs, context, files, self._tables)
            transfer = _RunningTableTransfer(target, size, inputs.get("mapping"), context.live.write_output)
            try:
                await transfer.resume()
                async for chunk in source.chunks(transfer.progress.position):
                    await transfer.take_table(chunk)
                return await transfer.result()
            except ToolError as problem:
                raise transfer.with_progress(problem) from problem


class _RunningTransfer:
    """The state of one running transfer."""

    def __init__(
        self,
        target: contract.TransferTarget | contract.TableTarget,
        size: int,
        mapping: Any,
        write_output: OutputWriter | None,
    ) -> None:
        self._target: Any = target
        self._size, self._mapping, self._write_output = size, mapping, write_output
        self._lines: list[str] = []
        self.progress = contract.TransferProgress()

    async def resume(self) -> None:
        self.progress = await self._target.progress()
        if self.progress.writes:
            self._add_line(f"resumed after {self.progress.rows} rows in {self.progress.chunks} chunks")

    async def take(self, chunk: contract.Chunk) -> None:
        # An empty chunk after others changes nothing. The first one is written, since `replace` has to empty the table.
        if not chunk.rows and self.progress.writes:
            return
        rows = contract.renamed(chunk.rows, self._mapping)
        parts = list(contract.pieces(rows, self._size))
        self.progress = await self._written(parts, rows, chunk)
        self._add_line(f"{len(rows)} rows, {self.progress.rows} in {self.progress.chunks} chunks so far")

    def _add_line(self, line: str) -> None:
        self._lines = [*self._lines[-_MAX_REPORT_LINES:], line]
        if self._write_output is not None:
            self._write_output(f"{line}\n".encode())

    async def _written(
        self, parts: list[contract.Rows], rows: contract.Rows, chunk: contract.Chunk
    ) -> contract.TransferProgress:
        before = self.progress
        after = contract.TransferProgress(
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
        """The error with the progress of the transfer."""
        moved = self.progress
        after = f" (after {moved.rows} rows in {moved.chunks} chunks)" if moved.writes else ""
        failure = ToolError(problem.kind, problem.message + after, retryable=problem.retryable)
        failure.details.update(problem.details, rows=moved.rows, chunks=moved.chunks, stdout="\n".join(self._lines))
        return failure


class _RunningTableTransfer(_RunningTransfer):
    async def take_table(self, chunk: contract.TableChunk) -> None:
        before = self.progress
        if not chunk.rows and before.writes:
            return
        after = contract.TransferProgress(
            rows=before.rows + chunk.rows,
            # Rounded up: a query without a cursor is one file of any size, and counts as the equivalent number of
            # chunks.
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
        outcome = await super().result()
        return msgspec.structs.replace(outcome, result={**outcome.result, "checksum": f"{self.progress.checksum:016x}"})


def _moves_tables(inputs: Mapping[str, Any], context: ToolContext) -> bool:
    """Whether both ends can read or write files of rows. Without DuckDB, only rows that fit into results can be
    moved."""
    source = contract.end_of("source", inputs.get("source"), KINDS, context)
    target = contract.end_of("target", inputs.get("target"), KINDS, context)
    needs = {source.kind, target.kind} & {"sql", "snowflake", "storage"}
    if not needs and find_spec("duckdb") is None:
        return False
    reads = source.kind not in _ROW_KINDS or (
        source.kind == "artifact" and table_in(source.options.get("ref")) is not None
    )
    writes = target.kind not in _ROW_KINDS or (target.kind == "artifact" and target.options.get("format") == "parquet")
    if needs and not (reads and writes):
        other = source.kind if not reads else target.kind
        raise ToolError("transfer.input", f"rows of {other} are JSON, and {min(needs)} moves tables: go by duckdb")
    return reads and writes


def _table_source(written: Any, size: int, context: ToolContext, files: contract.ChunkFiles) -> contract.TableSource:
    end = contract.end_of("source", written, KINDS, context)
    match end.kind:
        case "artifact":
            return table_ends.StoredTables(end, size, files)
        case "storage":
            return table_ends.ObjectTables(end, size, files)
        case _:
            return table_ends.QueryTables(end, size, files)


def _table_target(
    inputs: Mapping[str, Any], context: ToolContext, files: contract.ChunkFiles, tables: TableFiles
) -> contract.TableTarget:
    end = contract.end_of("target", inputs.get("target"), KINDS, context)
    mode, key = _mode(inputs, end), inputs.get("key") or end.options.get("key")
    match end.kind:
        case "artifact":
            return table_ends.TableArtifact(end, mode, files, tables)
        case "storage":
            return table_ends.ObjectTarget(end, mode, files)
        case "duckdb":
            return table_ends.DuckdbTable(end, mode, key, files)
        case _:
            return table_ends.LoadedTable(end, mode, key, files)


def _source(written: Any, size: int, context: ToolContext) -> contract.TransferSource:
    end = contract.end_of("source", written, KINDS, context)
    match end.kind:
        case "http":
            return HttpSource(end)
        case "artifact":
            return ArtifactSource(end, size)
        case _:
            return SqlSource(end, size)


def _target(inputs: Mapping[str, Any], context: ToolContext) -> contract.TransferTarget:
    end = contract.end_of("target", inputs.get("target"), KINDS, context)
    mode = _mode(inputs, end)
    match end.kind:
        case "http":
            return HttpTarget(end, mode)
        case "artifact":
            return ArtifactTarget(end, mode)
        case _:
            return SqlTarget(end, mode, inputs.get("key") or end.options.get("key"))


def _mode(inputs: Mapping[str, Any], target: contract.TransferEnd) -> str:
    mode = str(inputs.get("mode") or target.options.get("mode") or "append")
    mode = _MODE_ALIASES.get(mode, mode)
    if mode not in MODES:
        raise ToolError("transfer.input", f'mode "{mode}" is not known: write {", ".join(MODES)}')
    return mode


def _chunk_size(written: Any, default: int) -> int:
    return whole_number(written, "chunk_size", default, error="transfer.input")
