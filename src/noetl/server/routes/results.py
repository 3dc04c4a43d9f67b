"""Routes of results: large values by their checksum, and the schemas that results must have, in versions (RES-07)."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from fastapi import Query, Request, Response

from noetl.base.clock import rfc3339
from noetl.base.errors import RefusedError, ToolError
from noetl.events.outcomes import Reference
from noetl.operations.value_pages import MOST_ENTRIES, ValuePage, value_page
from noetl.server.bodies import JSON, body_of, read, require
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.problem_details import ProblemDetails, unknown
from noetl.server.services import Services, services_of
from noetl.server.static_files import ranged
from noetl.store.installation import ResultSchema, find_schema, newest_schemas, register_schema
from noetl.store.results.files import key_of, schema_hint

router = GuardedRouter(tags=["results"])
_CHECKSUM = re.compile(r"[0-9a-f]{64}")


@router.get("/api/results/{checksum}", **shows(media="application/octet-stream", summary="A stored value"))
async def stored(request: Request, checksum: str) -> Response:
    """The JSON value as it was stored, whole or by Range."""
    body = await _stored_body(request, checksum)
    answer = ranged(request, body, tag=checksum)
    answer.headers["cache-control"] = "private, max-age=31536000, immutable"  # its name is its content
    answer.headers["content-disposition"] = f'attachment; filename="{checksum[:16]}.json"'
    return answer


async def _stored_body(request: Request, checksum: str) -> bytes:
    if not _CHECKSUM.fullmatch(checksum):
        raise unknown("result", checksum)
    try:
        return await services_of(request).results.fetch(checksum)
    except ToolError as problem:
        if problem.kind == "result.missing":
            raise unknown("result", checksum) from None
        raise  # it will be no better when it is asked for again, so it is no error of 500 and above


Pointer = Annotated[str, Query(max_length=2000, description="A JSON pointer; empty for all of it.")]
Offset = Annotated[int, Query(ge=0, le=1 << 53)]
Limit = Annotated[int, Query(ge=1, le=MOST_ENTRIES)]


@router.get("/api/results/{checksum}/part", **shows(ValuePage, summary="A part of a stored value"))
async def part(
    request: Request, checksum: str, pointer: Pointer = "", offset: Offset = 0, limit: Limit = 100
) -> Response:
    """What a JSON pointer leads to: whole where it is small, else a page of its entries."""
    body = await _stored_body(request, checksum)
    return await answered_page(lambda: msgspec.json.decode(body), pointer, offset, limit)


async def answered_page(load: Callable[[], Any], pointer: str, offset: int, limit: int) -> Response:
    """A page of what `load` gives. In a thread: a large value takes its time, and others are served meanwhile."""
    try:
        return Json(await asyncio.to_thread(lambda: value_page(load(), pointer, offset=offset, limit=limit)))
    except RefusedError as problem:
        raise ProblemDetails(422, str(problem), kind="pointer") from None


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
        # In a thread, here and below: parsing tens of megabytes would hold up everybody.
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


class RegisteringSchema(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`schema` is the part of JSON Schema that says what data looks like."""

    schema: dict[str, Any] | bool


class SchemaView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    version: int
    schema: Any
    registered_at: str


class Schemas(msgspec.Struct, frozen=True, kw_only=True):
    schemas: list[SchemaView]


@router.get("/api/schemas", **shows(Schemas, summary="List result schemas"))
async def schemas(request: Request) -> Response:
    """The newest version of each."""
    found = await newest_schemas(services_of(request).store.key_values)
    return Json(Schemas(schemas=[_schema_view(one) for one in found]))


@router.get("/api/schemas/{name}", **shows(SchemaView, summary="One result schema"))
async def schema(request: Request, name: str) -> Response:
    """The newest of a name, or that of a version: `orders`, `orders@2`."""
    found = await find_schema(services_of(request).store.key_values, name)
    if found is None:
        raise unknown("schema", name)
    return Json(_schema_view(found))


@router.put("/api/schemas/{name}", **shows(SchemaView, reads=RegisteringSchema, summary="Register a result schema"))
async def register(request: Request, name: str) -> Response:
    """A new version, unless the newest one says the same."""
    services, asked = services_of(request), await read(request, RegisteringSchema)
    try:
        made = await register_schema(services.store.key_values, name, asked.schema, at=services.clock.now())
    except RefusedError as problem:
        raise ProblemDetails(422, str(problem), kind="schema") from None
    return Json(_schema_view(made))


def _schema_view(one: ResultSchema) -> SchemaView:
    return SchemaView(name=one.name, version=one.version, schema=one.schema, registered_at=rfc3339(one.registered_at))
