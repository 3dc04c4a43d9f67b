"""Routes for what executions wait for: messages, signals, events and timers (MSG, TMR-04), and human tasks (HUM-01 to
HUM-03).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

import msgspec
from fastapi import Query, Request, Response

from noetl.base.errors import InvalidError
from noetl.control.outside.delivery import MESSAGE_TTL_S, DeliveryResult
from noetl.events.legacy_names import is_system_name
from noetl.events.waits import MAX_NAME
from noetl.operations import waits
from noetl.operations.administration_shapes import Caller, Role
from noetl.operations.api_shapes import StoredMessagePage, TaskPage, TaskView, TimerList
from noetl.operations.waits import TaskFilter, message_page, running_timers, task_page, task_view
from noetl.server.access.audit_writer import OBJECT, object_with
from noetl.server.bodies import read, read_optional
from noetl.server.execution_control import execution_of
from noetl.server.guarded_router import GuardedRouter, Json, openapi_docs
from noetl.server.idempotency import HEADER, REPLAYED, IdempotencyKeys, digest, key_name
from noetl.server.problem_details import ProblemDetails, not_found
from noetl.server.services import identity_of, services_of
from noetl.store.human_tasks import TaskState

router = GuardedRouter(tags=["from outside"])


class MessageBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same `message_id` counts once. A message that no step waits for is stored for `ttl` seconds, by default a
    day."""

    name: str
    correlation: dict[str, Any] = {}
    payload: Any = None
    message_id: str | None = None
    ttl: float = MESSAGE_TTL_S


class SignalBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Goes to one execution, or to all that wait or listen for it."""

    name: str
    data: Any = None
    execution_id: str | None = None
    signal_id: str | None = None


class Signalled(msgspec.Struct, frozen=True, kw_only=True):
    """`heard` are the executions that received it."""

    name: str
    heard: list[str]


class Injected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same `key` counts once."""

    name: str
    data: Any = None
    key: str | None = None


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """How many messages were deleted."""

    deleted: int


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """`changed` is false if the same request was accepted before."""

    changed: bool


@router.post("/api/messages", **openapi_docs(DeliveryResult, reads=MessageBody, status=202, summary="Send a message"))
async def message(request: Request) -> Response:
    """The message is stored before the answer. It goes to exactly one waiting step, the one that waited longest."""
    asked = await read(request, MessageBody)
    sent = await services_of(request).control.background_jobs.deliveries.send_message(
        asked.name, asked.correlation, asked.payload, message_id=asked.message_id, ttl_s=asked.ttl
    )
    return Json(sent, 202)


@router.post("/api/signals", **openapi_docs(Signalled, reads=SignalBody, summary="Broadcast a signal"))
async def signal(request: Request) -> Response:
    """It goes to every execution that waits or listens for it now; it is not stored."""
    asked = await read(request, SignalBody)
    if asked.execution_id is not None:
        # For the 404: otherwise a signal without a receiver is not an error.
        await execution_of(request, asked.execution_id)
    heard = await services_of(request).control.background_jobs.deliveries.send_signal(
        asked.name, asked.data, execution_id=asked.execution_id, signal_id=asked.signal_id
    )
    return Json(Signalled(name=asked.name, heard=heard))


@router.post(
    "/api/executions/{execution_id}/events",
    **openapi_docs(Accepted, reads=Injected, status=202, summary="Send an event"),
)
async def inject(request: Request, execution_id: str) -> Response:
    """An event of your own for rules and handlers that listen. The name of a system event is refused: 400."""
    await execution_of(request, execution_id)
    asked = await read(request, Injected)
    deliveries = services_of(request).control.background_jobs.deliveries
    try:
        changed = await deliveries.inject(execution_id, asked.name, asked.data, event_key=asked.key)
    except InvalidError as problem:
        if not is_system_name(asked.name):
            raise
        raise ProblemDetails(400, str(problem)) from None  # the code that MSG-06 names
    return Json(Accepted(changed=changed), 202)


@router.get("/api/executions/{execution_id}/timers", **openapi_docs(TimerList, summary="Its running timers"))
async def timers(request: Request, execution_id: str) -> Response:
    await execution_of(request, execution_id)
    return Json(TimerList(timers=await running_timers(services_of(request).store, execution_id)))


@router.get("/api/timers", **openapi_docs(TimerList, summary="Running timers"))
async def all_timers(request: Request) -> Response:
    """Timers of open executions, the next first; of very many, the 500 that are due first."""
    return Json(TimerList(timers=await running_timers(services_of(request).store)))


@router.post("/api/timers/{timer_id}/cancel", **openapi_docs(Accepted, summary="Cancel a timer"))
async def cancel(request: Request, timer_id: str) -> Response:
    """By its id in the lists. Only timers that the playbook declares as cancellable can be cancelled."""
    services = services_of(request)
    execution_id = await services.store.timed(timer_id)
    if execution_id is None:
        raise not_found("timer", timer_id)
    actor = str(identity_of(request).subject)
    changed = await services.control.background_jobs.deliveries.cancel_timer(execution_id, timer_id, actor=actor)
    return Json(Accepted(changed=changed))


@router.get("/api/messages", **openapi_docs(StoredMessagePage, summary="List undelivered messages"))
async def stored_messages(
    request: Request,
    name: Annotated[str | None, Query(min_length=1, max_length=MAX_NAME)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    cursor: Annotated[str | None, Query(max_length=MAX_NAME + 50)] = None,
) -> Response:
    """The newest first, without their payloads. `next` of a page is the `cursor` of the one after."""
    services = services_of(request)
    page = await message_page(services.store.waits, now=services.clock.now(), name=name, limit=limit, cursor=cursor)
    return Json(page)


@router.delete("/api/messages", **openapi_docs(Removed, summary="Delete the undelivered messages of a name"))
async def delete_named(request: Request, name: Annotated[str, Query(min_length=1, max_length=MAX_NAME)]) -> Response:
    """No execution will receive them."""
    # The path is the same for every name, and the audit log has to say which messages were deleted.
    request.scope[OBJECT] = f"{request.url.path}?name={name}"
    services = services_of(request)
    return Json(Removed(deleted=await services.store.waits.remove_named(name, now=services.clock.now())))


@router.delete("/api/messages/{message_id:path}", **openapi_docs(status=204, summary="Delete an undelivered message"))
async def delete_message(request: Request, message_id: str) -> Response:
    """No execution will receive it. A delivered message cannot be deleted: 409."""
    services = services_of(request)
    await waits.delete_message(services.store.waits, message_id, now=services.clock.now())
    return Response(status_code=204)


# Human tasks: listing, claiming, releasing and completing them (HUM-01 to HUM-03).

tasks_router = GuardedRouter(tags=["human tasks"])


class Acting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int | None = None


class Commenting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str


class Completing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`values` by field of the form. `comment` comes into the history before the completion."""

    values: dict[str, Any] = {}
    version: int | None = None
    comment: str = ""


@tasks_router.get("/api/tasks", **openapi_docs(TaskPage, summary="List human tasks"))
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


@tasks_router.get("/api/tasks/{task_id}", **openapi_docs(TaskView, summary="One human task"))
async def task(request: Request, task_id: str) -> Response:
    return Json(task_view(await services_of(request).control.background_jobs.inbox.get(task_id)))


@tasks_router.post("/api/tasks/{task_id}/claim", **openapi_docs(TaskView, reads=Acting, summary="Claim a task"))
async def claim(request: Request, task_id: str) -> Response:
    """Only for users with its role, or the user it is assigned to."""
    asked, (actor, roles) = await read_optional(request, Acting), _subject_and_roles(request)
    inbox = services_of(request).control.background_jobs.inbox
    return Json(task_view(await inbox.claim(task_id, actor=actor, roles=roles, version=asked.version)))


@tasks_router.post("/api/tasks/{task_id}/release", **openapi_docs(TaskView, reads=Acting, summary="Release a task"))
async def release(request: Request, task_id: str) -> Response:
    """Only by the user who has claimed it, or an administrator."""
    asked, (actor, roles) = await read_optional(request, Acting), _subject_and_roles(request)
    inbox = services_of(request).control.background_jobs.inbox
    is_admin = identity_of(request).role is Role.ADMIN
    released = await inbox.release(task_id, actor=actor, roles=roles, version=asked.version, is_admin=is_admin)
    claimant = next((entry["actor"] for entry in reversed(released.history) if entry["what"] == "claimed"), None)
    request.scope[OBJECT] = object_with(
        request.url.path, title=released.title, claimed_by=claimant if claimant != actor else None
    )
    return Json(task_view(released))


@tasks_router.post(
    "/api/tasks/{task_id}/comment", **openapi_docs(TaskView, reads=Commenting, summary="Comment on a task")
)
async def comment(request: Request, task_id: str) -> Response:
    """Only for users whom the task is assigned to. The comment is part of the task's history and of the event log."""
    asked, (actor, roles) = await read(request, Commenting), _subject_and_roles(request)
    inbox = services_of(request).control.background_jobs.inbox
    return Json(task_view(await inbox.comment(task_id, asked.text, actor=actor, roles=roles)))


@tasks_router.post(
    "/api/tasks/{task_id}/complete", **openapi_docs(TaskView, reads=Completing, summary="Complete a task")
)
async def complete(request: Request, task_id: str) -> Response:
    """422 names every invalid field; the task stays open then. With an Idempotency-Key, a repeated request gets the
    first answer."""
    services, (actor, roles) = services_of(request), _subject_and_roles(request)
    asked = await read(request, Completing)
    key, keys = request.headers.get(HEADER), IdempotencyKeys(services.store.key_values, services.clock)
    name = key_name(actor, f"complete {task_id}", key) if key is not None else None
    if name is not None:
        stored, _ = await keys.reserve(name, digest(asked), task_id)
        if stored.answer is not None:
            return Response(stored.answer.encode(), headers=REPLAYED, media_type="application/json")
    try:
        done = await services.control.background_jobs.inbox.complete(
            task_id, asked.values, actor=actor, roles=roles, version=asked.version, comment=asked.comment
        )
    # A failed request has changed nothing, so the same key may be used with other values.
    except Exception:
        if name is not None:
            await keys.release(name)
        raise
    decision = done.result.get("decision") if done.result is not None else None
    request.scope[OBJECT] = object_with(
        request.url.path, title=done.title, decision=decision if isinstance(decision, str) else None
    )
    answer = Json(task_view(done))
    if name is not None:
        await keys.store_answer(name, bytes(answer.body))
    return answer


def _subject_and_roles(request: Request) -> tuple[str, Collection[str]]:
    identity = identity_of(request)
    assert isinstance(identity, Caller)
    return identity.subject, sorted(identity.human_roles)
