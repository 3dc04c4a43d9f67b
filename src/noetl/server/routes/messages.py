"""Messages that are kept for whoever will wait for them: looking at them, and removing them (MSG-03).

What they say is not shown, only how much it is.
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response

from noetl.base.clock import rfc3339
from noetl.control.outside.kept_messages import remove
from noetl.events.waits import MAX_NAME
from noetl.operations.api_shapes import StoredMessage, StoredMessagePage
from noetl.server.access.audit_writer import OBJECT
from noetl.server.guarded_router import Json, shows
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import services_of
from noetl.store.waits import KeptRow, Place

router = APIRouter(tags=["from outside"])
_MARK = "/"  # in a cursor, between the time and the id


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """How many messages there are less."""

    deleted: int


@router.get("/api/messages", **shows(StoredMessagePage, summary="Messages that nobody has taken yet"))
async def stored_messages(
    request: Request,
    name: Annotated[str | None, Query(min_length=1, max_length=MAX_NAME)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    cursor: Annotated[str | None, Query(max_length=MAX_NAME + 50)] = None,
) -> Response:
    """The newest first; what they carry is not shown. `next` of a page is the `cursor` of the one after."""
    services = services_of(request)
    beyond = _place(cursor) if cursor is not None else None
    rows = await services.store.waits.newest_kept(now=services.clock.now(), name=name, limit=limit + 1, beyond=beyond)
    page = rows[:limit]
    return Json(
        StoredMessagePage(
            messages=[_message_view(row) for row in page], next=_cursor(page[-1]) if len(rows) > limit else None
        )
    )


@router.delete("/api/messages", **shows(Removed, summary="Delete the kept messages of a name"))
async def delete_named(request: Request, name: Annotated[str, Query(min_length=1, max_length=MAX_NAME)]) -> Response:
    """Those that nobody has taken; no one will receive them."""
    request.scope[OBJECT] = f"{request.url.path}?name={name}"
    services = services_of(request)
    return Json(Removed(deleted=await services.store.waits.remove_named(name, now=services.clock.now())))


@router.delete("/api/messages/{message_id:path}", **shows(status=204, summary="Delete a kept message"))
async def delete_message(request: Request, message_id: str) -> Response:
    """Nobody will receive it. One that was delivered stays so: 409."""
    services = services_of(request)
    await remove(services.store.waits, message_id, now=services.clock.now())
    return Response(status_code=204)


def _message_view(row: KeptRow) -> StoredMessage:
    plain = {name: getattr(row, name) for name in StoredMessage.__struct_fields__}
    return StoredMessage(**{**plain, "sent_at": rfc3339(row.sent_at), "expires_at": rfc3339(row.expires_at)})


def _cursor(row: KeptRow) -> str:
    """Its place itself, so that a page follows also when this message is gone by then."""
    return f"{row.sent_at!r}{_MARK}{row.message_id}"


def _place(cursor: str) -> Place:
    sent_at, mark, message_id = cursor.partition(_MARK)
    try:
        if mark and math.isfinite(moment := float(sent_at)):
            return moment, message_id
    except ValueError:
        pass
    raise ProblemDetails(422, "cursor: it is none that was given out here")
