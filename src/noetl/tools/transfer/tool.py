"""`transfer`: moves rows from a source to a target, chunk by chunk.

Where the target is a table, a repeated run goes on after the last chunk that it holds, and no row is moved twice; to an
HTTP endpoint or an artifact it begins anew, with the same keys and the same contents. What the ends are asked, they are
asked through the tools of their own kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contract import Printed, ToolContext, ToolResult
from noetl.tools.transfer.calls import end_of
from noetl.tools.transfer.contract import Chunk, Rows, TransferProgress, TransferSource, TransferTarget, pieces, renamed
from noetl.tools.transfer.sources import ArtifactSource, HttpSource, SqlSource
from noetl.tools.transfer.targets import ArtifactTarget, HttpTarget, SqlTarget

CHUNK_SIZE = 1_000
KINDS = ("postgres", "duckdb", "http", "artifact")
MODES = ("append", "replace", "upsert")
_OTHER_WORDS = {"insert": "append", "merge": "upsert"}  # of the SQL kinds
_LINES = 200  # of the report of progress


class TransferTool:
    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        size = _chunk_size(inputs.get("chunk_size"))
        source, target = _source(inputs.get("source"), size, context), _target(inputs, context)
        moving = _Moving(target, size, inputs.get("mapping"), context.printed)
        try:
            await moving.resume()
            async for chunk in source.chunks(moving.progress.position):
                await moving.take(chunk)
        except ToolError as problem:
            raise moving.with_progress(problem) from problem
        return await moving.result()

    async def close(self) -> None:
        """Nothing is open: the tools of the ends are the registry's."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


class _Moving:
    """One transfer on its way."""

    def __init__(self, target: TransferTarget, size: int, mapping: Any, printed: Printed | None) -> None:
        self._target, self._size, self._mapping, self._printed = target, size, mapping, printed
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
    mode = str(inputs.get("mode") or end.said.get("mode") or "append")
    mode = _OTHER_WORDS.get(mode, mode)
    if mode not in MODES:
        raise ToolError("transfer.input", f'mode "{mode}" is not known: write {", ".join(MODES)}')
    match end.kind:
        case "http":
            return HttpTarget(end, mode)
        case "artifact":
            return ArtifactTarget(end, mode)
        case _:
            return SqlTarget(end, mode, inputs.get("key") or end.said.get("key"))


def _chunk_size(written: Any) -> int:
    if written is None:
        return CHUNK_SIZE
    if isinstance(written, bool) or not isinstance(written, int) or written < 1:
        raise ToolError("transfer.input", f'chunk_size "{written}" is not a number of rows')
    return written
