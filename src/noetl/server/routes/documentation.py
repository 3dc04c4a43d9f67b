"""The documentation, as `make docs-site` built it into the package. It holds nothing secret: strangers may read it."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256

from fastapi import Request, Response

from noetl.server.access.security_headers import POLICY
from noetl.server.guarded_router import GuardedRouter
from noetl.server.problem_details import ProblemDetails
from noetl.server.static_files import built_file, built_files, built_folder
from noetl.server.ui_files import page_for_nothing

router = GuardedRouter(include_in_schema=False)
FOLDER = "_docs"
_CACHED = "public, max-age=300"
_INLINE = re.compile(rb"<script>(.*?)</script>", re.S)
_NOT_BUILT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>NoETL documentation</title>
<h1>The documentation is not built here</h1>
<p>In a checkout, <code>make docs-site</code> builds it. Releases have it.</p>
<p>The API is described at <a href="../openapi">openapi</a>; <code>noetl --help</code> lists every command.</p>
"""


@router.get("/docs")
async def start() -> Response:
    return Response(status_code=307, headers={"location": "docs/"})


@router.get("/docs/{path:path}")
async def page(request: Request, path: str) -> Response:
    known = built_files(FOLDER)
    if not known and not path:
        return Response(_NOT_BUILT, media_type="text/html; charset=utf-8")
    if f"{path}/index.html" in known:  # links of a page begin at its folder
        return Response(status_code=307, headers={"location": f"{path.rpartition('/')[2]}/"})
    name = f"{path}index.html" if not path or path.endswith("/") else path
    if name not in known:
        nothing = page_for_nothing(request.scope, 404, {})
        if nothing is None:
            raise ProblemDetails(404, f'there is no page "{path}" in the documentation')
        return nothing
    headers = {"cache-control": _CACHED}
    if name.endswith(".html"):
        headers["content-security-policy"] = _policy(name)
    return built_file(request, FOLDER, name, headers)


@cache
def _policy(name: str) -> str:
    """The policy of a page: files of this server, and the scripts that were built into it, each by its digest."""
    body = built_folder(FOLDER).joinpath(*name.split("/")).read_bytes()
    digests = dict.fromkeys(b64encode(sha256(script).digest()).decode() for script in _INLINE.findall(body))
    allowed = " ".join(["script-src 'self'", *(f"'sha256-{digest}'" for digest in digests)])
    return POLICY.replace("script-src 'self'", allowed)
