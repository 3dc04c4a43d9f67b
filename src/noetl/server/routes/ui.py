"""The web UI: its page for the address of every screen, so that a link leads to what its sender saw, and its files."""

from __future__ import annotations

from functools import cache
from gzip import compress
from mimetypes import guess_type

from fastapi import APIRouter, Request, Response

from noetl.server.problem_details import ProblemDetails
from noetl.server.ui_files import folder, page_for

router = APIRouter(include_in_schema=False)

SCREENS = (
    "catalog",
    "executions",
    "tasks",
    "schedules",
    "messages",
    "workers",
    "credentials",
    "settings",
    "audit",
)
_FOREVER = "public, max-age=31536000, immutable"  # names of these files are made from what is in them


@router.get("/")
async def page(request: Request) -> Response:
    return page_for(request.scope)


for _screen in SCREENS:
    router.add_api_route(f"/{_screen}", page, methods=["GET"])
    router.add_api_route(f"/{_screen}/{{rest:path}}", page, methods=["GET"])


@router.get("/favicon.svg")
async def icon(request: Request) -> Response:
    return _file(request, "favicon.svg", "public, max-age=86400")


@router.get("/assets/{name}")
async def asset(request: Request, name: str) -> Response:
    """A script or style by its name; no path of a request is ever opened, only names that were built."""
    if name not in _assets():
        raise ProblemDetails(404, f'there is no asset "{name}"')
    return _file(request, f"assets/{name}", _FOREVER)


def _file(request: Request, name: str, cached: str) -> Response:
    found = folder() / name
    if not found.is_file():
        raise ProblemDetails(404, f'there is no "{name}"')
    kind = guess_type(name)[0] or "application/octet-stream"
    headers = {"cache-control": cached, "vary": "accept-encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(found.read_bytes(), headers=headers, media_type=kind)
    return Response(_packed(name), headers=headers | {"content-encoding": "gzip"}, media_type=kind)


@cache
def _packed(name: str) -> bytes:
    """Nothing of it is secret, so packing tells nobody anything."""
    return compress((folder() / name).read_bytes(), mtime=0)


@cache
def _assets() -> frozenset[str]:
    built = folder() / "assets"
    return frozenset(file.name for file in built.iterdir()) if built.is_dir() else frozenset()
