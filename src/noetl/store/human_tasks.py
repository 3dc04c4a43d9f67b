"""Human tasks: the work list of people, derived from the log (HUM-01 to HUM-04)."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Any, Protocol, TypedDict, Unpack

import msgspec


class TaskState(StrEnum):
    OPEN = "open"
    CLAIMED = "claimed"
    COMPLETED = "completed"
    WITHDRAWN = "withdrawn"  # its step was cancelled, or another wait of the step ended first


class TaskRow(msgspec.Struct, frozen=True, kw_only=True):
    """One task. The whole of it is stored as JSON, beside the columns that lists are filtered by."""

    task_id: str
    execution_id: str
    step: str
    step_run_id: str
    state: TaskState = TaskState.OPEN
    # Counts its changes: an action names the version that the person saw, and is refused on a later one.
    version: int = 1
    title: str
    description: str = ""
    # Data for the decision.
    data: Any = None
    # Its history, the oldest entry first.
    history: list[dict[str, Any]] = []
    # The assignee; both None: any user.
    role: str | None = None
    user: str | None = None
    # Its fields, as plain data.
    form: list[dict[str, Any]] = []
    claimed_by: str | None = None
    completed_by: str | None = None
    # The values it was completed with.
    result: dict[str, Any] | None = None
    created_at: float
    due_at: float | None = None
    overdue: bool = False
    escalated: bool = False
    ended_at: float | None = None


class TaskQuery(TypedDict, total=False):
    """Which tasks a list has. A key that is left out, None or empty excludes none."""

    states: Collection[TaskState]
    role: str | None  # the assignee
    user: str | None  # the assignee, or who has claimed it
    for_anybody: bool  # only those without an assignee
    execution_id: str | None


class Tasks(Protocol):
    async def get(self, task_id: str) -> TaskRow | None: ...

    async def list(self, *, limit: int = 100, beyond: str | None = None, **wanted: Unpack[TaskQuery]) -> list[TaskRow]:
        """The newest first; `beyond` is the last task of the page before."""


class MemoryTasks:
    """For tests, and for stores that need not outlive their process."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskRow] = {}

    def write(self, tasks: Collection[TaskRow]) -> None:
        self._tasks.update((task.task_id, task) for task in tasks)

    def rebuilt(self, tasks: Collection[TaskRow]) -> None:
        self._tasks = {task.task_id: task for task in tasks}

    def retire(self, execution_ids: Collection[str]) -> None:
        self._tasks = {key: task for key, task in self._tasks.items() if task.execution_id not in execution_ids}

    async def get(self, task_id: str) -> TaskRow | None:
        return self._tasks.get(task_id)

    async def list(self, *, limit: int = 100, beyond: str | None = None, **wanted: Unpack[TaskQuery]) -> list[TaskRow]:
        last, states = self._tasks.get(beyond) if beyond is not None else None, wanted.get("states")
        found = [
            task
            for task in self._tasks.values()
            if (not states or task.state in states)
            and wanted.get("role") in (None, task.role)
            and wanted.get("user") in (None, task.user, task.claimed_by)
            and (not wanted.get("for_anybody") or (task.role is None and task.user is None))
            and wanted.get("execution_id") in (None, task.execution_id)
            and (last is None or _age(task) > _age(last))
        ]
        return sorted(found, key=_age)[:limit]


def _age(task: TaskRow) -> tuple[float, str]:
    return -task.created_at, task.task_id
