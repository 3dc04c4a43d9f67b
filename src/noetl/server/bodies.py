"""Bodies: what a client sends, read within bounds and without trust (reliability.md §2.7).

JSON is strict: UTF-8, no NaN, no number out of range, no key twice, no lone surrogate, not too deep. Whatever breaks
one of these rules is 400; what is JSON and not what was asked for is 422, with every field that is not what it should
be, so that nobody has to ask once for each of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from fastapi import Request

from noetl.server.problem_details import ProblemDetails
from noetl.server.services import services_of

# As for templates: what is deeper could not be walked without fear of the recursion limit.
MAX_DEPTH = 100
JSON = ("application/json",)
YAML = ("text/yaml", "application/yaml", "application/x-yaml", "text/x-yaml", "text/plain")

_MOST = 50  # wrong fields that are told of one body; whoever sends more of them has not read the description

T = TypeVar("T")


async def read(request: Request, kind: type[T]) -> T:
    """The body as `kind`, which forbids what it does not know."""
    require(request, JSON)
    value = strict_json(await body_of(request))
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as problem:
        raise invalid(problem, flaws_of(value, kind)) from None


async def read_optional(request: Request, kind: type[T]) -> T:
    """The same where no body at all stands for an empty object."""
    body = await body_of(request)
    if not body:
        return msgspec.convert({}, kind)
    return await read(request, kind)


def invalid(problem: msgspec.ValidationError, flaws: Sequence[FieldError] = ()) -> ProblemDetails:
    """What is wrong with a body, each field of it; the first one in words."""
    first, *_ = flaws = list(flaws) or [flaw_of(problem)]
    where = f"{first.place}: " if first.place else ""
    return ProblemDetails(
        422, f"{where}{first.message}", kind="body", errors=[msgspec.to_builtins(one) for one in flaws]
    )


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def require(request: Request, allowed: tuple[str, ...]) -> None:
    """415 for a body of another content type; nothing is guessed (reliability.md §2.4)."""
    found = media_type(request)
    if found not in allowed:
        told = f'"{found[:100]}"' if found else "none"
        raise ProblemDetails(415, f"the content type is {told}; {' or '.join(allowed)} is read here")


async def body_of(request: Request, most: int | None = None) -> bytes:
    """The whole body, at most `most` bytes of it."""
    limit = services_of(request).settings.max_body_bytes if most is None else most
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large(limit)
    if (kept := getattr(request.state, "body", None)) is not None:
        return bytes(kept)
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise too_large(limit)
        parts.append(part)
    request.state.body = b"".join(parts)
    return bytes(request.state.body)


def too_large(limit: int) -> ProblemDetails:
    """What is answered to a body of more than `limit` bytes."""
    return ProblemDetails(413, f"a body has at most {limit} bytes here", headers={"connection": "close"})


def strict_json(body: bytes) -> Any:
    """The value in `body`; Problem 400 for what is not JSON by the rules above."""
    try:
        msgspec.json.decode(body)  # refuses NaN, numbers out of range, bad UTF-8 and lone surrogates
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_without_repeats)
        if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
            _check_depth(value)
    except RecursionError:
        raise _not_json(f"it is nested more than {MAX_DEPTH} deep") from None
    except (msgspec.MsgspecError, ValueError) as problem:
        raise _not_json(str(problem)) from None
    return value


def _not_json(why: str) -> ProblemDetails:
    return ProblemDetails(400, f"the body is not JSON as it is read here: {why[:200]}", kind="json")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'the key "{twice[:100]}" stands twice in one object')
    return found


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
        inner = (one for one in level if isinstance(one, dict | list))
        level = [item for one in inner for item in (one.values() if isinstance(one, dict) else one)]


class FieldError(msgspec.Struct, frozen=True):
    """`place` is a path from the body's root, empty for the body itself."""

    place: str
    message: str


def flaw_of(problem: msgspec.ValidationError, within: str = "") -> FieldError:
    """What went wrong first, at a place `within` the body."""
    message, _, place = str(problem).partition(" - at ")
    inner = place.strip("`").removeprefix("$").removeprefix(".")
    return FieldError(within + ("." if within and inner and not inner.startswith("[") else "") + inner, message)


def flaws_of(value: Any, kind: Any) -> list[FieldError]:
    """Those of a body that should be of a Struct `kind`, in the order of its fields. None for what is no object."""
    return [flaw for flaw, _ in zip(_flaws(value, kind, ""), range(_MOST), strict=False)]


def _flaws(value: Any, kind: Any, within: str) -> Iterator[FieldError]:
    if not isinstance(value, dict) or not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as problem:
            yield flaw_of(problem, within)
        return
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name, field in fields.items():
        place = f"{within}.{name}" if within else name
        if name in value:
            yield from _flaws(value[name], field.type, place)
        elif field.required:
            yield FieldError(place, "it is required")
    if kind.__struct_config__.forbid_unknown_fields:
        for name in value:
            if name not in fields:
                known = ", ".join(fields)
                yield FieldError(within, f'"{name[:100]}" is not known here; there is {known}')
