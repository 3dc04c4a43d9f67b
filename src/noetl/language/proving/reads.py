"""Reads and writes of authored values: which names templates read, which keys a mapping sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from noetl.base.errors import TemplateError
from noetl.base.source import is_template
from noetl.templates.authored import Authored
from noetl.templates.expression import parse
from noetl.templates.logic import GuardReference


def references(*values: Authored | None) -> tuple[GuardReference, ...]:
    """Every name read by the templates in `values`, keys of mappings included."""
    found: dict[GuardReference, None] = {}
    for value in values:
        if value is not None:
            for text in _texts(value.data):
                found |= dict.fromkeys(_read(text))
    return tuple(found)


def tells_time(*values: Authored | None) -> bool:
    """Whether a template asks for the time, which changes by itself."""
    return any("now(" in text for value in values if value is not None for text in _texts(value.data))


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        if is_template(data):
            yield data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _texts(key)
            yield from _texts(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _texts(value)


def _read(text: str) -> tuple[GuardReference, ...]:
    try:
        return parse(text).references
    except TemplateError:
        return ()  # the compiler has said so already


class ReadKeys(msgspec.Struct, frozen=True):
    """Top-level keys that are written; `unknown` when some are computed, so that any key may be."""

    names: frozenset[str] = frozenset()
    unknown: bool = False

    def __or__(self, other: ReadKeys) -> ReadKeys:
        return ReadKeys(self.names | other.names, self.unknown or other.unknown)

    def __contains__(self, name: object) -> bool:
        return self.unknown or name in self.names


def keys(*values: Authored | None) -> ReadKeys:
    """The keys that mappings set; `a.b` sets (part of) `a` (SCOPE-04)."""
    found = ReadKeys()
    for value in values:
        if value is None or value.data is None:
            continue
        if not isinstance(value.data, dict):
            found |= ReadKeys(unknown=True)
            continue
        for key in value.data:
            found |= (
                ReadKeys(unknown=True) if is_template(str(key)) else ReadKeys(frozenset({str(key).split(".", 1)[0]}))
            )
    return found
