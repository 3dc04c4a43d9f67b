"""From the parser's marks and offsets to spans in the text as it was given.

The parser drops a byte order mark and counts more line breaks than editors do (U+0085, U+2028, U+2029, a lone carriage
return); here both are put right, so that lines and columns are those an editor shows.
"""

from __future__ import annotations

import re
from bisect import bisect_right

import yaml

from noetl.base.source import Span

BYTE_ORDER_MARK = "\ufeff"
_ODD_BREAK = re.compile("\r(?!\n)|[\x85\u2028\u2029]")
_PROPERTIES = re.compile(r"(?:[&!][^\s,\[\]{}]*(?:\s+|\s*#[^\n]*\n)*)*")


class Places:
    """The text that is parsed, and where its characters stand in the text that was given."""

    def __init__(self, given: str) -> None:
        self.shift = 1 if given.startswith(BYTE_ORDER_MARK) else 0
        self.text = given[self.shift :]
        self._odd = _ODD_BREAK.search(self.text) is not None
        self._line_starts: list[int] = []

    @staticmethod
    def start(event: yaml.Event) -> int:
        """The offset into `text` at which an event begins."""
        assert event.start_mark is not None
        return event.start_mark.index

    @staticmethod
    def end(event: yaml.Event) -> int:
        assert event.end_mark is not None
        return event.end_mark.index

    def span(self, first: yaml.Event, last: yaml.Event | None = None) -> Span:
        """From the first character of one event to the last of another, or of the same."""
        start, end = first.start_mark, (last or first).end_mark
        assert start is not None
        assert end is not None
        if self._odd or end.index >= len(self.text):  # where the parser sees a break that is not there: "---"
            return self.between(start.index, end.index)
        shift = self.shift
        return Span(
            start.line + 1, start.column + 1, end.line + 1, end.column + 1, start.index + shift, end.index + shift
        )

    def between(self, start: int, end: int) -> Span:
        """What lies between two offsets into `text`."""
        line, column = self.position(start)
        end_line, end_column = self.position(end)
        return Span(line, column, end_line, end_column, start + self.shift, end + self.shift)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset into `text`, both from one."""
        if not self._line_starts:
            self._line_starts = [0, *(found.end() for found in re.finditer("\n", self.text))]
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def offset(self, line: int) -> int:
        """Where a line begins in `text`; past the last line, where the text ends."""
        self.position(0)
        return self._line_starts[line - 1] if line <= len(self._line_starts) else len(self.text)

    def line(self, number: int) -> str:
        """The text of a line without its break, or nothing before the first and past the last."""
        if number < 1:
            return ""
        start = self.offset(number)
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")

    def scalar(self, event: yaml.ScalarEvent) -> Span:
        """The text of a scalar, quotes included; without its anchor and tag, and without blank lines at its end."""
        if not (event.anchor or event.tag or event.style in ("|", ">")):
            return self.span(event)
        first, end = self.start(event), self.end(event)
        if event.anchor or event.tag:
            found = _PROPERTIES.match(self.text, first, end)
            first = found.end() if found else first
        written = self.text[first:end].rstrip()
        return self.between(first, first + len(written))
