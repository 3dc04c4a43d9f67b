"""Limits of one call of a python child, from `spec.resources` (TOOL-07)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from noetl.base.durations import seconds
from noetl.base.errors import ToolError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmg]i?)?b?\Z", re.IGNORECASE)


DEFAULT_MEMORY_BYTES = 4 << 30  # address space, which numeric libraries reserve generously
# Defaults against accidents, not against enemies: a loop that writes, forks or computes without end.
DEFAULT_FILE_BYTES = 1 << 30
DEFAULT_PROCESSES = 256
DEFAULT_CPU_S = 3_600.0


def default_limits(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Of a python task that says nothing else. Processor time is that of all its threads, so a task that may take
    long has as much as all processors give in that time."""
    try:
        longest_s = seconds(spec["timeout"])
    except (KeyError, TypeError, ValueError):
        longest_s = 0.0
    return {
        "memory_bytes": DEFAULT_MEMORY_BYTES,
        "file_bytes": DEFAULT_FILE_BYTES,
        "processes": DEFAULT_PROCESSES,
        "cpu_s": max(DEFAULT_CPU_S, longest_s * (os.cpu_count() or 1)),
    }


def limits_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """`memory` and `file_size` as bytes or text (512Mi, 1GB), `cpu_time` as seconds or a duration, `open_files`,
    `processes`."""
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
        limits["open_files"] = _count("open_files", files)
    if (processes := resources.get("processes")) is not None:
        limits["processes"] = _count("processes", processes)
    return limits


def _count(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ToolError("py.exception", f'spec.resources.{name} must be a number of 1 or more, "{value}" is none')
    return value


def size_bytes(value: Any) -> int:
    """A size as people write it. ToolError says what is wrong with anything else."""
    found = _SIZE.match(str(value).strip())
    if found is None or isinstance(value, bool):
        raise ToolError("py.exception", f'"{value}" is not a size: write bytes, or 512Mi, 1GB')
    return int(float(found[1]) * _UNITS[(found[2] or "").lower()])
