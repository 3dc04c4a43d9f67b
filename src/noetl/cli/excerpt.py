"""Excerpt: the source line a diagnostic points at, with carets under what it means (docs/style.md §5)."""

from __future__ import annotations

from noetl.base.source import Span
from noetl.cli.terminal import Paint, plain, visible, width

LONGEST = 120  # columns of source shown; a longer line is cut around the span
_BEFORE = 40  # columns kept before the span when the line is cut


def excerpt(lines: list[str], span: Span, *, gutter: int, paint: Paint = plain, color: str = "red") -> list[str]:
    """The line of `span`'s start, underlined; nothing when the text has no such line, or it is blank."""
    text = lines[span.line - 1].rstrip("\r") if 0 < span.line <= len(lines) else ""
    if not text.strip():
        return []
    start = min(max(span.column - 1, 0), len(text))
    end = min(span.end_column - 1, len(text)) if span.end_line == span.line else len(text.rstrip())
    before, marked, after = (visible(part) for part in (text[:start], text[start:end], text[end:]))
    before, marked, after = _fitted(before, marked, after)
    bar = paint("|", fg="blue", bold=True)
    return [
        f"{' ' * gutter} {bar}",
        f"{paint(str(span.line).rjust(gutter), fg='blue', bold=True)} {bar} {before}{marked}{after}".rstrip(),
        f"{' ' * gutter} {bar} {' ' * width(before)}{paint('^' * max(width(marked), 1), fg=color, bold=True)}",
    ]


def _fitted(before: str, marked: str, after: str) -> tuple[str, str, str]:
    """The three parts of a line cut so that the whole is no wider than LONGEST."""
    if width(before) + width(marked) + width(after) <= LONGEST:
        return before, marked, after
    if width(before) > _BEFORE:
        before = "…" + before[-(_BEFORE - 1) :]
    room = LONGEST - width(before)
    if width(marked) > room:
        return before, marked[: room - 1] + "…", ""
    room -= width(marked)
    return before, marked, after if width(after) <= room else after[: max(room - 1, 0)] + "…"
