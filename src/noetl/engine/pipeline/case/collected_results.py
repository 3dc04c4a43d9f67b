"""Collecting: what `collect` makes of the responses of a sequence (V2C-17, O-28).

Every successful response counts, the last included. The value is readable under its name and is part of the result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from noetl.engine.pipeline.pipeline_scope import Load
from noetl.events.outcomes import TaskResult
from noetl.net.net import Transition
from noetl.net.task import Collect, Repeat

_NOTHING: Any = object()


def collects_of(step: Transition) -> tuple[Collect, ...]:
    """Every `collect` of the step: of its own policies, then of its rules'."""
    rules = step.case.rules if step.case else ()
    policies: list[Repeat] = [policy for task in step.tasks for policy in task.repeat]
    policies += [policy for rule in rules for policy in rule.repeat]
    return tuple(policy.collect for policy in policies if policy.collect is not None)


def collected(collect: Collect, pages: Iterable[TaskResult], load: Load) -> Any:
    """The values at `path` of all responses, put together."""
    found = (_at(load(page.ref) if page.ref else page.result, collect.path) for page in pages)
    values = [value for value in found if value is not _NOTHING]
    match collect.strategy:
        case "push":
            return values
        case "replace":
            return values[-1] if values else None
        case "merge":
            return {key: item for value in values if isinstance(value, dict) for key, item in value.items()}
        case _:
            return [item for value in values for item in (value if isinstance(value, list) else [value])]


def _at(value: Any, path: str) -> Any:
    for key in path.split("."):
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            return _NOTHING
    return value


def with_collected(result: TaskResult, values: dict[str, Any], load: Load) -> TaskResult:
    """The result with what was collected as fields of its payload; a payload without fields gives way to them."""
    if not values or result.error is not None:
        return result
    full = load(result.ref) if result.ref else result.result
    if result.wrapped and isinstance(full, dict) and "data" in full:
        full = {**full, "data": _joined(full["data"], values)}
    else:
        full = _joined(full, values)
    return msgspec.structs.replace(result, result=full, ref=None)


def _joined(payload: Any, values: dict[str, Any]) -> dict[str, Any]:
    return {**payload, **values} if isinstance(payload, dict) else values
