"""From an address of the net to the line its author wrote."""

from __future__ import annotations

import msgspec

from noetl.base.diagnostics import CODES, Diagnostic, DiagnosticPosition
from noetl.language.proving.witness import Move
from noetl.net.debug import DebugMap


class PlacedFinding(msgspec.Struct, frozen=True):
    """A finding before it has a line: `addresses` are tried in order, since not every part was written."""

    code: str
    addresses: tuple[str, ...]
    message: str
    hint: str = ""
    moves: tuple[Move, ...] = ()

    def diagnostic(self, debug: DebugMap) -> Diagnostic:
        assert self.code in CODES
        place = placed(debug, *self.addresses)
        texts = tuple(move.text for move in self.moves)
        return Diagnostic(self.code, place.path, place.span, self.message, self.hint, texts)


def placed(debug: DebugMap, *addresses: str) -> DiagnosticPosition:
    """The first of `addresses` that has an origin; else the nearest enclosing element that has one."""
    for address in addresses:
        while address:
            if address in debug:
                return DiagnosticPosition(debug[address].path, debug[address].span)
            address = address.rpartition("/")[0]
    return DiagnosticPosition()


# Reasons: why a cycle ends, as far as it shows in the net.


class CycleReason(msgspec.Struct, frozen=True):
    """`cycle` lists its steps (or `step.task` for a pipeline) in text order; `why` names what ends it."""

    cycle: tuple[str, ...]
    why: str
