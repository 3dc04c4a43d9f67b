"""Formatting: the same playbook with one layout, every comment kept, nothing of its meaning changed.

Works on text that reads as YAML, whether or not it is a good playbook. What comes out is read again and compared, so a
mistake here can cost a refusal, never a playbook.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from noetl.base.diagnostics import Diagnostic, Findings
from noetl.base.errors import NoetlError
from noetl.base.source import Source
from noetl.language.formatting.order import arrange
from noetl.language.layout.model import UnformattableError
from noetl.language.layout.reader import read_layout
from noetl.language.layout.writer import write_layout
from noetl.language.reading.nodes import data
from noetl.language.reading.syntax.positions import BYTE_ORDER_MARK
from noetl.language.reading.yaml import read_yaml

_LINE_BREAK = re.compile("\r\n?")


class FormatError(NoetlError):
    """The text stays as it is; `findings` say why when it does not read as YAML."""

    def __init__(self, message: str, findings: Iterable[Diagnostic] = ()) -> None:
        super().__init__(message)
        self.findings = tuple(findings)


def format_text(source: Source) -> str:
    """The text of `source` in the one layout; raises FormatError rather than change what it says."""
    text = _LINE_BREAK.sub("\n", source.text.removeprefix(BYTE_ORDER_MARK))
    meaning = _meaning(source.name, source.text)
    try:
        layout = read_layout(text)
        comments = sorted(layout.comments)
        arrange(layout)
        formatted = write_layout(layout)
        kept = sorted(read_layout(formatted).comments)
    except UnformattableError as error:
        raise FormatError(f"{source.name}: left as it is: {error}") from None
    if kept != comments or _meaning(source.name, formatted) != meaning:
        raise FormatError(f"{source.name}: left as it is: formatting would change what it says")
    return formatted


def _meaning(name: str, text: str) -> bytes:
    """Everything the text says, in bytes that do not depend on the order of keys."""
    findings = Findings()
    root = read_yaml(Source(name, text), findings)
    if root is None or findings.has_errors:
        raise FormatError(f"{name}: left as it is: it does not read as YAML", findings)
    return msgspec.json.encode(data(root), order="deterministic")
