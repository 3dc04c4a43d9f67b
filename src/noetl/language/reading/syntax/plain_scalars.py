"""Plain scalars: what an unquoted word means, by the core schema of YAML 1.2.

So `on`, `yes` and `12:30` stay text and `012` is twelve. Numbers that JSON cannot carry (infinity, not-a-number,
integers past 64 bits) are refused, because whatever a playbook holds is stored as JSON sooner or later.
"""

from __future__ import annotations

import re
from math import isinf

Value = bool | int | float | str | None

_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_JSON = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_MAX_DIGITS = 400  # longer ones overflow or mean nothing, and converting them is slow
_LEAST, _MOST = -(2**63), 2**64 - 1


class NotJsonError(ValueError):
    """A number that JSON, and so the event log, cannot hold; the message says why."""


def resolve(text: str) -> Value:
    """The value of plain `text`; raises NotJsonError for a number that cannot be stored."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _INTEGER.fullmatch(text):
        return _integer(text)
    if _FLOAT.fullmatch(text):
        return _float(text)
    if _NOT_JSON.fullmatch(text):
        raise NotJsonError(f'"{text}" has no place in JSON, where values are kept')
    return text


def _integer(text: str) -> int:
    if len(text) <= _MAX_DIGITS:
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        value = int(text, base)
        if _LEAST <= value <= _MOST:
            return value
    raise NotJsonError("this number does not fit into 64 bits")


def _float(text: str) -> float:
    value = float(text) if len(text) <= _MAX_DIGITS else float("inf")
    if isinf(value):
        raise NotJsonError("this number is too large for a float")
    return value
