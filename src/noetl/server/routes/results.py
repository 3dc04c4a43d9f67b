"""Stored results by their checksum: read in parts by people and workers, stored by workers (RES-01, RES-02)."""

from __future__ import annotations

import asyncio
import hashlib
import re

import msgspec
from fastapi import APIRouter, Request, Response

from noetl.errors import ToolError
from noetl.records.references import Reference
from noetl.server.bodies import JSON, body_of, require
from noetl.server.problems import Problem, unknown
from noetl.server.ranges import ranged
from noetl.server.routing import Json, shows
from noetl.server.services import services_of

router = APIRouter(tags=["results"])
_CHECKSUM = re.compile(r"[0-9a-f]{64}")


@router.get("/api/results/{checksum}", **shows(media="application/octet-stream", summary="A stored value"))
async def stored(request: Request, checksum: str) -> Response:
    """The JSON value as it was stored, whole or by Range."""
    if not _CHECKSUM.fullmatch(checksum):
        raise unknown("result", checksum)
    try:
        body = await asyncio.to_thread(services_of(request).results.body, checksum)
    except ToolError as problem:
        if problem.kind == "result.missing":
            raise unknown("result", checksum) from None
        raise Problem(500, problem.message, kind=problem.kind) from None
    answer = ranged(request, body, tag=checksum)
    answer.headers["cache-control"] = "private, max-age=31536000, immutable"  # its name is its content
    answer.headers["content-disposition"] = f'attachment; filename="{checksum[:16]}.json"'
    return answer


@router.put("/api/results/{checksum}", **shows(Reference, summary="Store a value"))
async def store(request: Request, checksum: str) -> Response:
    """A worker stores what is too large for an event, before the report that names it. Doing so again changes
    nothing."""
    services = services_of(request)
    require(request, (*JSON, "application/octet-stream"))
    body = await body_of(request, services.settings.max_result_bytes)
    if hashlib.sha256(body).hexdigest() != checksum:
        raise Problem(422, "the body is not what its checksum says", kind="checksum")
    try:
        value = await asyncio.to_thread(msgspec.json.decode, body)
        reference = await asyncio.to_thread(services.results.put, value)
    except (msgspec.MsgspecError, RecursionError):
        raise Problem(400, "the body is not JSON", kind="json") from None
    if reference.checksum != checksum:
        raise Problem(422, "a value is stored in its shortest form: no blanks, no escapes that are not needed")
    return Json(reference)
