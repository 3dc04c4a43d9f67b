"""Fixes: what a diagnostic's hint proposes, as a change that an editor can make by itself.

A hint is written for people. Where it names one replacement, and the name it is for stands once in the place that the
diagnostic points at, both together are a change; everything else stays advice.
"""

from __future__ import annotations

import re

import msgspec

from noetl.diagnostics import Diagnostic
from noetl.source import Source

_MEANT = re.compile(r'did you mean "([^"\n]{1,200})"')
_NAMED = re.compile(r'"([^"\n]{1,200})"')


class Fix(msgspec.Struct, frozen=True, kw_only=True):
    """Put `replacement` where the text stands from `column` to before `end_column`, both in `line`, from one."""

    replacement: str
    line: int
    column: int
    end_column: int


def fix_for(found: Diagnostic, source: Source) -> Fix | None:
    meant = _MEANT.search(found.hint)
    if meant is None or found.span.line != found.span.end_line:
        return None
    covered = source.cut(found.span)
    for name in _NAMED.findall(found.message):
        at = _only_place(covered, name)
        if at is not None and name != meant[1]:
            column = found.span.column + at
            return Fix(replacement=meant[1], line=found.span.line, column=column, end_column=column + len(name))
    return None


def _only_place(text: str, name: str) -> int | None:
    """Where `name` stands in `text` as a word of its own, if it does so once."""
    places = [one.start() for one in re.finditer(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text)]
    return places[0] if len(places) == 1 else None
