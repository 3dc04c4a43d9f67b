"""The work list of people, and what they do with their tasks (HUM-01 to HUM-03).

Whether somebody may do what he asks is decided by the engine, with the state as it is then; here it is turned into an
answer or an error.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from noetl.base.clock import Clock
from noetl.base.errors import NotFoundError
from noetl.control.outside.report_results import TakesCommands, check, request_result
from noetl.engine.commands import ActOnTask, TaskAction
from noetl.store.contract import Store
from noetl.store.human_tasks import TaskRow, TaskState


class HumanTasks:
    def __init__(self, executions: TakesCommands, store: Store, clock: Clock) -> None:
        self._executions, self._store, self._clock = executions, store, clock

    async def list(
        self,
        *,
        states: Collection[TaskState] = (TaskState.OPEN, TaskState.CLAIMED),
        role: str | None = None,
        user: str | None = None,
        for_anybody: bool = False,
        execution_id: str | None = None,
        limit: int = 100,
        beyond: str | None = None,
    ) -> list[TaskRow]:
        """Tasks, the newest first: of a role, of a user, of nobody in particular; in these states."""
        return await self._store.tasks.list(
            states=states,
            role=role,
            user=user,
            for_anybody=for_anybody,
            execution_id=execution_id,
            limit=limit,
            beyond=beyond,
        )

    async def get(self, task_id: str) -> TaskRow:
        return await task_of(self._store, task_id)

    async def claim(
        self, task_id: str, *, actor: str, roles: Collection[str] = (), version: int | None = None
    ) -> TaskRow:
        return await self._act(TaskAction.CLAIM, task_id, actor, roles, version, {})

    async def release(
        self, task_id: str, *, actor: str, roles: Collection[str] = (), version: int | None = None
    ) -> TaskRow:
        return await self._act(TaskAction.RELEASE, task_id, actor, roles, version, {})

    async def complete(
        self,
        task_id: str,
        values: dict[str, Any],
        *,
        actor: str,
        roles: Collection[str] = (),
        version: int | None = None,
    ) -> TaskRow:
        """InvalidError names every field that does not fit its form; the task stays open then."""
        return await self._act(TaskAction.COMPLETE, task_id, actor, roles, version, values)

    async def comment(self, task_id: str, text: str, *, actor: str, roles: Collection[str] = ()) -> TaskRow:
        """Write something about it, for whoever decides."""
        return await self._act(TaskAction.COMMENT, task_id, actor, roles, None, {}, text)

    async def _act(
        self,
        action: TaskAction,
        task_id: str,
        actor: str,
        roles: Collection[str],
        version: int | None,
        values: dict[str, Any],
        text: str = "",
    ) -> TaskRow:
        """NotFoundError, ForbiddenError, SettledError or InvalidError say why it was not done; the task as it is
        after it."""
        task = await self.get(task_id)
        command = ActOnTask(
            at=self._clock.now(),
            task_id=task_id,
            action=action,
            actor=actor,
            roles=tuple(roles),
            values=values,
            version=version,
            text=text,
        )
        decision = await self._executions.submit(task.execution_id, command)
        check(request_result(decision), what=f'task "{task.title}"')
        return await self.get(task_id)


async def task_of(store: Store, task_id: str) -> TaskRow:
    task = await store.tasks.get(task_id)
    if task is None:
        raise NotFoundError(f"there is no human task {task_id}: noetl task list")
    return task
