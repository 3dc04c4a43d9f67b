"""Pages for people: the documentation that `make docs-site` built into the package, and the web UI.

Neither holds anything secret, so strangers may read them. The page of the UI is the answer for the address of every
screen, so that a link leads to what its sender saw.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256

from fastapi import Request, Response

from noetl.server.access.request_check import POLICY
from noetl.server.access.roles import SCREENS
from noetl.server.guarded_router import GuardedRouter
from noetl.server.problem_details import ProblemDetails
from noetl.server.static_files import UI_FOLDER, built_file, built_files, built_folder, not_found_page, ui_response

router = GuardedRouter(include_in_schema=False)
DOCS_FOLDER = "_docs"
_CACHED = "public, max-age=300"
# The scripts that the build put into the page; the content security policy names each by its digest, and no other runs.
_INLINE = re.compile(rb"<script>(.*?)</script>", re.S)
_NOT_BUILT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>NoETL documentation</title>
<h1>The documentation is not built here</h1>
<p>This server was installed without it. In the clone of NoETL, <code>make wheel</code> builds a wheel that has it:
install that one, and restart the server. A server that runs from the clone itself needs
<code>make docs-site</code>.</p>
<p>The same pages are the files in the folder <code>docs</code> of the clone.</p>
<p>The API is described at <a href="../openapi">openapi</a>; <code>noetl --help</code> lists every command.</p>
"""


@router.get("/docs")
async def start() -> Response:
    # Relative, as the server may be reached under a prefix that only its proxy knows.
    return Response(status_code=307, headers={"location": "docs/"})


@router.get("/docs/{path:path}")
async def documentation_page(request: Request, path: str) -> Response:
    known = built_files(DOCS_FOLDER)
    if not known and not path:
        return Response(_NOT_BUILT, media_type="text/html; charset=utf-8")
    if f"{path}/index.html" in known:  # links of a page begin at its folder
        return Response(status_code=307, headers={"location": f"{path.rpartition('/')[2]}/"})
    name = f"{path}index.html" if not path or path.endswith("/") else path
    if name not in known:
        nothing = not_found_page(request.scope, 404, {})
        if nothing is None:
            raise ProblemDetails(404, f'there is no page "{path}" in the documentation')
        return nothing
    headers = {"cache-control": _CACHED}
    if name.endswith(".html"):
        headers["content-security-policy"] = _policy(name)
    return built_file(request, DOCS_FOLDER, name, headers)


@cache
def _policy(name: str) -> str:
    """The policy of a page: files of this server, and the scripts that were built into it, each by its digest."""
    body = built_folder(DOCS_FOLDER).joinpath(*name.split("/")).read_bytes()
    digests = dict.fromkeys(b64encode(sha256(script).digest()).decode() for script in _INLINE.findall(body))
    allowed = " ".join(["script-src 'self'", *(f"'sha256-{digest}'" for digest in digests)])
    return POLICY.replace("script-src 'self'", allowed)


_FOREVER = "public, max-age=31536000, immutable"  # names of these files are made from what is in them


@router.get("/")
async def ui_page(request: Request) -> Response:
    return ui_response(request.scope)


for _screen in SCREENS:
    router.add_api_route(f"/{_screen}", ui_page, methods=["GET"])
    router.add_api_route(f"/{_screen}/{{rest:path}}", ui_page, methods=["GET"])


@router.get("/favicon.svg")
async def icon(request: Request) -> Response:
    return _file(request, "favicon.svg", "public, max-age=86400")


@router.get("/assets/{name}")
async def asset(request: Request, name: str) -> Response:
    """A script or style by its name; no path of a request is ever opened, only names that were built."""
    if f"assets/{name}" not in built_files(UI_FOLDER):
        raise ProblemDetails(404, f'there is no asset "{name}"')
    return _file(request, f"assets/{name}", _FOREVER)


def _file(request: Request, name: str, cached: str) -> Response:
    if name not in built_files(UI_FOLDER):
        raise ProblemDetails(404, f'there is no "{name}"')
    try:
        return built_file(request, UI_FOLDER, name, {"cache-control": cached})
    except FileNotFoundError:  # a new version was installed while this server runs: the names are of another build
        raise ProblemDetails(404, f'there is no "{name}"') from None
