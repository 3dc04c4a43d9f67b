"""The page of the web UI, as `make ui` built it into the package.

It holds nothing of anybody's: what it shows it asks for, with the session of whoever looks. So strangers may have it. A
browser that was led to an address that is none is given it as well, and it says that there is nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources.abc import Traversable

from starlette.responses import Response
from starlette.types import Scope

from noetl.server.access.security_headers import POLICY
from noetl.server.static_files import built_folder

# The editor sets one style attribute (the width of a tab); style elements and scripts are the page's own files only.
_POLICY = POLICY.replace("base-uri 'none'", "base-uri 'self'") + "; style-src-attr 'unsafe-inline'"
_PROGRAMS = ("/api", "/hooks")  # for programs, which read problem+json
_TELLS_NOTHING = (401, 404)
_NOT_BUILT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>NoETL</title>
<h1>The server runs; its web UI is not built here</h1>
<p>In a checkout, <code>make ui</code> builds it (Node 20 or newer). Releases have it.</p>
<p>The command line does not need it: <code>noetl executions</code>.
The API is described at <a href="openapi">openapi</a>, everything else at <a href="docs/">docs</a>.</p>
"""


FOLDER = "_ui"


def folder() -> Traversable:
    return built_folder(FOLDER)


def page_for(scope: Scope, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The page, told under which prefix it is given."""
    text = _built()
    if text is not None:
        text = text.replace('<base href="/" />', f'<base href="{escape(_prefix(scope))}/" />')
    own = {"content-security-policy": _POLICY, "cache-control": "no-cache", **(headers or {})}
    return Response(text or _NOT_BUILT, status, own, "text/html; charset=utf-8")


def page_for_nothing(scope: Scope, status: int, headers: Mapping[str, str]) -> Response | None:
    """What somebody sees whose browser asks for an address that is none; None for a program, or without a UI."""
    path = scope["path"].removeprefix(_prefix(scope))
    is_for_programs = any(path == one or path.startswith(f"{one}/") for one in _PROGRAMS)
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
    if scope["method"] != "GET" or is_for_programs or b"text/html" not in accepted:
        return None
    if status not in _TELLS_NOTHING or _built() is None:
        return None
    return page_for(scope, status, {**headers, "cache-control": "no-store"})


def _prefix(scope: Scope) -> str:
    return str(scope.get("root_path", "")).rstrip("/")


@cache
def _built() -> str | None:
    index = folder() / "index.html"
    return index.read_text("utf-8") if index.is_file() else None
