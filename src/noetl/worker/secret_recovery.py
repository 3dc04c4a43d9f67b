"""What `secrets` tasks had looked up, when an interrupted pipeline goes on (TOOL-09, WRK-04).

The log holds `***` in their place, and a task that went on with that would send it to the world. So they are looked
up once more, silently: it was recorded that they ran, and they change nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from noetl.events.outcomes import TaskResult
from noetl.events.position import Position
from noetl.net.net import Transition
from noetl.net.task import Task
from noetl.net.tasks import tasks_of

SECRETS = "secrets"

LookUp = Callable[[Task, Position], Awaitable[Any]]


async def recalled(step: Transition, position: Position, look_up: LookUp) -> Position:
    """The position with the true results of its `secrets` tasks. ToolError where one is gone meanwhile."""
    if not position.results:
        return position  # it begins here
    for task in tasks_of(step):
        old = position.results.get(task.name) if task.kind == SECRETS else None
        if old is None or old.error is not None or not _looked_up(old):
            continue
        new = msgspec.structs.replace(old, result=await look_up(task, position))
        position = msgspec.structs.replace(
            position,
            results={**position.results, task.name: new},
            prev=new if position.prev == old else position.prev,
        )
    return position


def looked_up_names(step: Transition, position: Position) -> set[str]:
    """The names under which a task reads what `secrets` tasks of its pipeline have looked up."""
    names = {task.name for task in tasks_of(step) if task.kind == SECRETS and task.name in position.results}
    if any(position.results[name] is position.prev for name in names):
        names.add("_prev")
    if position.case is not None and position.case.result_of in names:
        names |= {"result", "response", "this", "page", step.name}
    return names


def _looked_up(result: TaskResult) -> bool:
    """Whether it holds a secret's fields; the result of a refresh names its entry only."""
    return isinstance(result.result, dict) and "refreshed" not in result.result
