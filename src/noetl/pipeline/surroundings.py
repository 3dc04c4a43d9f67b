"""Surroundings: everything a pipeline can read besides its own position, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from noetl.errors import ToolError
from noetl.records.outcomes import TaskResult
from noetl.records.references import Reference

Load = Callable[[Reference], Any]


def nothing_stored(reference: Reference) -> Any:
    """The loader of those who have no results store."""
    raise ToolError("result.missing", f"the stored result {reference.key} cannot be read here")


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """`results` are those of finished steps, by name; `load` fetches what one only refers to (RES-06)."""

    execution_id: str
    args: dict[str, Any]
    workload: dict[str, Any]
    ctx: dict[str, Any]
    token: dict[str, Any]
    results: Mapping[str, TaskResult]
    load: Load = nothing_stored
