"""The work list of people: finding human tasks, claiming, releasing and completing them (HUM-01 to HUM-03)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

import msgspec
from fastapi import Query, Request, Response

from noetl.operations.api_shapes import TaskPage, TaskView
from noetl.operations.identity import Caller
from noetl.operations.waits import TaskFilter, task_page, task_view
from noetl.server.bodies import read, read_optional
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.idempotency import HEADER, REPLAYED, IdempotencyKeys, digest, named
from noetl.server.services import identity_of, services_of
from noetl.store.human_tasks import TaskState

router = GuardedRouter(tags=["human tasks"])


class Acting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int | None = None


class Commenting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str


class Completing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`values` by field of the form."""

    values: dict[str, Any] = {}
    version: int | None = None


@router.get("/api/tasks", **shows(TaskPage, summary="List human tasks"))
async def tasks(
    request: Request,
    state: Annotated[list[TaskState] | None, Query(description="Open and claimed ones without it.")] = None,
    role: Annotated[str | None, Query(max_length=200)] = None,
    user: Annotated[str | None, Query(max_length=200, description="Also finds what this user has claimed.")] = None,
    execution_id: Annotated[str | None, Query(max_length=100)] = None,
    mine: Annotated[
        bool, Query(description="What you may do: for you, a role of yours, or anybody; or claimed by you.")
    ] = False,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    cursor: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    """The newest first. A page of `mine` may be shorter than `limit` before the last one."""
    actor, roles = _subject_and_roles(request)
    wanted = TaskFilter(role=role, user=user, execution_id=execution_id, mine=mine)
    if state:
        wanted = msgspec.structs.replace(wanted, states=state)
    tasks = services_of(request).store.tasks
    return Json(await task_page(tasks, wanted, actor=actor, roles=roles, limit=limit, cursor=cursor))


@router.get("/api/tasks/{task_id}", **shows(TaskView, summary="One human task"))
async def task(request: Request, task_id: str) -> Response:
    return Json(task_view(await services_of(request).control.background_jobs.inbox.get(task_id)))


@router.post("/api/tasks/{task_id}/claim", **shows(TaskView, reads=Acting, summary="Take a task"))
async def claim(request: Request, task_id: str) -> Response:
    """Only for holders of its role, or the user it is for."""
    asked, (actor, roles) = await read_optional(request, Acting), _subject_and_roles(request)
    inbox = services_of(request).control.background_jobs.inbox
    return Json(task_view(await inbox.claim(task_id, actor=actor, roles=roles, version=asked.version)))


@router.post("/api/tasks/{task_id}/release", **shows(TaskView, reads=Acting, summary="Give a task back"))
async def release(request: Request, task_id: str) -> Response:
    asked, (actor, roles) = await read_optional(request, Acting), _subject_and_roles(request)
    inbox = services_of(request).control.background_jobs.inbox
    return Json(task_view(await inbox.release(task_id, actor=actor, roles=roles, version=asked.version)))


@router.post("/api/tasks/{task_id}/comment", **shows(TaskView, reads=Commenting, summary="Comment on a task"))
async def comment(request: Request, task_id: str) -> Response:
    """Only for those whom it is for. It stands in the task's history, and in the log."""
    asked, (actor, roles) = await read(request, Commenting), _subject_and_roles(request)
    inbox = services_of(request).control.background_jobs.inbox
    return Json(task_view(await inbox.comment(task_id, asked.text, actor=actor, roles=roles)))


@router.post("/api/tasks/{task_id}/complete", **shows(TaskView, reads=Completing, summary="Complete a task"))
async def complete(request: Request, task_id: str) -> Response:
    """422 names every field that does not fit; the task stays open then. With an Idempotency-Key a repeated request is
    answered as the first one."""
    services, (actor, roles) = services_of(request), _subject_and_roles(request)
    asked = await read(request, Completing)
    key, keys = request.headers.get(HEADER), IdempotencyKeys(services.store.key_values, services.clock)
    name = named(actor, f"complete {task_id}", key) if key is not None else None
    if name is not None:
        kept, _ = await keys.reserve(name, digest(asked), task_id)
        if kept.answer is not None:
            return Response(kept.answer.encode(), headers=REPLAYED, media_type="application/json")
    try:
        done = await services.control.background_jobs.inbox.complete(
            task_id, asked.values, actor=actor, roles=roles, version=asked.version
        )
    except Exception:
        if name is not None:
            await keys.release(name)
        raise
    answer = Json(task_view(done))
    if name is not None:
        await keys.store_answer(name, bytes(answer.body))
    return answer


def _subject_and_roles(request: Request) -> tuple[str, Collection[str]]:
    identity = identity_of(request)
    assert isinstance(identity, Caller)
    return identity.subject, sorted(identity.human_roles)
