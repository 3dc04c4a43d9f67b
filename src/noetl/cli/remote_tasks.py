"""Human tasks of a server, for `noetl task`: the same rows as those of a store. Who acts there, the token says."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.cli.connection import Reached, server_answer
from noetl.cli.queries import find_execution, read
from noetl.store.human_tasks import TaskRow, TaskState

if TYPE_CHECKING:
    from noetl.client import Client
    from noetl.operations.api_shapes import TaskView

_PAGE = 500


def listed(
    there: Reached,
    *,
    states: Collection[TaskState] = tuple(TaskState),
    execution: str | None = None,
    limit: int,
    **whose: str | None,
) -> list[TaskRow]:
    """The newest first, however many pages that takes. `whose` is role and user."""
    execution_id = None
    if execution is not None:
        execution_id = read(None, lambda records: find_execution(records, execution)).execution_id
    wanted = {"state": [state.value for state in states or TaskState], "execution_id": execution_id, **whose}
    return server_answer(there, lambda client: _pages(client, wanted, limit))


def _pages(client: Client, wanted: dict[str, Any], limit: int) -> list[TaskRow]:
    rows: list[TaskRow] = []
    cursor: str | None = None
    while len(rows) < limit:
        page = client.task_page(**wanted, limit=min(_PAGE, limit - len(rows)), cursor=cursor)
        rows += map(row_of, page.tasks)
        cursor = page.next
        if cursor is None:
            break
    return rows


def of_id(there: Reached, task_id: str) -> TaskRow | None:
    def task_by_id(client: Client) -> TaskRow | None:
        from noetl.client import ApiError

        try:
            return row_of(client.task(task_id)) if task_id else None
        except ApiError as problem:
            if problem.status in (400, 404, 422):  # nothing there can be called that
                return None
            raise

    return server_answer(there, task_by_id)


def act(there: Reached, task_id: str, action: str, values: dict[str, Any], version: int | None) -> str:
    """Have it done, and say as whom."""

    def done(client: Client) -> str:
        match action:
            case "claim":
                client.claim_task(task_id, version=version)
            case "release":
                client.release_task(task_id, version=version)
            case _:
                client.complete_task(task_id, values, version=version)
        return client.who_am_i().subject

    return server_answer(there, done)


def row_of(told: TaskView) -> TaskRow:
    from noetl.client.streams import seconds_of

    fields = msgspec.structs.asdict(told)
    for name in ("created_at", "due_at", "ended_at"):
        fields[name] = seconds_of(fields[name]) if fields[name] is not None else None
    return TaskRow(**{**fields, "state": TaskState(told.state)})
