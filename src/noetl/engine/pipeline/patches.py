"""Patches: reading and writing dotted paths of plain data (SCOPE-04).

Only mappings along a written path are copied, so the old value does not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def apply_patch(data: dict[str, Any], patch: Mapping[str, Any]) -> None:
    """Replace each key of `patch` in `data`; a dotted key replaces the value at that path, null included."""
    own: set[int] = set()  # mappings that were copied for this patch: many keys below one of them copy it once
    for key, value in patch.items():
        if "." in key:
            _set_path(data, key.split("."), value, own)
        else:
            data[key] = value


def patched(data: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `data` with `patch` written into it."""
    copy = dict(data)
    apply_patch(copy, patch)
    return copy


def put_last(writes: dict[str, Any], key: str, value: Any) -> None:
    """Add to `writes`, which become one patch, at the end even if the key is written again: keys inside it or around
    it were written before (SCOPE-04)."""
    writes.pop(key, None)
    writes[key] = value


def _set_path(data: dict[str, Any], path: list[str], value: Any, own: set[int]) -> None:
    *around, last = path
    for part in around:
        inner: Any = data.get(part)
        if id(inner) not in own:
            inner = dict(inner) if isinstance(inner, dict) else {}
            own.add(id(inner))
            data[part] = inner
        data = inner
    data[last] = value


def at_path(value: Any, path: str) -> Any:
    """The value at a dotted path such as `paging.items.0.id`; None where there is none."""
    for part in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value
