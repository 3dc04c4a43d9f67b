"""Source text and the places in it: what a diagnostic points at.

Lines and columns count from one, as editors show them; offsets count characters from zero, as slices do.
"""

from __future__ import annotations

import msgspec


class Span(msgspec.Struct, frozen=True, gc=False):
    """A stretch of source text; `end_column` is the column just past its last character."""

    line: int
    column: int
    end_line: int
    end_column: int
    start: int = 0
    end: int = 0


NOWHERE = Span(1, 1, 1, 1)
TEST_SUFFIX = ".test.yaml"  # of a file of tests, which lies beside its playbook and is none


class Source(msgspec.Struct, frozen=True):
    """One text under the name people know it by, usually its file name."""

    name: str
    text: str

    def line(self, number: int) -> str:
        """The text of line `number` without its line break, or nothing past the end."""
        lines = self.text.split("\n", number)
        return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""

    def cut(self, span: Span) -> str:
        """The text that `span` covers."""
        return self.text[span.start : span.end]


def is_template(text: str) -> bool:
    """Whether text holds a template delimiter."""
    return "{{" in text or "{%" in text or "{#" in text


def is_unicode(text: str) -> bool:
    """Whether it can be written as UTF-8. Half of a surrogate pair cannot: an escape may have made it, and bytes on a
    command line that are no text become some."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
