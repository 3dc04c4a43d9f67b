"""Flaws of a body: every field that is not what it should be, not the first one only, so that nobody has to ask once
for each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

_MOST = 50  # of one body; whoever sends more of them has not read the description


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
