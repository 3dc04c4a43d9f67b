"""Routes of notifications: notices that were sent, wait or are dead letters, and the rules of the installation."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import Query, Request, Response

from noetl.control.notifications.rules import NotificationRule
from noetl.operations.administration_shapes import NoticePage, NoticeView, TriedDestination
from noetl.server.bodies import read
from noetl.server.guarded_router import GuardedRouter, Json, openapi_docs
from noetl.server.services import services_of
from noetl.store.notices import NoticeState

router = GuardedRouter(tags=["notifications"])


class NotificationRuleList(msgspec.Struct, frozen=True):
    rules: list[NotificationRule]


class RuleTest(msgspec.Struct, frozen=True):
    destinations: list[TriedDestination]


class Retried(msgspec.Struct, frozen=True):
    retried: int


@router.get("/api/notifications", **openapi_docs(NoticePage, summary="List notices"))
async def notices(
    request: Request,
    state: Annotated[list[NoticeState] | None, Query(description="All without it; dead ones are dead letters.")] = None,
    execution_id: Annotated[str | None, Query(max_length=100)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    cursor: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    """The newest first."""
    page = await services_of(request).notifications.page(
        states=tuple(state or ()), execution_id=execution_id, limit=limit, cursor=cursor
    )
    return Json(page)


@router.get("/api/notifications/{notice_id}", **openapi_docs(NoticeView, summary="One notice"))
async def notice(request: Request, notice_id: str) -> Response:
    return Json(await services_of(request).notifications.get(notice_id))


@router.post("/api/notifications/retry", **openapi_docs(Retried, summary="Send all dead letters again"))
async def retry_all(request: Request) -> Response:
    return Json(Retried(await services_of(request).notifications.retry_all()))


@router.post("/api/notifications/{notice_id}/retry", **openapi_docs(NoticeView, summary="Send a dead letter again"))
async def retry(request: Request, notice_id: str) -> Response:
    """409 for a notice that is no dead letter."""
    return Json(await services_of(request).notifications.retry(notice_id))


@router.get("/api/notification-rules", **openapi_docs(NotificationRuleList, summary="List notification rules"))
async def rules(request: Request) -> Response:
    """Rules of the installation; those of a playbook stand in its text, under `on`."""
    return Json(NotificationRuleList(await services_of(request).notifications.shown_rules()))


@router.get("/api/notification-rules/{name}", **openapi_docs(NotificationRule, summary="One notification rule"))
async def rule(request: Request, name: str) -> Response:
    return Json(await services_of(request).notifications.shown_rule(name))


@router.put(
    "/api/notification-rules/{name}",
    **openapi_docs(NotificationRule, reads=NotificationRule, summary="Set a notification rule"),
)
async def put_rule(request: Request, name: str) -> Response:
    """Make it, or replace the one of that name."""
    wanted: dict[str, Any] = await read(request, dict[str, Any])
    return Json(await services_of(request).notifications.put_rule(name, wanted))


@router.delete("/api/notification-rules/{name}", **openapi_docs(status=204, summary="Delete a notification rule"))
async def delete_rule(request: Request, name: str) -> Response:
    await services_of(request).notifications.rules.delete(name)
    return Response(status_code=204)


@router.post("/api/notification-rules/{name}/test", **openapi_docs(RuleTest, summary="Try a notification rule"))
async def test_rule(request: Request, name: str) -> Response:
    """Send a test notice to each of its destinations, now."""
    return Json(RuleTest(await services_of(request).notifications.test(name)))
