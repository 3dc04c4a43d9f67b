"""Changes of a text by position: a fix that an editor can apply, made of one or several edits."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

import msgspec


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """Put `replacement` where the text stands from `column` of `line` to before `end_column` of `end_line`, from one.
    Without `end_line` both are in one line."""

    replacement: str
    line: int
    column: int
    end_column: int
    end_line: int | None = None


class Fix(Edit, frozen=True, kw_only=True):
    """A change that removes a mistake. `also` are further edits of the same fix. `title` describes it; without a title
    it replaces the written text by `replacement`."""

    title: str = ""
    also: tuple[Edit, ...] = ()


def made_fix(title: str, edits: Iterable[Edit]) -> Fix | None:
    """A fix of these edits; None without any."""
    made = list(edits)
    return Fix(**msgspec.structs.asdict(made[0]), title=title, also=tuple(made[1:])) if made else None


def apply_fixes(text: str, fixes: Iterable[Fix]) -> str:
    """The text with every fix made; of two edits at one place the first."""
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    edits = [edit for fix in fixes for edit in (fix, *fix.also)]
    places = {(edit.line, edit.column): edit for edit in reversed(edits)}
    for (line, column), edit in sorted(places.items(), reverse=True):
        end = starts[(edit.end_line or line) - 1] + edit.end_column - 1
        text = text[: starts[line - 1] + column - 1] + edit.replacement + text[end:]
    return text
