"""Stored tables by their checksum: streamed as files for workers, and read in pages by people (RES-01, RES-05)."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

from fastapi import Query, Request, Response
from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from noetl.base.errors import ToolError
from noetl.events.outcomes import PARQUET, Reference
from noetl.operations.api_shapes import TablePage
from noetl.operations.value_pages import opened_tables, table_page
from noetl.server.bodies import require, too_large
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.problem_details import ProblemDetails, unknown
from noetl.server.services import services_of
from noetl.store.results.files import is_checksum, table_reference

router = GuardedRouter(tags=["results"])
MOST_ROWS = 10_000  # of a page


@router.put("/api/results/{checksum}/table", **shows(Reference, summary="Store a table"))
async def store(
    request: Request, checksum: str, execution_id: Annotated[str, Query(min_length=1, max_length=100)]
) -> Response:
    """A worker stores rows as Parquet, before the report that names them. Secrets that the execution has read are
    masked; the answer names what was stored."""
    services = services_of(request)
    require(request, (PARQUET,))
    async with opened_tables() as (tables, folder):
        file = folder / "received.parquet"
        if await _received(request, file, services.settings.max_table_bytes) != checksum:
            raise ProblemDetails(422, "the body is not what its checksum says", kind="checksum")
        forms = (await services.control.for_workers.mask(execution_id)).redactor.forms
        try:
            await tables.shape(execution_id, file)  # whatever a worker sends as a table is one
            await tables.mask(execution_id, file, forms)
        except ToolError as problem:
            if problem.kind == "tool.unknown_kind":
                message = "this server cannot look through tables: install noetl-engine[duckdb] there"
                raise ProblemDetails(422, message, kind="table") from None
            raise ProblemDetails(400, "the body is not Parquet", kind="table") from None
        stored, size = await services.results.send_file(file), file.stat().st_size
    return Json(table_reference(services.results.store, stored, size))


@router.get("/api/results/{checksum}/table", **shows(media=PARQUET, summary="A stored table"))
async def stored(request: Request, checksum: str) -> Response:
    """The file, in Parquet."""
    results = services_of(request).results
    if not is_checksum(checksum):
        raise unknown("table", checksum)
    folder = None
    try:
        file = results.table_file(checksum)
        if file is None:  # it lies elsewhere: a copy of it goes with the answer
            folder = Path(tempfile.mkdtemp(prefix="noetl-table-"))
            file = folder / "fetched.parquet"
            await results.fetch_file(checksum, file)
    except BaseException as problem:
        _remove(folder)
        if isinstance(problem, ToolError) and problem.kind == "result.missing":
            raise unknown("table", checksum) from None
        raise
    headers = {"cache-control": "private, max-age=31536000, immutable"}  # its name is its content
    name = f"{checksum[:16]}.parquet"
    gone = BackgroundTask(_remove, folder)
    return FileResponse(file, headers=headers, media_type=PARQUET, filename=name, background=gone)


def _remove(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


async def _received(request: Request, file: Path, most: int) -> str:
    """Write the body to a file as it comes; returns its checksum."""
    digest, size = hashlib.sha256(), 0
    with file.open("wb") as into:
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise too_large(most)
            digest.update(part)
            into.write(part)
    return digest.hexdigest()


@router.get("/api/results/{checksum}/rows", **shows(TablePage, summary="Rows of a stored table"))
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
            raise unknown("table", checksum) from None
        raise
