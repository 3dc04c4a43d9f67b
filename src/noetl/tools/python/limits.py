"""Limits of one call of a python child, from `spec.resources` (TOOL-07)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from noetl.durations import seconds
from noetl.errors import ToolError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmg]i?)?b?\Z", re.IGNORECASE)


def limits_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """`memory` and `file_size` as bytes or text (512Mi, 1GB), `cpu_time` as seconds or a duration, `open_files`."""
    resources = spec.get("resources") or {}
    if not isinstance(resources, dict):
        raise ToolError("py.exception", "spec.resources must be a mapping such as {memory: 512Mi, cpu_time: 30}")
    limits: dict[str, Any] = {}
    if (memory := resources.get("memory")) is not None:
        limits["memory_bytes"] = size_bytes(memory)
    if (cpu := resources.get("cpu_time")) is not None:
        limits["cpu_s"] = seconds(cpu)
    if (size := resources.get("file_size")) is not None:
        limits["file_bytes"] = size_bytes(size)
    if (files := resources.get("open_files")) is not None:
        limits["open_files"] = _count(files)
    return limits


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ToolError("py.exception", f'spec.resources.open_files must be a number of files, "{value}" is none')
    return value


def size_bytes(value: Any) -> int:
    """A size as people write it. ToolError says what is wrong with anything else."""
    found = _SIZE.match(str(value).strip())
    if found is None or isinstance(value, bool):
        raise ToolError("py.exception", f'"{value}" is not a size: write bytes, or 512Mi, 1GB')
    return int(float(found[1]) * _UNITS[(found[2] or "").lower()])
