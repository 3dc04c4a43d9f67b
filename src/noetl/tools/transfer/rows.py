"""Rows: found in what a source gave, renamed, and cut into pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from noetl.base.errors import ToolError
from noetl.engine.pipeline.dotted_paths import at_path
from noetl.tools.transfer.contract import Rows


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
