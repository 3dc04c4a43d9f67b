"""Routes of results: large values and tables by their checksum, and the schemas that results must have (RES-07).

Workers store and fetch values and tables, a table as a file (RES-01, RES-05). People read parts of a value and pages of
rows.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

import msgspec
from fastapi import Query, Request, Response
from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from noetl.base.errors import RefusedError, ToolError
from noetl.events.outcomes import PARQUET, Reference
from noetl.operations.api_shapes import TablePage, view_of
from noetl.operations.value_pages import MOST_ENTRIES, ValuePage, opened_tables, table_page
from noetl.server.bodies import JSON, body_of, read, require_media_type, too_large
from noetl.server.computations import computed, encoded_page, masked_body, written_as
from noetl.server.guarded_router import GuardedRouter, Json, openapi_docs
from noetl.server.problem_details import ProblemDetails, not_found
from noetl.server.routes.orders import check_holder
from noetl.server.services import Services, services_of
from noetl.server.static_files import ranged
from noetl.store.installation import find_schema, newest_schemas, register_schema
from noetl.store.results.files import is_checksum, key_of, table_reference

router = GuardedRouter(tags=["results"])


@router.get("/api/results/{checksum}", **openapi_docs(media="application/octet-stream", summary="A stored value"))
async def stored(request: Request, checksum: str) -> Response:
    """The JSON value as it was stored, whole or by Range."""
    body = await _stored_body(request, checksum)
    answer = ranged(request, body, tag=checksum)
    answer.headers["content-disposition"] = f'attachment; filename="{checksum[:16]}.json"'
    return answer


async def _stored_body(request: Request, checksum: str) -> bytes:
    if not is_checksum(checksum):
        raise not_found("result", checksum)
    try:
        return await services_of(request).results.fetch(checksum)
    except ToolError as problem:
        if problem.kind == "result.missing":
            raise not_found("result", checksum) from None
        raise  # it will be no better when it is asked for again, so it is no error of 500 and above


Pointer = Annotated[str, Query(max_length=2000, description="A JSON pointer; empty for all of it.")]
Offset = Annotated[int, Query(ge=0, le=1 << 53)]
Limit = Annotated[int, Query(ge=1, le=MOST_ENTRIES)]


@router.get("/api/results/{checksum}/part", **openapi_docs(ValuePage, summary="A part of a stored value"))
async def part(
    request: Request, checksum: str, pointer: Pointer = "", offset: Offset = 0, limit: Limit = 100
) -> Response:
    """What a JSON pointer leads to: whole where it is small, else a page of its entries."""
    return await page_response(await _stored_body(request, checksum), pointer, offset, limit)


async def page_response(body: bytes, pointer: str, offset: int, limit: int) -> Response:
    """A page of an encoded value."""
    try:
        return Json(await encoded_page(body, pointer, offset, limit))
    except RefusedError as problem:
        raise ProblemDetails(422, str(problem), kind="pointer") from None


WorkerId = Annotated[str, Query(min_length=1, max_length=500, description="The id of the worker that asks.")]
ExecutionId = Annotated[str, Query(min_length=1, max_length=100, description="One that it holds an order of.")]


@router.put("/api/results/{checksum}", **openapi_docs(Reference, summary="Store a value"))
async def store(request: Request, checksum: str, worker_id: WorkerId, execution_id: ExecutionId) -> Response:
    """A worker stores what is too large for an event, before the report that names it. Doing so again changes
    nothing. Secrets that the execution has read are masked; the answer names what was stored."""
    services = services_of(request)
    require_media_type(request, (*JSON, "application/octet-stream"))
    # It is masked with the secrets of this execution: a worker must not choose another one, which has read none.
    await check_holder(request, worker_id, execution_id)
    body = await body_of(request, services.settings.max_result_bytes)
    # A value is stored under its hash: a worker must not be able to put another one in its place.
    if await computed(_checksum_of, body) != checksum:
        raise ProblemDetails(422, "the body does not match its checksum", kind="checksum")
    try:
        written = await written_as(body)
    except (msgspec.MsgspecError, RecursionError):
        raise ProblemDetails(400, "the body is not JSON", kind="json") from None
    # One value has one hash only if it is written in one way.
    if not written.is_shortest:
        raise ProblemDetails(422, "a value is stored in its shortest form: no blanks, no escapes that are not needed")
    # Another worker of the execution may have read the secret; this one does not know it and could not mask it.
    body = await _masked_body(services, execution_id, body)
    checksum = await computed(_checksum_of, body)
    await services.results.send(body)
    key = key_of(checksum)
    return Json(
        Reference(
            store=services.results.store, key=key, checksum=checksum, size=len(body), schema_hint=written.schema_hint
        )
    )


def _checksum_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


async def _masked_body(services: Services, execution_id: str, body: bytes) -> bytes:
    redactor = (await services.control.for_workers.mask(execution_id)).redactor
    return body if redactor.idle else await masked_body(body, redactor)


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


@router.get("/api/schemas", **openapi_docs(Schemas, summary="List result schemas"))
async def schemas(request: Request) -> Response:
    """The newest version of each."""
    newest = await newest_schemas(services_of(request).store.key_values)
    return Json(Schemas(schemas=[view_of(SchemaView, row) for row in newest]))


@router.get("/api/schemas/{name}", **openapi_docs(SchemaView, summary="One result schema"))
async def schema(request: Request, name: str) -> Response:
    """The newest of a name, or that of a version: `orders`, `orders@2`."""
    row = await find_schema(services_of(request).store.key_values, name)
    if row is None:
        raise not_found("schema", name)
    return Json(view_of(SchemaView, row))


@router.put(
    "/api/schemas/{name}", **openapi_docs(SchemaView, reads=RegisteringSchema, summary="Register a result schema")
)
async def register(request: Request, name: str) -> Response:
    """A new version, unless the newest one says the same."""
    services, asked = services_of(request), await read(request, RegisteringSchema)
    try:
        made = await register_schema(services.store.key_values, name, asked.schema, at=services.clock.now())
    except RefusedError as problem:
        raise ProblemDetails(422, str(problem), kind="schema") from None
    return Json(view_of(SchemaView, made))


MOST_ROWS = 10_000  # of a page


@router.put("/api/results/{checksum}/table", **openapi_docs(Reference, summary="Store a table"))
async def store_table(request: Request, checksum: str, worker_id: WorkerId, execution_id: ExecutionId) -> Response:
    """A worker stores rows as Parquet, before the report that names them. Secrets that the execution has read are
    masked; the answer names what was stored."""
    services = services_of(request)
    require_media_type(request, (PARQUET,))
    await check_holder(request, worker_id, execution_id)
    async with opened_tables() as (tables, folder):
        file = folder / "received.parquet"
        if await _receive_file(request, file, services.settings.max_table_bytes) != checksum:
            raise ProblemDetails(422, "the body does not match its checksum", kind="checksum")
        forms = (await services.control.for_workers.mask(execution_id)).redactor.forms
        try:
            await tables.shape(execution_id, file)  # accepts any table that a worker sends
            await tables.mask(execution_id, file, forms)
        except ToolError as problem:
            if problem.kind == "tool.unknown_kind":
                message = 'this server cannot look through tables: pip install "noetl-engine[duckdb]" there'
                raise ProblemDetails(422, message, kind="table") from None
            raise ProblemDetails(400, "the body is not Parquet", kind="table") from None
        stored, size = await services.results.send_file(file), file.stat().st_size
    return Json(table_reference(services.results.store, stored, size))


@router.get("/api/results/{checksum}/table", **openapi_docs(media=PARQUET, summary="A stored table"))
async def table(request: Request, checksum: str) -> Response:
    """The file, in Parquet."""
    results = services_of(request).results
    if not is_checksum(checksum):
        raise not_found("table", checksum)
    folder = None
    try:
        file = results.table_file(checksum)
        if file is None:  # it lies elsewhere: a copy of it goes with the answer
            folder = Path(tempfile.mkdtemp(prefix="noetl-table-"))
            file = folder / "fetched.parquet"
            await results.fetch_file(checksum, file)
    # Also when the request is cancelled: otherwise the response removes the folder once it is sent.
    except BaseException as problem:
        _remove(folder)
        if isinstance(problem, ToolError) and problem.kind == "result.missing":
            raise not_found("table", checksum) from None
        raise
    name = f"{checksum[:16]}.parquet"
    gone = BackgroundTask(_remove, folder)
    return FileResponse(file, media_type=PARQUET, filename=name, background=gone)


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


async def _receive_file(request: Request, file: Path, most: int) -> str:
    """Write the body to a file as it comes; returns its checksum."""
    digest, size = hashlib.sha256(), 0
    with file.open("wb") as into:
        # To the disk and not to memory: a table may have gigabytes.
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise too_large(most)
            digest.update(part)
            into.write(part)
    return digest.hexdigest()


@router.get("/api/results/{checksum}/rows", **openapi_docs(TablePage, summary="Rows of a stored table"))
async def rows(
    request: Request,
    checksum: str,
    offset: Annotated[int, Query(ge=0, le=1 << 53)] = 0,
    limit: Annotated[int, Query(ge=0, le=MOST_ROWS)] = 100,
) -> Response:
    """A page of rows as JSON, in the order in which they were stored."""
    try:
        return Json(await table_page(services_of(request).results, checksum, offset=offset, limit=limit))
    except ToolError as problem:
        if problem.kind == "result.missing":
            raise not_found("table", checksum) from None
        raise
