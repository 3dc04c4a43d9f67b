"""Human tasks: the work list, and the actions of people on their tasks (HUM-01 to HUM-03).

The engine decides whether a person may do what they ask, with the state at that moment. This module turns its verdict
into an answer or an error.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol, Unpack

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import ForbiddenError, InvalidError, NotFoundError, RefusedError, SettledError
from noetl.engine.commands import ActOnTask, TaskAction
from noetl.engine.decision import Decision, Refusal
from noetl.events.orders import ReportResult
from noetl.store.contract import Store
from noetl.store.human_tasks import TaskQuery, TaskRow, TaskState


class RequestResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The verdict on a command, as one process sends it to another."""

    verdict: ReportResult
    detail: str | None = None  # the reason, for people; None: the default text of the verdict
    problems: tuple[Refusal, ...] = ()  # every field of a form that does not fit


class TakesCommands(Protocol):
    """Submits commands: to the control plane of this process, or to the process that drives the execution on the same
    store."""

    async def submit(self, execution_id: str, command: Any) -> Decision | RequestResult: ...

    async def submit_all(self, commands: Sequence[tuple[str, Any]]) -> Sequence[Decision | RequestResult]: ...


def request_result(decision: Decision | RequestResult) -> RequestResult:
    return RequestResult(verdict=decision.verdict, detail=decision.detail, problems=decision.problems)


def check(result: RequestResult, *, what: str) -> bool:
    """Whether the command changed anything; False for a repeated one. Every other verdict is raised as its error."""
    detail = result.detail
    match result.verdict:
        case ReportResult.ACCEPTED | ReportResult.DUPLICATE:
            return result.verdict is ReportResult.ACCEPTED
        case ReportResult.NOT_FOUND:
            raise NotFoundError(detail or f"there is no {what}")
        case ReportResult.FORBIDDEN:
            raise ForbiddenError(detail or f"you may not do that with {what}")
        case ReportResult.INVALID:
            problems = tuple(msgspec.to_builtins(problem) for problem in result.problems)
            raise InvalidError(detail or _problems_text(result.problems), problems)
        case ReportResult.TERMINAL | ReportResult.CANCELLED:
            raise SettledError(detail or f"{what}: its execution has ended, and what has ended stays as it is")
        case ReportResult.PAUSED:
            raise SettledError(detail or f"{what}: its execution is paused; resume it first")
        case ReportResult.CONFLICT | ReportResult.FENCED:
            raise SettledError(detail or f"{what} has changed since: look again")
        case _:
            raise RefusedError(detail or f"{what} was refused")


def _problems_text(problems: tuple[Refusal, ...]) -> str:
    return "; ".join(f"{problem.field}: found {problem.found}, allowed {problem.allowed}" for problem in problems)


class HumanTasks:
    """Lists tasks and acts on them for people."""

    def __init__(self, executions: TakesCommands, store: Store, clock: Clock) -> None:
        self._executions, self._store, self._clock = executions, store, clock

    async def list(self, *, limit: int = 100, beyond: str | None = None, **wanted: Unpack[TaskQuery]) -> list[TaskRow]:
        """Tasks in these states, by default open and claimed ones, the newest first."""
        wanted = {"states": (TaskState.OPEN, TaskState.CLAIMED), **wanted}
        return await self._store.tasks.list(limit=limit, beyond=beyond, **wanted)

    async def get(self, task_id: str) -> TaskRow:
        return await task_of(self._store, task_id)

    async def claim(
        self, task_id: str, *, actor: str, roles: Collection[str] = (), version: int | None = None
    ) -> TaskRow:
        return await self._act(TaskAction.CLAIM, task_id, actor, roles, version, {})

    async def release(
        self,
        task_id: str,
        *,
        actor: str,
        roles: Collection[str] = (),
        version: int | None = None,
        is_admin: bool = False,
    ) -> TaskRow:
        """Release a claimed task. An administrator may release what another user has claimed."""
        return await self._act(TaskAction.RELEASE, task_id, actor, roles, version, {}, is_admin=is_admin)

    async def complete(
        self,
        task_id: str,
        values: dict[str, Any],
        *,
        actor: str,
        roles: Collection[str] = (),
        version: int | None = None,
        comment: str = "",
    ) -> TaskRow:
        """Complete a task. InvalidError names every field that does not fit its form; the task stays open then."""
        return await self._act(TaskAction.COMPLETE, task_id, actor, roles, version, values, comment)

    async def comment(self, task_id: str, text: str, *, actor: str, roles: Collection[str] = ()) -> TaskRow:
        """Add a comment to a task."""
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
        *,
        is_admin: bool = False,
    ) -> TaskRow:
        """The task after the action. NotFoundError, ForbiddenError, SettledError or InvalidError say why it was not
        done."""
        task = await self.get(task_id)
        # Nothing is checked here: the row may be old by the time the command is decided. The engine compares `version`
        # with the task as it is then, and refuses an action on a task that has changed since the person saw it.
        command = ActOnTask(
            at=self._clock.now(),
            task_id=task_id,
            action=action,
            actor=actor,
            roles=tuple(roles),
            is_admin=is_admin,
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
