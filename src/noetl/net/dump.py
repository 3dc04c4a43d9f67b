"""Nets as text for people: compact, YAML-like, and the same for the same net (golden files, `noetl compile`).

Defaults are left out, as they are in JSON. Templates are unchanged. Nothing reads this form back: `net.encoding` is for
that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from noetl.net.net import Net
from noetl.templates.values import Authored

_WIDTH = 110
# Text that YAML would read as the same text without quotes; anything else is written as JSON text.
_PLAIN = re.compile(r"[A-Za-z_./][\w./ -]*(?<! )\Z")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "~"})
_FIRST = ("name", "kind", "when", "do", "to", "target")  # written first, since they identify the element
_ALWAYS = ("do", "allow")  # written even if it is the default: a rule without a directive would look like a mistake


def dump(net: Net) -> str:
    """The net, one element under another; an element that fits on one line is on one line."""
    return "\n".join(_mapping(_plain(net), 0)) + "\n"


def _plain(value: Any) -> Any:
    """Structs as mappings without their defaults, `Authored` as what it holds."""
    if isinstance(value, Authored):
        return value.data
    if isinstance(value, msgspec.Struct):
        return {
            field.encode_name: _plain(getattr(value, field.name))
            for field in msgspec.structs.fields(type(value))
            if field.name in _ALWAYS or not _is_default(getattr(value, field.name), field)
        }
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _is_default(value: Any, field: msgspec.structs.FieldInfo) -> bool:
    return bool(value == field.default or (value == {} and field.default_factory is not msgspec.NODEFAULT))


def _mapping(values: dict[str, Any], depth: int) -> Iterator[str]:
    for key, value in _ordered_items(values):
        yield from _entry(f"{'  ' * depth}{_key(key)}:", value, depth)


def _entry(head: str, value: Any, depth: int) -> Iterator[str]:
    line = f"{head} {_inline(value)}"
    if not _is_collection(value) or not value or (len(line) <= _WIDTH and not _holds_many(value)):
        if isinstance(value, str) and "\n" in value:
            yield f"{head} {_block(value)}"
            lines = value.removesuffix("\n").split("\n")
            yield from (f"{'  ' * (depth + 1)}{each}" if each else "" for each in lines)
        else:
            yield line
        return
    yield head
    yield from _mapping(value, depth + 1) if isinstance(value, dict) else _sequence(value, depth + 1)


def _block(text: str) -> str:
    """YAML's sign for a block of text, with or without a last line break."""
    return "|" if text.endswith("\n") else "|-"


def _sequence(items: list[Any], depth: int) -> Iterator[str]:
    pad = "  " * depth
    for value in items:
        line = f"{pad}- {_inline(value)}"
        if not isinstance(value, dict) or not value or (len(line) <= _WIDTH and not _holds_many(value)):
            yield line
            continue
        lines = list(_mapping(value, depth + 1))
        yield f"{pad}- {lines[0].lstrip()}"
        yield from lines[1:]


def _ordered_items(values: dict[str, Any]) -> list[tuple[str, Any]]:
    first = [(key, values[key]) for key in _FIRST if key in values]
    return first + [(key, value) for key, value in values.items() if key not in _FIRST]


def _holds_many(value: Any) -> bool:
    """Lists of mappings are easier to read one item to a line."""
    if isinstance(value, list):
        several = len(value) > 1 and any(isinstance(item, dict) for item in value)
        return several or any(_holds_many(item) for item in value)
    if isinstance(value, dict):
        return any(_holds_many(each) for each in value.values())
    return isinstance(value, str) and "\n" in value


def _is_collection(value: Any) -> bool:
    return isinstance(value, dict | list)


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(key)}: {_inline(each)}" for key, each in _ordered_items(value))
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(_inline(each) for each in value)}]"
    if isinstance(value, str) and _PLAIN.match(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


def _key(key: str) -> str:
    return key if _PLAIN.match(key) and key.lower() not in _WORDS else json.dumps(key, ensure_ascii=False)
