"""Rendering, in the child: a statement as the driver takes it, with its values beside it, never in it."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy.engine import Dialect

MAX_ITEMS = 10_000  # of a list that is written out
_ROWLESS = "SELECT NULL FROM (SELECT 1 AS one) noetl_empty WHERE 1 = 0"
_ROWLESS_ORACLE = "SELECT NULL FROM dual WHERE 1 = 0"


def rendered(parts: list[Any], dialect: Dialect) -> tuple[str, Any]:
    """The text of a statement and its values, in the dialect's own way of writing parameters."""
    texts: list[str] = []
    values: list[Any] = []
    opened = ""
    for part in parts:
        if isinstance(part, str):
            texts.append(_escaped(part, dialect))
        elif "list" in part:
            opened = part["list"]
            texts.append("IN (" if opened == "any" else "NOT IN (")
        else:
            items = part["value"] if opened and isinstance(part["value"], list) else [part["value"]]
            texts.append(_placeholders(items, values, dialect))
            opened = ""
    return "".join(texts), _arguments(values, dialect)


def _placeholders(items: list[Any], values: list[Any], dialect: Dialect) -> str:
    """As many as there are items; for none of them a query without rows, which nothing is in and everything is not."""
    if not items:
        return _ROWLESS_ORACLE if dialect.name == "oracle" else _ROWLESS
    written = []
    for item in items:
        values.append(_plain(item))
        written.append(placeholder(len(values), dialect))
    return ", ".join(written)


def placeholder(number: int, dialect: Dialect) -> str:
    """The sign of the parameter with this number, counted from one."""
    match dialect.paramstyle:
        case "qmark":
            return "?"
        case "format":
            return "%s"
        case "pyformat":
            return f"%(p{number})s"
        case "named":
            return f":p{number}"
        case "numeric_dollar":
            return f"${number}"
        case _:
            return f":{number}"


def _escaped(text: str, dialect: Dialect) -> str:
    return text.replace("%", "%%") if dialect.paramstyle in ("format", "pyformat") else text


def _arguments(values: list[Any], dialect: Dialect) -> Any:
    if dialect.paramstyle in ("pyformat", "named"):
        return {f"p{number}": value for number, value in enumerate(values, 1)}
    return tuple(values)


def _plain(value: Any) -> Any:
    """Mappings and lists go as JSON text, which every JSON column takes."""
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value


def row_arguments(row: list[Any], dialect: Dialect) -> Any:
    """The values of one row of an insertion."""
    return _arguments([_plain(value) for value in row], dialect)
