"""The work list of people, and what they do with their tasks (HUM-01 to HUM-03).

Whether somebody may do what he asks is decided by the engine, with the state as it is then; here it is turned into an
answer or an error.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import ForbiddenError, InvalidError, NotFoundError, RefusedError, SettledError
from noetl.engine.commands import ActOnTask, TaskAction
from noetl.engine.decision import Decision, Refusal
from noetl.events.orders import ReportResult
from noetl.store.contract import Store
from noetl.store.human_tasks import TaskRow, TaskState

# Verdicts on what somebody outside has asked of an execution, as he hears them: nothing, or an error with its kind.


class RequestResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a command, as it is handed from process to process."""

    verdict: ReportResult
    detail: str | None = None  # why, for people; None: the usual words of the verdict
    problems: tuple[Refusal, ...] = ()  # every field of a form that does not fit


class TakesCommands(Protocol):
    """Has commands to executions decided: the control plane of this process, or whoever drives them on the same
    store."""

    async def submit(self, execution_id: str, command: Any) -> Decision | RequestResult: ...

    async def submit_all(self, commands: Sequence[tuple[str, Any]]) -> Sequence[Decision | RequestResult]: ...


def request_result(decision: Decision | RequestResult) -> RequestResult:
    return RequestResult(verdict=decision.verdict, detail=decision.detail, problems=decision.problems)


def check(told: RequestResult, *, what: str) -> bool:
    """Whether anything changed; it did not when the same was asked before. Raises what else is to be said."""
    detail = told.detail
    match told.verdict:
        case ReportResult.ACCEPTED | ReportResult.DUPLICATE:
            return told.verdict is ReportResult.ACCEPTED
        case ReportResult.NOT_FOUND:
            raise NotFoundError(detail or f"there is no {what}")
        case ReportResult.FORBIDDEN:
            raise ForbiddenError(detail or f"you may not do that with {what}")
        case ReportResult.INVALID:
            problems = tuple(msgspec.to_builtins(problem) for problem in told.problems)
            raise InvalidError(detail or _listed(told.problems), problems)
        case ReportResult.TERMINAL | ReportResult.CANCELLED:
            raise SettledError(detail or f"{what}: its execution has ended, and what has ended stays as it is")
        case ReportResult.PAUSED:
            raise SettledError(detail or f"{what}: its execution is paused; resume it first")
        case ReportResult.CONFLICT | ReportResult.FENCED:
            raise SettledError(detail or f"{what} has changed since: look again")
        case _:
            raise RefusedError(detail or f"{what} was refused")


def _listed(problems: tuple[Refusal, ...]) -> str:
    return "; ".join(f"{one.field}: found {one.found}, allowed {one.allowed}" for one in problems)


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
