"""Routes for whoever is about to start or to write a playbook: what it takes, and what can be proved of a text."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import Query, Request, Response

from noetl.net.encoding import from_json
from noetl.operations.catalog import registered_version
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.playbook_texts import PlaybookText, checked, refused, text_of
from noetl.server.services import services_of
from noetl.server.views.diagnostics import shown_certificate

router = GuardedRouter(tags=["catalogue"])


class WorkloadInput(msgspec.Struct, frozen=True, kw_only=True):
    """One key of the workload. `type` is told from its default, as JSON names types."""

    name: str
    type: str
    default: Any


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """`secrets` are the names of the keychain; their values stay where they are."""

    path: str
    version: int
    inputs: list[WorkloadInput]
    secrets: list[str]


@router.get("/api/catalog/{path:path}/inputs", **shows(Inputs, summary="What a playbook takes"))
async def inputs(request: Request, path: str, version: Annotated[str | None, Query(max_length=200)] = None) -> Response:
    """The workload of a version with its defaults, for a form."""
    services = services_of(request)
    row = await registered_version(services.store.catalog, path, version)
    net = from_json(await services.store.net(row.net_hash))
    found = [WorkloadInput(name=name, type=_type(value), default=value) for name, value in net.workload.items()]
    told = Inputs(path=path, version=row.version, inputs=found, secrets=[entry.name for entry in net.keychain])
    return Json(told)


@router.post("/api/analyze", **shows(dict[str, Any], reads=PlaybookText, summary="Prove things about a playbook"))
async def analyze(request: Request) -> Response:
    """The analyser's verdict on a text, with witnesses that can be played."""
    found = await checked(await text_of(request))
    if found.certificate is None:
        raise refused(found)
    return Json(shown_certificate(found.certificate))


def _type(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "null"
