"""The work list of people: pages of human tasks, as one person or everybody sees them (HUM-01 to HUM-03).

What people do with a task is in `control/outside/human_tasks.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from noetl.base.errors import InvalidError
from noetl.operations.api_shapes import TaskPage, TaskView, view_of
from noetl.store.human_tasks import TaskRow, Tasks, TaskState


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Open and claimed ones without `states`. With `mine` those that `actor` may do: for them, for a role of theirs, or
    for anybody; or claimed by them."""

    states: Collection[TaskState] = (TaskState.OPEN, TaskState.CLAIMED)
    role: str | None = None
    user: str | None = None
    execution_id: str | None = None
    mine: bool = False


async def task_page(
    tasks: Tasks, wanted: TaskFilter, *, actor: str, roles: Collection[str], limit: int, cursor: str | None
) -> TaskPage:
    """The newest first. A page of `mine` may be shorter than `limit` before the last one."""
    if cursor is not None and await tasks.get(cursor) is None:
        raise InvalidError("cursor: it is none that was given out here")
    if wanted.mine and (wanted.role is not None or wanted.user is not None):
        raise InvalidError("mine says already whose tasks are meant: leave role and user out")
    whose: list[dict[str, Any]] = [{"role": wanted.role, "user": wanted.user}]
    if wanted.mine:
        whose = [{"user": actor}, *({"role": one} for one in roles), {"for_anybody": True}]
    found: dict[str, TaskRow] = {}
    for one in whose:
        rows = await tasks.list(
            states=wanted.states, execution_id=wanted.execution_id, limit=limit + 1, beyond=cursor, **one
        )
        found.update((row.task_id, row) for row in rows)
    newest = sorted(found.values(), key=lambda row: (-row.created_at, row.task_id))
    beyond = newest[limit - 1].task_id if len(newest) > limit else None
    page = [row for row in newest[:limit] if not wanted.mine or row.claimed_by in (None, actor)]
    return TaskPage(tasks=[task_view(row) for row in page], next=beyond)


def task_view(row: TaskRow) -> TaskView:
    return view_of(TaskView, row, state=row.state.value)
