"""Files that were built into the package, as answers: packed where the browser takes that; and parts of large answers.

The page of the web UI holds no data: it requests what it shows with the session of its user. So it needs no
authentication. A browser at an address that does not exist gets the page as well, and the page says so. Ranges are by
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
_COMPRESSED_SUFFIXES = (".png", ".gz")


def built_folder(name: str) -> Traversable:
    return files("noetl") / name


@cache
def built_files(folder: str) -> frozenset[str]:
    """The names of everything in a built folder. Only these are ever opened, never a path of a request."""
    root = built_folder(folder)
    return frozenset(_file_names(root, "")) if root.is_dir() else frozenset()


def _file_names(folder: Traversable, prefix: str) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _file_names(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name


def built_file(request: Request, folder: str, name: str, headers: Mapping[str, str]) -> Response:
    """A file of a built folder, which must be one of `built_files`."""
    suffix = name[name.rfind(".") :]
    kind = _AS_TEXT.get(suffix) or guess_type(name)[0] or "application/octet-stream"
    all_headers = {**headers, "vary": "accept-encoding"}
    if suffix in _COMPRESSED_SUFFIXES or "gzip" not in request.headers.get("accept-encoding", ""):
        body = built_folder(folder).joinpath(*name.split("/")).read_bytes()
        return Response(body, headers=all_headers, media_type=kind)
    return Response(_compressed_file(folder, name), headers=all_headers | {"content-encoding": "gzip"}, media_type=kind)


@cache
def _compressed_file(folder: str, name: str) -> bytes:
    """A built file, compressed. It is public, so compression leaks no secret."""
    # mtime=0: the same file packs to the same bytes, whenever the server was started.
    return compress(built_folder(folder).joinpath(*name.split("/")).read_bytes(), mtime=0)


# The editor sets one style attribute (the width of a tab); style elements and scripts are the page's own files only.
_POLICY = POLICY.replace("base-uri 'none'", "base-uri 'self'") + "; style-src-attr 'unsafe-inline'"
_PROGRAMS = ("/api", "/hooks")  # for programs, which read problem+json
_NOT_FOUND_STATUSES = (401, 404)
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


def ui_response(scope: Scope, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The page of the web UI, with the path prefix of this server."""
    text = _built()
    if text is not None:
        text = text.replace('<base href="/" />', f'<base href="{escape(_prefix(scope))}/" />')
    own = {"content-security-policy": _POLICY, "cache-control": "no-cache", **(headers or {})}
    return Response(text or _NOT_BUILT, status, own, "text/html; charset=utf-8")


def not_found_page(scope: Scope, status: int, headers: Mapping[str, str]) -> Response | None:
    """The page for a browser at an address that does not exist; None for other programs, or without a UI."""
    path = scope["path"].removeprefix(_prefix(scope))
    is_for_programs = any(path == prefix or path.startswith(f"{prefix}/") for prefix in _PROGRAMS)
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
    if scope["method"] != "GET" or is_for_programs or b"text/html" not in accepted:
        return None
    if status not in _NOT_FOUND_STATUSES or _built() is None:
        return None
    return ui_response(scope, status, {**headers, "cache-control": "no-store"})


def _prefix(scope: Scope) -> str:
    return str(scope.get("root_path", "")).rstrip("/")


@cache
def _built() -> str | None:
    index = folder() / "index.html"
    return index.read_text("utf-8") if index.is_file() else None


_SINGLE_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def ranged(request: Request, body: bytes, *, tag: str) -> Response:
    """`body`, JSON, or the part of it that is asked for. `tag` names this very content."""
    etag = f'"{tag}"'
    headers = {"accept-ranges": "bytes", "etag": etag, "x-content-type-options": "nosniff"}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    wanted = request.headers.get("range")
    # The content has changed since the first part was read: the parts would not fit together.
    if wanted is None or request.headers.get("if-range", etag) != etag:
        return Response(body, 200, headers, "application/json")
    span = _span(wanted, len(body))
    if span is None:
        return Response(body, 200, headers, "application/json")
    first, last = span
    return Response(
        body[first : last + 1],
        206,
        {**headers, "content-range": f"bytes {first}-{last}/{len(body)}"},
        "application/json",
    )


def _span(wanted: str, size: int) -> tuple[int, int] | None:
    match = _SINGLE_RANGE.fullmatch(wanted.strip())
    if match is None or match.group(0) == "bytes=-":
        return None
    begin, end = match.groups()
    first = int(begin) if begin else max(0, size - int(end))
    last = min(int(end), size - 1) if begin and end else size - 1
    if first >= size or (begin and end and int(end) < first) or (not begin and int(end) == 0):
        raise ProblemDetails(416, f"there are {size} bytes", headers={"content-range": f"bytes */{size}"})
    return first, last
