"""The contract of the two ends of a transfer, and how an end calls the tool of its kind.

A source yields chunks, each with the position where the next one begins. A target writes a chunk and, if it can,
records that position in the same transaction, so that a repeated run continues there and moves no row twice. A chunk
is a list of rows, or a file: a Parquet file, described by its columns, its number of rows and the sum of the hashes of
its rows, which does not depend on order.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from noetl.base.errors import ToolError
from noetl.engine.pipeline.patches import at_path
from noetl.events.outcomes import Reference
from noetl.store.results.files import table_reference
from noetl.templates.sql.statements import Bound, Statement, quoted_name
from noetl.tools.contract import ToolContext
from noetl.tools.table_files import TableFiles
from noetl.tools.table_sql import TypedColumn, copy_to, scan

Rows = list[dict[str, Any]]
# Inputs of an end that are meant for the transfer. The tool of the end does not know them and would refuse them.
_TRANSFER_KEYS = frozenset({"kind", "type", "rows", "page", "cursor", "rows_key", "ref", "format"})
# Options of the transfer as a whole. If they were applied to one of its calls, that call would count as the whole
# transfer.
_TRANSFER_OPTIONS = frozenset({"exactly_once", "transaction", "retry", "async"})


class TransferPosition(msgspec.Struct, frozen=True):
    """Where in the source the next chunk begins. `at` is a value of the source; None is the beginning."""

    at: Any = None
    end: bool = False


class Chunk(msgspec.Struct, frozen=True):
    rows: Rows
    then: TransferPosition


class TransferProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a transfer. A database target stores it as JSON in the transaction of the rows."""

    rows: int = 0
    chunks: int = 0
    writes: int = 0  # number of transactions
    size: int = 0  # bytes of the chunks, as JSON or Parquet
    # The sum of the hashes of all rows, if known. A sum does not depend on the order of rows or the size of chunks.
    checksum: int = 0
    position: TransferPosition = TransferPosition()


class TransferSource(Protocol):
    def chunks(self, position: TransferPosition) -> AsyncIterator[Chunk]:
        """The chunks from `position` on. The last chunk ends at a position with `end`."""


class TransferTarget(Protocol):
    async def progress(self) -> TransferProgress:
        """The progress of earlier runs of this transfer, as recorded by the target."""

    async def write(self, pieces: list[Rows], progress: TransferProgress) -> None:
        """Write rows, all or none, and record `progress`, which includes them."""

    async def reference(self, progress: TransferProgress) -> Mapping[str, Any]:
        """Where the rows are now (RES-05)."""


def rows_in(value: Any, path: Any, what: str) -> Rows:
    """The list of rows in `value`, at the dotted `path`, or all of it."""
    found = at_path(value, str(path)) if path else value
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        where = f'at "{path}" there' if path else "it"
        raise ToolError(
            "transfer.input",
            f"{what} gave no list of rows: {where} is {_kind(found)}; name their path with source.rows",
        )
    return found


def renamed(rows: Rows, mapping: Any) -> Rows:
    """Rows with the columns that `mapping` names, source to target; all of them without one."""
    names = renamed_columns(list(rows[0]) if rows else None, mapping)
    return rows if names is None else [{to: row.get(name) for name, to in names.items()} for row in rows]


def pieces(rows: Rows, size: int) -> Iterator[Rows]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _kind(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case list():
            return "a list of something else"
        case dict():
            return f"a mapping with {', '.join(map(str, list(value)[:8])) or 'nothing in it'}"
        case _:
            return type(value).__name__


class TransferEnd(msgspec.Struct, frozen=True):
    """One end of a transfer: its kind, its inputs in the playbook, and the context of the transfer."""

    kind: str
    options: Mapping[str, Any]
    context: ToolContext

    async def call(self, inputs: Mapping[str, Any], *, key: str | None = None) -> Any:
        """The result of a call of the tool, with `inputs` over those of the end. `key` makes the idempotency key unique
        within the transfer."""
        if self.context.tool is None:
            raise ToolError("transfer.input", "there are no other tools here")
        base = {name: value for name, value in self.options.items() if name not in _TRANSFER_KEYS}
        spec = {name: value for name, value in self.context.spec.items() if name not in _TRANSFER_OPTIONS}
        # Each chunk is an effect of its own: with one key for all of them, an endpoint would take the second chunk for
        # a repetition of the first.
        task_run = self.context.task_run
        if key is not None:
            task_run = msgspec.structs.replace(task_run, idempotency_key=f"{task_run.idempotency_key}/{key}")
        context = msgspec.structs.replace(self.context, spec=spec, task_run=task_run)
        return (await self.context.tool(self.kind).run({**base, **inputs}, context)).result

    async def run_sql(self, statements: tuple[Statement, ...]) -> Any:
        """The result of SQL of our own, in one transaction."""
        return await self.call({"command": Bound(statements), "query": None, "params": None, "table": None})


def end_of(name: str, written: Any, kinds: tuple[str, ...], context: ToolContext) -> TransferEnd:
    """An end of the transfer. Raises ToolError `transfer.input` for a kind that rows cannot move by."""
    if not isinstance(written, Mapping):
        raise ToolError("transfer.input", f"{name} must be a mapping such as {{kind: {kinds[0]}, …}}")
    kind = str(written.get("kind") or written.get("type") or "")
    if kind not in kinds:
        raise ToolError("transfer.input", f'{name}.kind "{kind}" is not one that rows can move by: {", ".join(kinds)}')
    return TransferEnd(kind, written, context)


# Sums of hashes are modulo this, since DuckDB's hashes have 64 bits.
_HASH_MODULUS = 1 << 64


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
        """The chunks from `position` on; the last chunk ends at a position with `end`. The file of a chunk is deleted
        when the next chunk is requested."""


class TableTarget(Protocol):
    async def progress(self) -> TransferProgress:
        """The progress of earlier runs of this transfer, as recorded by the target."""

    async def write(self, chunk: TableChunk, progress: TransferProgress) -> None:
        """Write the rows of a chunk, all or none, and record `progress`, which includes them."""

    async def reference(self, progress: TransferProgress) -> Mapping[str, Any]:
        """Called after the last chunk: where the rows are now (RES-05)."""


class ChunkFiles:
    """The files of one transfer in a folder of its own, and DuckDB's operations on them."""

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
        values = ", ".join(map(_hash_expression, shape.columns))
        # As text: the sum of many hashes is wider than an integer that JSON can carry.
        found = await self.sql(f"SELECT sum(hash({values}))::VARCHAR AS h FROM {scan(file)}")  # noqa: S608  quoted names
        checksum = int(found[0][0]["h"] or 0) % _HASH_MODULUS
        return TableChunk(file=file, columns=shape.columns, rows=shape.row_count, checksum=checksum, then=then)


def _hash_expression(column: TypedColumn) -> str:
    """A value for the checksum: 1.50 in one chunk and 1.5000 in another are the same number."""
    name = quoted_name(column.name)
    return f"CAST({name} AS DOUBLE)" if column.type.startswith("DECIMAL") else name


def renamed_columns(columns: list[str] | None, mapping: Any) -> dict[str, str] | None:
    """Target column by source column; None if all columns move under their own names. `columns` are those of the
    source, None if it returned no rows to tell them."""
    if mapping is None:
        return None
    if not isinstance(mapping, Mapping) or not mapping:
        raise ToolError("transfer.input", "mapping must say which source column becomes which target column")
    known = frozenset(columns or ())
    if columns is not None and (unknown := [str(name) for name in mapping if name not in known]):
        raise ToolError("transfer.input", f'the source has no column "{unknown[0]}"; it has {", ".join(columns)}')
    return {str(name): str(to) for name, to in mapping.items()}


async def table_of(end: TransferEnd, inputs: Mapping[str, Any], into: Path) -> None:
    """Have the tool of an end write its rows to a file, as for a task with `spec.rows: parquet`."""

    async def take(file: Path) -> Reference:
        shutil.move(file, into)
        return table_reference("", "0" * 64, 0)  # a placeholder: the file stays in this transfer

    context = msgspec.structs.replace(
        end.context,
        spec={**end.context.spec, "rows": "parquet"},
        results=msgspec.structs.replace(end.context.results, keep_table=take),
        secret_forms=tuple,  # rows are moved unmasked; a stored result is masked then
    )
    await msgspec.structs.replace(end, context=context).call(inputs)
