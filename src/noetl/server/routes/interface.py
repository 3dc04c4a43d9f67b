"""The web UI: one page with its scripts and styles, as `make ui` built them into the package.

The page holds nothing of anybody's: what it shows it asks for, with the session of whoever looks. So strangers may have
it. It is given for the address of every screen, so that a link leads to what its sender saw.
"""

from __future__ import annotations

from functools import cache
from gzip import compress
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from mimetypes import guess_type

from fastapi import APIRouter, Request, Response

from noetl.server.access.headers import POLICY
from noetl.server.problems import Problem

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
# The editor sets one style attribute (the width of a tab); style elements and scripts are the page's own files only.
_PAGE_POLICY = POLICY.replace("base-uri 'none'", "base-uri 'self'") + "; style-src-attr 'unsafe-inline'"
_NOT_BUILT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>NoETL</title>
<h1>The server runs; its web UI is not built here</h1>
<p>In a checkout, <code>make ui</code> builds it (Node 20 or newer). Releases have it.</p>
<p>The command line does not need it: <code>noetl executions</code>.
The API is described at <a href="docs">docs</a>.</p>
"""


def _folder() -> Traversable:
    return files("noetl") / "_ui"


@router.get("/")
async def page(request: Request) -> Response:
    """The page, told under which prefix it is given."""
    headers = {"content-security-policy": _PAGE_POLICY, "cache-control": "no-cache"}
    text = _page()
    if text is None:
        return Response(_NOT_BUILT, headers=headers, media_type="text/html; charset=utf-8")
    prefix = str(request.scope.get("root_path", "")).rstrip("/")
    text = text.replace('<base href="/" />', f'<base href="{escape(prefix)}/" />')
    return Response(text, headers=headers, media_type="text/html; charset=utf-8")


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
        raise Problem(404, f'there is no asset "{name}"')
    return _file(request, f"assets/{name}", _FOREVER)


def _file(request: Request, name: str, cached: str) -> Response:
    found = _folder() / name
    if not found.is_file():
        raise Problem(404, f'there is no "{name}"')
    kind = guess_type(name)[0] or "application/octet-stream"
    headers = {"cache-control": cached, "vary": "accept-encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(found.read_bytes(), headers=headers, media_type=kind)
    return Response(_packed(name), headers=headers | {"content-encoding": "gzip"}, media_type=kind)


@cache
def _packed(name: str) -> bytes:
    """Nothing of it is secret, so packing tells nobody anything."""
    return compress((_folder() / name).read_bytes(), mtime=0)


@cache
def _assets() -> frozenset[str]:
    folder = _folder() / "assets"
    return frozenset(file.name for file in folder.iterdir()) if folder.is_dir() else frozenset()


@cache
def _page() -> str | None:
    index = _folder() / "index.html"
    return index.read_text("utf-8") if index.is_file() else None
