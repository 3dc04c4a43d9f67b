"""Stored results by their checksum: read in parts by people and workers, stored by workers (RES-01, RES-02)."""

from __future__ import annotations

import asyncio
import hashlib
import re
from typing import Annotated

import msgspec
from fastapi import Query, Request, Response

from noetl.base.errors import ToolError
from noetl.events.references import Reference
from noetl.server.bodies import JSON, body_of, require
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.problem_details import ProblemDetails, unknown
from noetl.server.ranges import ranged
from noetl.server.services import Services, services_of
from noetl.store.results.files import key_of, schema_hint

router = GuardedRouter(tags=["results"])
_CHECKSUM = re.compile(r"[0-9a-f]{64}")


@router.get("/api/results/{checksum}", **shows(media="application/octet-stream", summary="A stored value"))
async def stored(request: Request, checksum: str) -> Response:
    """The JSON value as it was stored, whole or by Range."""
    if not _CHECKSUM.fullmatch(checksum):
        raise unknown("result", checksum)
    try:
        body = await services_of(request).results.fetch(checksum)
    except ToolError as problem:
        if problem.kind == "result.missing":
            raise unknown("result", checksum) from None
        raise  # it will be no better when it is asked for again, so it is no error of 500 and above
    answer = ranged(request, body, tag=checksum)
    answer.headers["cache-control"] = "private, max-age=31536000, immutable"  # its name is its content
    answer.headers["content-disposition"] = f'attachment; filename="{checksum[:16]}.json"'
    return answer


@router.put("/api/results/{checksum}", **shows(Reference, summary="Store a value"))
async def store(
    request: Request, checksum: str, execution_id: Annotated[str | None, Query(max_length=100)] = None
) -> Response:
    """A worker stores what is too large for an event, before the report that names it. Doing so again changes
    nothing. Secrets that the execution has read are masked; the answer names what was stored."""
    services = services_of(request)
    require(request, (*JSON, "application/octet-stream"))
    body = await body_of(request, services.settings.max_result_bytes)
    if hashlib.sha256(body).hexdigest() != checksum:
        raise ProblemDetails(422, "the body is not what its checksum says", kind="checksum")
    try:
        hint, shortest = await asyncio.to_thread(_looked_at, body)
    except (msgspec.MsgspecError, RecursionError):
        raise ProblemDetails(400, "the body is not JSON", kind="json") from None
    if not shortest:
        raise ProblemDetails(422, "a value is stored in its shortest form: no blanks, no escapes that are not needed")
    if execution_id is not None:
        body = await _masked(services, execution_id, body)
        checksum = hashlib.sha256(body).hexdigest()
    await services.results.send(body)
    key = key_of(checksum)
    return Json(Reference(store=services.results.store, key=key, checksum=checksum, size=len(body), schema_hint=hint))


async def _masked(services: Services, execution_id: str, body: bytes) -> bytes:
    redactor = (await services.control.for_workers.mask(execution_id)).redactor
    if redactor.idle:
        return body

    def masked() -> bytes:
        return msgspec.json.encode(redactor.data(msgspec.json.decode(body)))

    return await asyncio.to_thread(masked)


def _looked_at(body: bytes) -> tuple[str, bool]:
    """What kind of value it is, and whether it is written as we write it."""
    value = msgspec.json.decode(body)
    return schema_hint(value), msgspec.json.encode(value) == body
