"""Calls: an end of a transfer asks the tool of its own kind, as a task of that kind would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.templates.sql.statements import Bound, Statement
from noetl.tools.contract import ToolContext

_OURS = frozenset({"kind", "type", "rows", "page", "cursor", "rows_key", "ref", "format"})

# What is said of the transfer and not of each call: one call of many must not be taken for the whole of it.
_WHOLE = frozenset({"exactly_once", "transaction", "retry", "async"})


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
