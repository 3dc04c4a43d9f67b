"""Quotes: whether a database would read a statement as our lexer has read it.

Templates were bound by rules that hold for standard SQL. Where a database has other rules (a backslash that escapes a
quote, names in backticks, comments after #), text that looks closed to us may be open to it, and a value could leave
its place. Such a statement is refused, with the way to write it.
"""

from __future__ import annotations

from collections.abc import Iterable

from noetl.base.errors import ToolError
from noetl.templates.sql.statements import Part
from noetl.tools.sql.dialects import SqlDialect

_QUOTES = ("'", '"')
_PREFIXES = "eEbBxXnNuUrR&"


def check_quotes(parts: Iterable[Part], dialect: SqlDialect) -> None:
    """Nothing, or ToolError `sql.fragment`."""
    in_backticks = False
    for part in parts:
        if not isinstance(part, str):
            if in_backticks:
                raise _refusal(dialect, "a value stands in backticks: write {{ … | identifier }} without them")
        elif part.lstrip(_PREFIXES).startswith(_QUOTES):
            if in_backticks:
                raise _refusal(dialect, "a quote stands in backticks")
            _check_quoted(part, dialect)
        elif dialect.backticks:
            in_backticks ^= part.count("`") % 2 == 1
            if (
                dialect.hash_comments
                and "#" in part
                and not in_backticks
                and not part.lstrip().startswith(("--", "/*"))
            ):
                raise _refusal(dialect, "# begins a comment: write --")


def _check_quoted(text: str, dialect: SqlDialect) -> None:
    if dialect.backslashes and "\\" in text:
        raise _refusal(dialect, "quoted text holds a backslash: give the text as a value, {{ … }} or params")
    if dialect.backslashes and text.lstrip(_PREFIXES).startswith('"') and '""' in text[1:-1]:
        raise _refusal(dialect, 'a name holds "": give it another name')


def _refusal(dialect: SqlDialect, why: str) -> ToolError:
    return ToolError("sql.fragment", f"{dialect.name} would read this SQL in another way than it was checked: {why}")
