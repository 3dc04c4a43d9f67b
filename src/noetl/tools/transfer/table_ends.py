"""Ends of a transfer whose chunks are tables: files in Parquet, so that no row of them is an object in the worker.

A source writes each chunk to a file, by way of the tool of its kind; a target loads the file, by way of its own. What a
chunk holds is known by its columns, its number of rows and the sum of its rows' hashes, which is the same in whatever
order and chunks the rows come.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from noetl.base.errors import ToolError
from noetl.events.outcomes import Reference
from noetl.store.results.files import table_reference
from noetl.templates.sql.statements import quoted_name
from noetl.tools.tables.files import TableFiles
from noetl.tools.tables.table_sql import TypedColumn, copy_to, scan
from noetl.tools.transfer.contract import TransferEnd, TransferPosition, TransferProgress

# Sums of hashes are taken modulo this, as DuckDB's hashes have 64 bits.
_HASHES = 1 << 64


class TableChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Rows in a file, under the names of the target's columns."""

    file: Path
    columns: tuple[TypedColumn, ...]
    rows: int
    checksum: int
    then: TransferPosition

    @property
    def size(self) -> int:
        return self.file.stat().st_size


class TableSource(Protocol):
    def chunks(self, position: TransferPosition) -> AsyncIterator[TableChunk]:
        """The chunks from `position` on; the last one ends at a position with `end`. A chunk's file is gone when the
        next one is asked for."""


class TableTarget(Protocol):
    async def progress(self) -> TransferProgress:
        """How far this transfer has come before, as far as the target knows."""

    async def write(self, chunk: TableChunk, progress: TransferProgress) -> None:
        """Write the rows of a chunk, all or none, and record `progress`, which counts them in."""

    async def reference(self, progress: TransferProgress) -> Mapping[str, Any]:
        """All chunks are written: where the rows are now (RES-05)."""


class ChunkFiles:
    """The files of one transfer, in a folder of its own, and what DuckDB does with them."""

    def __init__(self, folder: Path, files: TableFiles, owner: str, mapping: Any) -> None:
        self.folder, self._files, self._owner, self._mapping = folder, files, owner, mapping
        self._number = 0

    def new(self, ending: str = "parquet") -> Path:
        self._number += 1
        return self.folder / f"chunk-{self._number}.{ending}"

    async def sql(self, *statements: str) -> list[list[dict[str, Any]]]:
        return [one.rows for one in await self._files.sql(self._owner, self.folder, *statements)]

    async def chunk(self, file: Path, then: TransferPosition) -> TableChunk:
        """The file as a chunk, its columns chosen and renamed by the mapping of the transfer."""
        shape = await self._files.shape(self._owner, file)
        names = renamed_columns([one.name for one in shape.columns], self._mapping)
        if names is not None:
            chosen = ", ".join(f"{quoted_name(name)} AS {quoted_name(to)}" for name, to in names.items())
            renamed = self.new()
            await self.sql(copy_to(renamed, f"SELECT {chosen} FROM {scan(file)}"))  # noqa: S608  names are quoted
            file.unlink()
            file, shape = renamed, await self._files.shape(self._owner, renamed)
        values = ", ".join(map(_hashed, shape.columns))
        found = await self.sql(f"SELECT sum(hash({values}))::VARCHAR AS h FROM {scan(file)}")  # noqa: S608  quoted names
        checksum = int(found[0][0]["h"] or 0) % _HASHES
        return TableChunk(file=file, columns=shape.columns, rows=shape.row_count, checksum=checksum, then=then)


def _hashed(column: TypedColumn) -> str:
    """A value as it counts in the checksum: 1.50 in one chunk and 1.5000 in another are the same number."""
    name = quoted_name(column.name)
    return f"CAST({name} AS DOUBLE)" if column.type.startswith("DECIMAL") else name


def renamed_columns(columns: list[str], mapping: Any) -> dict[str, str] | None:
    """Target column by source column; None where all of them move under their names."""
    if mapping is None:
        return None
    if not isinstance(mapping, Mapping) or not mapping:
        raise ToolError("transfer.input", "mapping must say which source column becomes which target column")
    if unknown := [str(name) for name in mapping if name not in columns]:
        raise ToolError("transfer.input", f'the source has no column "{unknown[0]}"; it has {", ".join(columns)}')
    return {str(name): str(to) for name, to in mapping.items()}


async def table_of(end: TransferEnd, inputs: Mapping[str, Any], into: Path) -> None:
    """Have the tool of an end write its rows to a file, as a task with `spec.rows: parquet` would."""

    async def take(file: Path) -> Reference:
        shutil.move(file, into)
        return table_reference("", "0" * 64, 0)  # nobody reads it: the file stays in this transfer

    context = msgspec.structs.replace(
        end.context,
        spec={**end.context.spec, "rows": "parquet"},
        keep_table=take,
        secret_forms=tuple,  # rows go from place to place as they are; what is stored as a result is masked then
    )
    await msgspec.structs.replace(end, context=context).call(inputs)
