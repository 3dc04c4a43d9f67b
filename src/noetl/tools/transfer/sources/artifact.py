"""Rows of an artifact: a list in the results store, or the parts that another transfer put there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from noetl.tools.artifact.references import loaded
from noetl.tools.transfer.calls import TransferEnd
from noetl.tools.transfer.contract import Chunk, TransferPosition
from noetl.tools.transfer.rows import rows_in
from noetl.tools.transfer.targets.artifact import parts_of


class ArtifactSource:
    """Its content never changes, so a number of rows is position enough."""

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
