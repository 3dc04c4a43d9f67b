"""Notes of a migration for its user: changed constructs, and constructs without a v10 form.

A `changed` note says where the new text differs in more than spelling. One that `differs` is about a change of what the
playbook does: the text is whole, and a person has to agree. A `blocked` note is about a place without a v10 form, with
the alternative in v10.
"""

from __future__ import annotations

import re

import msgspec

from noetl.base.diagnostics import PositionedDiagnostic, Span
from noetl.language.reading.nodes import Mapping, Node, Sequence

_PARTS = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


class Note(msgspec.Struct, frozen=True):
    """One remark about one place of the old document; `way_out` is what to write instead."""

    path: str
    span: Span
    message: str
    way_out: str = ""


class Notes:
    """The remarks of one migration, in document order."""

    def __init__(self) -> None:
        # Dicts for their keys: each remark once, in the order it was made.
        self._changed: dict[Note, None] = {}
        self._differing: dict[Note, None] = {}
        self._blocked: dict[Note, None] = {}

    def changed(self, place: PositionedDiagnostic, message: str, way_out: str = "") -> None:
        self._changed[Note(place.path, place.span, message, way_out)] = None

    def differs(self, place: PositionedDiagnostic, message: str, way_out: str) -> None:
        self._differing[Note(place.path, place.span, message, way_out)] = None

    def blocked(self, place: PositionedDiagnostic, message: str, way_out: str) -> None:
        self._blocked[Note(place.path, place.span, message, way_out)] = None

    def include(self, others: Notes) -> None:
        """Add the notes of another part of the migration."""
        self._changed |= others._changed
        self._differing |= others._differing
        self._blocked |= others._blocked

    @property
    def is_whole(self) -> bool:
        """Whether no note needs a decision of a person."""
        return not self._blocked and not self._differing

    @property
    def all_changed(self) -> tuple[Note, ...]:
        return _in_order({**self._changed, **self._differing})

    @property
    def all_differing(self) -> tuple[Note, ...]:
        return _in_order(self._differing)

    @property
    def all_blocked(self) -> tuple[Note, ...]:
        return _in_order(self._blocked)


def _in_order(notes: dict[Note, None]) -> tuple[Note, ...]:
    return tuple(sorted(notes, key=lambda note: (note.span.start, note.message)))


def relocated(note: Note, root: Mapping) -> Note:
    """A note about a rewritten text, at the place of the old one that its path leads to, as far as it does."""
    node: Node = root
    span = root.span
    for part in _PARTS.findall(note.path):
        if part[1]:
            inner = node.items[int(part[1])] if isinstance(node, Sequence) and int(part[1]) < len(node) else None
        else:
            inner = node.get(part[0]) if isinstance(node, Mapping) else None
        if inner is None:
            break
        span = node.keys[part[0]].span if isinstance(node, Mapping) and not part[1] else inner.span
        node = inner
    return Note(note.path, span, note.message, note.way_out)
