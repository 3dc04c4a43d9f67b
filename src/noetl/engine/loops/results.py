"""The result of a loop: the payloads of its innermost iterations in path order (LOOP-13, O-37)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from noetl.engine.loops.evolution import collected_value
from noetl.engine.loops.state import Frame
from noetl.engine.pipeline.payloads import refuse_above_cap
from noetl.engine.pipeline.pipeline_scope import Load
from noetl.events.loops import Path
from noetl.events.outcomes import TaskResult


def results_of(frame: Frame, levels: int, load: Load) -> list[Any]:
    """Null for a failed one. What is stored elsewhere is loaded, until it is too much. ToolError `result.too_large`."""
    values = frame.results if levels == 1 else [value for _, value in _leaves(frame.results, levels, ())]
    results, loaded_bytes = [], 0
    for value in values:
        loaded = _loaded(value, load)
        if loaded is not value:
            loaded_bytes += len(msgspec.json.encode(loaded))
            refuse_above_cap(loaded_bytes)
        results.append(loaded)
    return results


def paths_of(frame: Frame, levels: int) -> list[list[int]]:
    return [list(path) for path, _ in _leaves(frame.results, levels, ())]


def _leaves(results: list[Any], levels: int, path: Path) -> Iterator[tuple[Path, Any]]:
    """An outer iteration that could not open its inner loop is a leaf itself, and failed."""
    for index, value in enumerate(results):
        if levels > 1 and isinstance(value, list):
            yield from _leaves(value, levels - 1, (*path, index))
        else:
            yield (*path, index), value


def _loaded(value: Any, load: Load) -> Any:
    if isinstance(value, TaskResult):
        assert value.ref is not None
        loaded = load(value.ref)
        return collected_value(TaskResult(result=loaded, wrapped=value.wrapped))
    return value
