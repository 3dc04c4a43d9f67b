"""Files that were built into the package, as answers: packed where the browser takes that; and parts of large answers.

The page of the web UI holds nothing of anybody's: it asks for what it shows, with the session of whoever looks. So
strangers may have it. A browser at an address that does not exist is given it as well, and it says so. Ranges are by
bytes (RFC 9110 §14), one at a time; anything else gets the whole answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from gzip import compress
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from mimetypes import guess_type

from fastapi import Request, Response
from starlette.types import Scope

from noetl.server.access.request_check import POLICY
from noetl.server.problem_details import ProblemDetails

_AS_TEXT = {".yaml": "text/plain; charset=utf-8"}  # shown, where a browser would store it
_PACKED_ALREADY = (".png", ".gz")


def built_folder(name: str) -> Traversable:
    return files("noetl") / name


@cache
def built_files(folder: str) -> frozenset[str]:
    """The names of everything in a built folder. Only these are ever opened, never a path of a request."""
    root = built_folder(folder)
    return frozenset(_walked(root, "")) if root.is_dir() else frozenset()


def _walked(folder: Traversable, prefix: str) -> Iterator[str]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _walked(one, f"{prefix}{one.name}/")
        else:
            yield prefix + one.name


def built_file(request: Request, folder: str, name: str, headers: Mapping[str, str]) -> Response:
    """A file of a built folder, which must be one of `built_files`."""
    suffix = name[name.rfind(".") :]
    kind = _AS_TEXT.get(suffix) or guess_type(name)[0] or "application/octet-stream"
    given = {**headers, "vary": "accept-encoding"}
    if suffix in _PACKED_ALREADY or "gzip" not in request.headers.get("accept-encoding", ""):
        body = built_folder(folder).joinpath(*name.split("/")).read_bytes()
        return Response(body, headers=given, media_type=kind)
    return Response(_packed(folder, name), headers=given | {"content-encoding": "gzip"}, media_type=kind)


@cache
def _packed(folder: str, name: str) -> bytes:
    """Nothing of it is secret, so packing tells nobody anything."""
    return compress(built_folder(folder).joinpath(*name.split("/")).read_bytes(), mtime=0)


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


UI_FOLDER = "_ui"


def folder() -> Traversable:
    return built_folder(UI_FOLDER)


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


_ONE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def ranged(request: Request, body: bytes, *, tag: str, media_type: str = "application/json") -> Response:
    """`body`, or the part of it that is asked for. `tag` names this very content."""
    etag = f'"{tag}"'
    headers = {"accept-ranges": "bytes", "etag": etag, "x-content-type-options": "nosniff"}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    wanted = request.headers.get("range")
    if wanted is None or request.headers.get("if-range", etag) != etag:
        return Response(body, 200, headers, media_type)
    span = _span(wanted, len(body))
    if span is None:
        return Response(body, 200, headers, media_type)
    first, last = span
    return Response(
        body[first : last + 1], 206, {**headers, "content-range": f"bytes {first}-{last}/{len(body)}"}, media_type
    )


def _span(wanted: str, size: int) -> tuple[int, int] | None:
    match = _ONE.fullmatch(wanted.strip())
    if match is None or match.group(0) == "bytes=-":
        return None
    begin, end = match.groups()
    first = int(begin) if begin else max(0, size - int(end))
    last = min(int(end), size - 1) if begin and end else size - 1
    if first >= size or (begin and end and int(end) < first) or (not begin and int(end) == 0):
        raise ProblemDetails(416, f"there are {size} bytes", headers={"content-range": f"bytes */{size}"})
    return first, last
