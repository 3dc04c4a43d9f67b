"""Routes of result schemas: registered by name, in versions, and found again (RES-07)."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import Request, Response

from noetl.base.clock import rfc3339
from noetl.base.errors import RefusedError
from noetl.server.bodies import read
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.problem_details import ProblemDetails, unknown
from noetl.server.services import services_of
from noetl.store.schemas import ResultSchema, find_schema, newest_schemas, register_schema

router = GuardedRouter(tags=["results"])


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
