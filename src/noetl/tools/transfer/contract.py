"""What the two ends of a transfer promise each other.

A source gives chunks, each with the position where the next one begins; a target writes a chunk and, where it can,
records that position in the same transaction, so that a repeated run goes on there and moves nothing twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

import msgspec

Rows = list[dict[str, Any]]


class TransferPosition(msgspec.Struct, frozen=True):
    """Where in the source the next chunk begins: `at` is the source's own word for it, None for the beginning."""

    at: Any = None
    end: bool = False


class Chunk(msgspec.Struct, frozen=True):
    rows: Rows
    then: TransferPosition


class TransferProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a transfer has come. `writes` counts what was written as a whole, `size` the bytes of rows as JSON."""

    rows: int = 0
    chunks: int = 0
    writes: int = 0
    size: int = 0
    position: TransferPosition = TransferPosition()


class TransferSource(Protocol):
    def chunks(self, position: TransferPosition) -> AsyncIterator[Chunk]:
        """The chunks from `position` on. The last one ends at a position with `end`."""


class TransferTarget(Protocol):
    async def progress(self) -> TransferProgress:
        """How far this transfer has come before, as far as the target knows."""

    async def write(self, pieces: list[Rows], progress: TransferProgress) -> None:
        """Write rows, all or none, and record `progress`, which counts them in."""

    async def reference(self, progress: TransferProgress) -> Mapping[str, Any]:
        """Where the rows are now (RES-05)."""
