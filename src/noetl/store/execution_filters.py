"""Filtering: what executions are looked for by, and which results texts name, where a backend has no SQL for it."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.store.contract import ExecutionRow

_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_CHECKSUM = re.compile(rb'"checksum"\s*:\s*"([0-9a-f]{64})"')


def lowered(text: str) -> str:
    """ASCII letters in lower case, all others as they are: what every database agrees on."""
    return text.translate(_LOWER)


def holds_text(row: ExecutionRow, text: str) -> bool:
    wanted = lowered(text)
    return any(wanted in lowered(one) for one in (row.execution_id, row.path, row.name))


def has_labels(net: bytes | None, labels: Mapping[str, str]) -> bool:
    """Whether the metadata of a net has all of these."""
    if net is None:
        return False
    written = msgspec.json.decode(net, type=_Net).metadata.get("labels")
    if not isinstance(written, dict):
        return False
    return all(key in written and _as_text(written[key]) == value for key, value in labels.items())


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


class _Net(msgspec.Struct):
    metadata: dict[str, Any] = {}


def checksums_in(*texts: bytes) -> set[str]:
    """The checksums of the references that JSON texts hold, however deep."""
    return {found.decode() for text in texts for found in _CHECKSUM.findall(text)}
