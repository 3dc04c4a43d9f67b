"""Joined lists: `IN ({{ ids | join(', ') }})` and `IN ('{{ names | join("', '") }}')`, written by those for whom SQL is
text. The text they would make cannot be bound, the list can, and says the same; so the `join` is left out."""

from __future__ import annotations

import re

from msgspec.structs import replace

from noetl.templates.expression import parse
from noetl.templates.sql.cutting import Hole

_NAME = r"[^\W\d]\w*(?:\.\w+|\[[^\[\]]*\])*"
_FILTER = r"\s*\|\s*\w+(?:\([^()]*\))?"
_JOIN = re.compile(r"\|\s*join\b")
_JOINED = re.compile(
    rf"\{{\{{\s*(?P<list>{_NAME}(?:{_FILTER})*?)\s*\|\s*join\(\s*(?P<mark>['\"])(?P<between>[^|]*)(?P=mark)\s*\)\s*\}}\}}"
)


COMMA, ROWS = ",", "),("  # between items, between rows of one item


def unjoined(hole: Hole, separator: str, *, quoted: bool) -> Hole | None:
    """The list that a template joins with a separator, or with the separator between quotes; None where it does not,
    and where its value is there already."""
    found = _JOINED.fullmatch(hole.source) if type(hole) is Hole else None
    if found is None or "".join(found["between"].split()) != (f"'{separator}'" if quoted else separator):
        return None
    source = f"{{{{ {found['list']} }}}}"
    return replace(hole, template=parse(source), source=source)


def is_joined(hole: Hole) -> bool:
    """Whether its value is, or may be, the text of a list."""
    return _JOIN.search(hole.source) is not None
