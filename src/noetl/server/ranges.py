"""Ranges: parts of a large answer, by bytes (RFC 9110 §14). One range at a time; anything else gets the whole."""

from __future__ import annotations

import re

from fastapi import Request, Response

from noetl.server.problem_details import ProblemDetails

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
