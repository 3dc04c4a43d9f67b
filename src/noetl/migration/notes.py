"""What a migration tells its user: what changed its form, and what v10 cannot say.

Notes are of two kinds only. A `changed` note says where the new text differs in more than spelling; a `blocked` one
is a place that needs a person, with the alternative v10 offers.
"""

from __future__ import annotations

import msgspec

from noetl.diagnostics import Placed
from noetl.source import Span


class Note(msgspec.Struct, frozen=True):
    """One remark about one place of the old document; `way_out` is what to write instead."""

    path: str
    span: Span
    message: str
    way_out: str = ""


class Notes:
    """The remarks of one migration, in document order."""

    def __init__(self) -> None:
        self._changed: dict[Note, None] = {}
        self._blocked: dict[Note, None] = {}

    def changed(self, place: Placed, message: str, way_out: str = "") -> None:
        self._changed[Note(place.path, place.span, message, way_out)] = None

    def blocked(self, place: Placed, message: str, way_out: str) -> None:
        self._blocked[Note(place.path, place.span, message, way_out)] = None

    @property
    def all_changed(self) -> tuple[Note, ...]:
        return _in_order(self._changed)

    @property
    def all_blocked(self) -> tuple[Note, ...]:
        return _in_order(self._blocked)


def _in_order(notes: dict[Note, None]) -> tuple[Note, ...]:
    return tuple(sorted(notes, key=lambda note: (note.span.start, note.message)))
