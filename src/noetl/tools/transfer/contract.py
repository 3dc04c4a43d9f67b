"""What the two ends of a transfer promise each other. Also how an end asks the tool of its kind.

A source gives chunks, each with the position where the next one begins; a target writes a chunk and, where it can,
records that position in the same transaction, so that a repeated run goes on there and moves nothing twice.
Rows are found in what a source gave, renamed, and cut into pieces.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from noetl.base.errors import ToolError
from noetl.engine.pipeline.patches import at_path
from noetl.templates.sql.statements import Bound, Statement
from noetl.tools.contract import ToolContext

Rows = list[dict[str, Any]]
_OURS = frozenset({"kind", "type", "rows", "page", "cursor", "rows_key", "ref", "format"})
# What is said of the transfer and not of each call: one call of many must not be taken for the whole of it.
_WHOLE = frozenset({"exactly_once", "transaction", "retry", "async"})


class TransferPosition(msgspec.Struct, frozen=True):
    """Where in the source the next chunk begins: `at` is the source's own word for it, None for the beginning."""

    at: Any = None
    end: bool = False


class Chunk(msgspec.Struct, frozen=True):
    rows: Rows
    then: TransferPosition


class TransferProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a transfer has come. A target that is a database keeps it, as JSON, in the transaction of the rows."""

    rows: int = 0
    chunks: int = 0
    writes: int = 0  # what was written as a whole
    size: int = 0  # bytes of the chunks, as JSON or Parquet
    # The sum of the hashes of all rows, where these are known: the same in whatever order and chunks they come.
    checksum: int = 0
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


def rows_in(value: Any, path: Any, what: str) -> Rows:
    """The list of rows in `value`, at the dotted `path`, or all of it."""
    found = at_path(value, str(path)) if path else value
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        where = f'at "{path}" there' if path else "it"
        raise ToolError(
            "transfer.input",
            f"{what} gave no list of rows: {where} is {_kind(found)}; say where they are with source.rows",
        )
    return found


def renamed(rows: Rows, mapping: Any) -> Rows:
    """Rows with the columns that `mapping` names, source to target; all of them without one."""
    if mapping is None:
        return rows
    if not isinstance(mapping, Mapping) or not mapping:
        raise ToolError("transfer.input", "mapping must say which source column becomes which target column")
    if rows and (unknown := [str(name) for name in mapping if name not in rows[0]]):
        raise ToolError("transfer.input", f'the source has no column "{unknown[0]}"; it has {", ".join(rows[0])}')
    return [{str(to): row.get(name) for name, to in mapping.items()} for row in rows]


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


# Calls: an end of a transfer asks the tool of its own kind, as a task of that kind would.


class TransferEnd(msgspec.Struct, frozen=True):
    """One end: its kind, what it says of itself, and the surroundings of the transfer."""

    kind: str
    said: Mapping[str, Any]
    context: ToolContext

    async def call(self, inputs: Mapping[str, Any], *, key: str | None = None) -> Any:
        """The result of one call with these inputs over those of the end. `key` tells effects of one transfer apart."""
        if self.context.tool is None:
            raise ToolError("transfer.input", "there are no other tools here")
        given = {name: value for name, value in self.said.items() if name not in _OURS}
        spec = {name: value for name, value in self.context.spec.items() if name not in _WHOLE}
        name = self.context.idempotency_key if key is None else f"{self.context.idempotency_key}/{key}"
        context = msgspec.structs.replace(self.context, spec=spec, idempotency_key=name)
        return (await self.context.tool(self.kind).run({**given, **inputs}, context)).result

    async def run_sql(self, statements: tuple[Statement, ...]) -> Any:
        """The result of SQL of our own, in one transaction."""
        return await self.call({"command": Bound(statements), "query": None, "params": None, "table": None})


def end_of(name: str, written: Any, kinds: tuple[str, ...], context: ToolContext) -> TransferEnd:
    """An end of the transfer. ToolError `transfer.input` for a kind that cannot be one."""
    if not isinstance(written, Mapping):
        raise ToolError("transfer.input", f"{name} must be a mapping such as {{kind: {kinds[0]}, …}}")
    kind = str(written.get("kind") or written.get("type") or "")
    if kind not in kinds:
        raise ToolError("transfer.input", f'{name}.kind "{kind}" is not one that rows can move by: {", ".join(kinds)}')
    return TransferEnd(kind, written, context)
