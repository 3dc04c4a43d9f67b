"""Answers: the one shape in which SQL tools give back what their statements did (TOOL-05, C-48, RES-05)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.sql.requests import Insertion

MAX_RESULT_BYTES = 64 << 20  # reliability.md §3.6


class SqlAnswer(msgspec.Struct, frozen=True):
    """What one statement gave. `row_count` counts rows returned, or else rows touched."""

    rows: list[dict[str, Any]]
    columns: list[str]
    row_count: int


def result_of(answers: Sequence[SqlAnswer]) -> dict[str, Any]:
    """The result of a task: the last statement's rows, and every statement's as `command_0`, `command_1`, …"""
    last = answers[-1]
    each = {f"command_{index}": msgspec.to_builtins(answer) for index, answer in enumerate(answers)}
    return {"data": last.rows, "row_count": last.row_count, "columns": last.columns, **each}


def reference_to(insertion: Insertion, store: str, row_count: int) -> dict[str, Any]:
    """Where the rows of an insertion now are (RES-05); `size` counts the bytes of the rows as JSON."""
    size = len(msgspec.json.encode(insertion.rows))
    return {"store": store, "key": insertion.name, "size": size, "row_count": row_count, "schema_hint": "rows"}


class Allowance:
    """How much a task may still give back: too much is an error, before it fills the memory."""

    def __init__(self, max_rows: Any) -> None:
        if max_rows is not None and (isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 1):
            raise ToolError("sql.input", f'spec.max_rows "{max_rows}" is not a number of rows')
        self._max_rows: int | None = max_rows
        self._bytes = MAX_RESULT_BYTES

    def take(self, rows: list[dict[str, Any]], count: int) -> None:
        """Count a batch; `count` is how many rows its statement has given by now. ToolError `result.too_large`."""
        check_rows(count, self._max_rows)
        self._bytes -= len(msgspec.json.encode(rows))
        if self._bytes < 0:
            raise _too_large(f"more than {MAX_RESULT_BYTES >> 20} MiB")


def check_rows(count: int, max_rows: int | None) -> None:
    """ToolError `result.too_large` for more rows than `spec.max_rows`."""
    if max_rows is not None and count > max_rows:
        raise _too_large(f"more than {max_rows} rows, which is spec.max_rows")


def _too_large(what: str) -> ToolError:
    return ToolError("result.too_large", f"the SQL gives {what}: narrow it, page through it, or keep it in a table")
