"""Request bodies, read within bounds and without trust (reliability.md §2.7).

JSON is strict: UTF-8, no NaN, no number out of range, no repeated key, no lone surrogate, limited depth. A body that
breaks one of these rules gets 400. JSON that does not fit the expected type gets 422 with all its wrong fields at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from fastapi import Request

from noetl.server.problem_details import ProblemDetails
from noetl.server.services import services_of

# As for templates: deeper values could exceed Python's recursion limit.
MAX_DEPTH = 100
JSON = ("application/json",)
YAML = ("text/yaml", "application/yaml", "application/x-yaml", "text/x-yaml", "text/plain")

_MOST = 50  # wrong fields that are reported for one body

T = TypeVar("T")


async def read(request: Request, kind: type[T]) -> T:
    """The body as `kind`. 422 lists all fields that do not fit."""
    require_media_type(request, JSON)
    value = strict_json(await body_of(request))
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as problem:
        raise invalid_body(problem, field_errors(value, kind)) from None


async def read_optional(request: Request, kind: type[T]) -> T:
    """As `read`, but an empty body counts as an empty object."""
    body = await body_of(request)
    if not body:
        return msgspec.convert({}, kind)
    return await read(request, kind)


def invalid_body(problem: msgspec.ValidationError, errors: Sequence[FieldError] = ()) -> ProblemDetails:
    """422 with all wrong fields of a body; the first one is the message."""
    first, *_ = errors = list(errors) or [field_error(problem)]
    where = f"{first.place}: " if first.place else ""
    return ProblemDetails(
        422, f"{where}{first.message}", kind="body", errors=[msgspec.to_builtins(error) for error in errors]
    )


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def require_media_type(request: Request, allowed: tuple[str, ...]) -> None:
    """415 for a body of another content type; nothing is guessed (reliability.md §2.4)."""
    content_type = media_type(request)
    if content_type not in allowed:
        shown = f'"{content_type[:100]}"' if content_type else "none"
        raise ProblemDetails(415, f"the content type is {shown}; use {' or '.join(allowed)}")


async def body_of(request: Request, most: int | None = None) -> bytes:
    """The whole body, at most `most` bytes of it."""
    limit = services_of(request).settings.max_body_bytes if most is None else most
    # Refuse a declared length that is too large before reading anything.
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large(limit)
    # The stream can be read only once; a second call (`read_optional`) gets the cached body.
    if (cached := getattr(request.state, "body", None)) is not None:
        return bytes(cached)
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise too_large(limit)
        parts.append(part)
    request.state.body = b"".join(parts)
    return bytes(request.state.body)


def too_large(limit: int) -> ProblemDetails:
    """413 for a body of more than `limit` bytes."""
    # Close the connection: the client is still sending the rest of the body.
    return ProblemDetails(413, f"the body is larger than {limit} bytes", headers={"connection": "close"})


def strict_json(body: bytes) -> Any:
    """The value in `body`; 400 for text that is not JSON by the rules above."""
    try:
        msgspec.json.decode(body)  # refuses NaN, numbers out of range, bad UTF-8 and lone surrogates
        # Parse a second time: msgspec silently keeps the last of two equal keys.
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_without_repeats)
        # A body with fewer brackets cannot be deeper, so the walk over all its values is skipped.
        if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
            _check_depth(value)
    except RecursionError:
        raise _not_json(f"it is nested more than {MAX_DEPTH} deep") from None
    except (msgspec.MsgspecError, ValueError) as problem:
        raise _not_json(str(problem)) from None
    return value


def _not_json(why: str) -> ProblemDetails:
    return ProblemDetails(400, f"the body is not valid JSON: {why[:200]}", kind="json")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        # Each name is looked at once: a body of a stranger may have a hundred thousand of them.
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f'the key "{name[:100]}" appears twice in one object')
            seen.add(name)
    return value


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
        # Level by level, not by recursion: a value that is too deep would exceed the recursion limit.
        inner = (container for container in level if isinstance(container, dict | list))
        level = [
            item for container in inner for item in (container.values() if isinstance(container, dict) else container)
        ]


class FieldError(msgspec.Struct, frozen=True):
    """`place` is a path from the body's root, empty for the body itself."""

    place: str
    message: str


def field_error(problem: msgspec.ValidationError, within: str = "") -> FieldError:
    """The first error of a value at the place `within` the body."""
    message, _, place = str(problem).partition(" - at ")
    inner = place.strip("`").removeprefix("$").removeprefix(".")
    return FieldError(within + ("." if within and inner and not inner.startswith("[") else "") + inner, message)


def field_errors(value: Any, kind: Any) -> list[FieldError]:
    """All field errors of a value that should be of type `kind`, in the order of its fields, at most `_MOST`."""
    return [error for error, _ in zip(_iter_field_errors(value, kind, ""), range(_MOST), strict=False)]


def _iter_field_errors(value: Any, kind: Any, within: str) -> Iterator[FieldError]:
    if not isinstance(value, dict) or not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as problem:
            yield field_error(problem, within)
        return
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name, field in fields.items():
        place = f"{within}.{name}" if within else name
        if name in value:
            yield from _iter_field_errors(value[name], field.type, place)
        elif field.required:
            yield FieldError(place, "it is required")
    if kind.__struct_config__.forbid_unknown_fields:
        for name in value:
            if name not in fields:
                known = ", ".join(fields)
                yield FieldError(within, f'unknown field "{name[:100]}"; the fields are {known}')
