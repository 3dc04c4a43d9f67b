"""The API's own description: OpenAPI 3.1, and a page that shows it without anything from elsewhere (design.md §6)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import Request, Response

from noetl.server.guarded_router import GuardedRouter, Json, shows

router = GuardedRouter(tags=["operation"])
_OWN = ("script-src", "style-src", "connect-src")
_NONE = ("default-src", "base-uri", "frame-ancestors", "form-action")
_POLICY = "; ".join([*(f"{what} 'none'" for what in _NONE), *(f"{what} 'self'" for what in _OWN)])
_KINDS = {
    "index.html": "text/html; charset=utf-8",
    "docs.js": "text/javascript; charset=utf-8",
    "docs.css": "text/css; charset=utf-8",
}


@router.get("/openapi.json", **shows(dict[str, Any], summary="This description"))
async def openapi(request: Request) -> Response:
    return Json(request.app.openapi())


@router.get("/openapi", **shows(media="text/html", summary="This description, to read"))
async def page() -> Response:
    return _file("index.html")


@router.get("/openapi/docs.js", include_in_schema=False)
async def script() -> Response:
    return _file("docs.js")


@router.get("/openapi/docs.css", include_in_schema=False)
async def style() -> Response:
    return _file("docs.css")


def _file(name: str) -> Response:
    headers = {"content-security-policy": _POLICY, "x-content-type-options": "nosniff"}
    return Response(_text(name), headers=headers, media_type=_KINDS[name])


@cache
def _text(name: str) -> str:
    return (files("noetl.server") / "pages" / name).read_text("utf-8")
