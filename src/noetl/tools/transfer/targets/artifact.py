"""Rows into the results store: one list, or, where there are several chunks, a list of parts that says where they are.

Nothing is recorded on the way, and nothing need be: an equal content is stored once, so a repeated run finds its own
parts again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.base.errors import ToolError
from noetl.tools.artifact.references import reference_row, store_value
from noetl.tools.transfer.calls import TransferEnd
from noetl.tools.transfer.contract import Rows, TransferProgress

PARTS = "noetl.parts"


class ArtifactTarget:
    def __init__(self, end: TransferEnd, mode: str) -> None:
        if mode != "append":
            raise ToolError("transfer.input", f'an artifact cannot be changed: mode "{mode}" has no meaning there')
        self._end = end
        self._parts: list[dict[str, Any]] = []

    async def progress(self) -> TransferProgress:
        return TransferProgress()

    async def write(self, pieces: list[Rows], progress: TransferProgress) -> None:
        self._parts += [reference_row(store_value(piece, self._end.context)) for piece in pieces]

    async def reference(self, progress: TransferProgress) -> Mapping[str, Any]:
        if not self._parts:
            self._parts.append(reference_row(store_value([], self._end.context)))
        if len(self._parts) == 1:
            return {**self._parts[0], "row_count": progress.rows}
        reference = store_value({PARTS: self._parts, "row_count": progress.rows}, self._end.context)
        return {**reference_row(reference), "schema_hint": "rows.parts", "row_count": progress.rows}


def parts_of(value: Any) -> list[Any] | None:
    """The references of the parts, where `value` is a list of parts."""
    if isinstance(value, dict) and isinstance(value.get(PARTS), list):
        return list(value[PARTS])
    return None
