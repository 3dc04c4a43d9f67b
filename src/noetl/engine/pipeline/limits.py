"""How much may travel inside an event (RES-03, RES-04)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from noetl.events.references import Reference
from noetl.net.net import Net

MAX_PAYLOAD_BYTES = 65_536  # O-33

Keep = Callable[[Any], Reference]


def nowhere_to_keep(value: Any) -> Reference:
    """Of those who have no results store."""
    raise AssertionError("there is no results store here")


def inline_bytes(net: Net) -> int:
    """What a net lets travel inside an event."""
    return int(net.executor.limits.get("max_payload_bytes", MAX_PAYLOAD_BYTES))


def max_payload_bytes(net: Net) -> int:
    """The same for results: nothing at all where references come first (RES-04)."""
    return -1 if net.executor.reference_first else inline_bytes(net)


def fits(value: Any, limit_bytes: int) -> bool:
    """Whether a value may travel inline."""
    if value is None or isinstance(value, bool | int | float):
        return limit_bytes >= 0 or value is None
    if isinstance(value, str) and len(value) * 6 + 2 <= limit_bytes:  # no encoding is longer
        return True
    return len(msgspec.json.encode(value)) <= limit_bytes
