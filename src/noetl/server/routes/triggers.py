"""Routes of triggers: playbooks that start by themselves when something new arrives. Administrators make them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from noetl.operations.administration_shapes import DeadLetterList, NewTrigger, TriggerList, TriggerView
from noetl.operations.api_shapes import DeadLettersChanged
from noetl.operations.triggers import TriggerOperations
from noetl.server.bodies import read
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.services import identity_of, services_of
from noetl.tools.kinds import load_kinds

router = GuardedRouter(tags=["triggers"])
Item = Annotated[str | None, Query(description="The item of one dead letter; all of them when left out.")]


def _operations(request: Request) -> TriggerOperations:
    services = services_of(request)
    return TriggerOperations(services.store, services.clock, load_kinds)


@router.get("/api/triggers", **shows(TriggerList, summary="List triggers"))
async def triggers(request: Request) -> Response:
    return Json(TriggerList(triggers=await _operations(request).all()))


@router.post("/api/triggers", **shows(TriggerView, reads=NewTrigger, status=201, summary="Make a trigger"))
async def create(request: Request) -> Response:
    """A server begins to poll it within seconds."""
    asked = await read(request, NewTrigger)
    return Json(await _operations(request).create(asked, by=identity_of(request).subject), status_code=201)


@router.get("/api/triggers/{name}", **shows(TriggerView, summary="One trigger"))
async def trigger(request: Request, name: str) -> Response:
    return Json(await _operations(request).get(name))


@router.delete("/api/triggers/{name}", **shows(status=204, summary="Delete a trigger"))
async def delete(request: Request, name: str) -> Response:
    """Its executions go on."""
    await _operations(request).delete(name)
    return Response(status_code=204)


@router.post("/api/triggers/{name}/pause", **shows(TriggerView, summary="Pause a trigger"))
async def pause(request: Request, name: str) -> Response:
    """What arrives meanwhile is read when it is resumed."""
    return Json(await _operations(request).pause(name))


@router.post("/api/triggers/{name}/resume", **shows(TriggerView, summary="Resume a trigger"))
async def resume(request: Request, name: str) -> Response:
    return Json(await _operations(request).resume(name))


@router.get("/api/triggers/{name}/dead-letters", **shows(DeadLetterList, summary="Items that could not be started"))
async def dead_letters(request: Request, name: str) -> Response:
    return Json(DeadLetterList(dead_letters=await _operations(request).dead_letters(name)))


@router.post("/api/triggers/{name}/dead-letters/retry", **shows(DeadLettersChanged, summary="Retry dead letters"))
async def retry(request: Request, name: str, item: Item = None) -> Response:
    """They are started at the next look."""
    return Json(DeadLettersChanged(count=await _operations(request).retry(name, item)))


@router.delete("/api/triggers/{name}/dead-letters", **shows(DeadLettersChanged, summary="Discard dead letters"))
async def discard(request: Request, name: str, item: Item = None) -> Response:
    return Json(DeadLettersChanged(count=await _operations(request).discard(name, item)))
