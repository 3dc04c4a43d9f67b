"""Dotted paths into plain data: `paging.items.0.id`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def at_path(value: Any, path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    for part in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value
