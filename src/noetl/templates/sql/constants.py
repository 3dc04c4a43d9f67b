"""Constants: values written as SQL, where a statement takes no parameter; and quoted text read back."""

from __future__ import annotations

import json
import re
from typing import Any

from noetl.base.errors import ToolError

_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|(.))|''", re.DOTALL)


def constant(value: Any) -> str:
    """`value` as an SQL constant: text in quotes that it cannot leave."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | float():
            return repr(value)
        case _:
            return quoted(as_text(value))


def quoted(text: str) -> str:
    """Text as a constant; a backslash in it is a backslash (`standard_conforming_strings`, which connections set)."""
    if "\x00" in text:
        raise ToolError("sql.fragment", "text for SQL holds the character U+0000, which no database keeps")
    return "'" + text.replace("'", "''") + "'"


def as_text(value: Any) -> str:
    """A value as the text of a quoted constant: lists and mappings as JSON, true and false as SQL has them."""
    match value:
        case str():
            return str.__str__(value)
        case bool():
            return "true" if value else "false"
        case dict() | list():
            return json.dumps(value, ensure_ascii=False, allow_nan=False)
        case _:
            return str(value)


def unquoted(text: str, *, escapes: bool) -> str:
    """What quoted text means, given what stands between its quotes; `escapes` as in E'…'."""
    return _ESCAPE.sub(_unescaped, text) if escapes else text.replace("''", "'")


def _unescaped(match: re.Match[str]) -> str:
    short, long, hexadecimal, octal, other = match.groups()
    if short or long or hexadecimal:
        return chr(int(short or long or hexadecimal, 16))
    if octal:
        return chr(int(octal, 8) & 0xFF)
    return "'" if other is None else _ESCAPES.get(other, other)
