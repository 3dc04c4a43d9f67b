"""SQL marks: text that the SQL tools may put into a statement as it is, since the author said so (design.md §8).

Marks live on the value only, and only as far as a caller asks to keep them; everywhere else it is plain text.
"""

from __future__ import annotations

from typing import Any

from noetl.base.errors import TemplateError
from noetl.templates.values import SEQUENCES, described


class SqlIdentifier(str):
    """A name, already quoted."""

    __slots__ = ()


class SqlFragment(str):
    """A piece of SQL the author vouches for."""

    __slots__ = ()


def identifier(name: Any) -> SqlIdentifier:
    """`name` quoted as an SQL identifier; a list of names is a qualified name."""
    parts = list(name) if isinstance(name, SEQUENCES) else [name]
    if not parts or not all(isinstance(part, str) and part and "\x00" not in part for part in parts):
        raise TemplateError(f"identifier needs a name or a list of names, not {described(name)}")
    return SqlIdentifier(".".join('"' + part.replace('"', '""') + '"' for part in parts))
