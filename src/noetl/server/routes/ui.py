"""The web UI: its page for the address of every screen, so that a link leads to what its sender saw, and its files."""

from __future__ import annotations

from fastapi import Request, Response

from noetl.server.guarded_router import GuardedRouter
from noetl.server.problem_details import ProblemDetails
from noetl.server.static_files import built_file, built_files
from noetl.server.ui_files import FOLDER, page_for

router = GuardedRouter(include_in_schema=False)

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
    if f"assets/{name}" not in built_files(FOLDER):
        raise ProblemDetails(404, f'there is no asset "{name}"')
    return _file(request, f"assets/{name}", _FOREVER)


def _file(request: Request, name: str, cached: str) -> Response:
    if name not in built_files(FOLDER):
        raise ProblemDetails(404, f'there is no "{name}"')
    return built_file(request, FOLDER, name, {"cache-control": cached})
