"""What every pass is handed besides the playbook, and the form a pass has.

A pass takes the playbook and gives it back, rewritten or as it was; what it finds wrong goes to `findings`. No pass
stops at a mistake: the next one sees as much of the playbook as can be understood (VAL-19).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from noetl.base.diagnostics import DiagnosticPosition, Findings, PositionedDiagnostic
from noetl.base.source import Span
from noetl.language.reading.nodes import Mapping
from noetl.language.reading.playbook import Playbook
from noetl.net.kinds import Kinds


class Compilation(msgspec.Struct, frozen=True):
    """The table of tool kinds, where findings go, and whether unknown kinds may be left to plug-ins (VAL-04)."""

    kinds: Kinds
    findings: Findings
    extensions: bool = False

    def note(self, code: str, place: PositionedDiagnostic, message: str, hint: str = "") -> None:
        self.findings.add(code, place, message, hint)


Pass = Callable[[Playbook, Compilation], Playbook]


def key_place(node: object, key: str, otherwise: PositionedDiagnostic) -> PositionedDiagnostic:
    """Where `key` is written in `node`, or one level inside it (labels, `tool:`), to underline the key itself."""
    if isinstance(node, Mapping):
        if key in node.keys:
            return node.keys[key]
        for value in node.values.values():
            if isinstance(value, Mapping) and key in value.keys:
                return value.keys[key]
    return otherwise


def head(part: PositionedDiagnostic) -> DiagnosticPosition:
    """Where something long begins, at its first key, so that a whole mapping is not underlined."""
    node = getattr(part, "node", part)
    span = next(iter(node.keys.values())).span if isinstance(node, Mapping) and node.keys else part.span
    if span.line != span.end_line:
        span = Span(span.line, span.column, span.line, span.column + 1, span.start, span.start + 1)
    return DiagnosticPosition(part.path, span)
