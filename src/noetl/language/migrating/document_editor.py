"""The old document of a migration: its text, its elements (keys and list items) and the comments of each.

`formatting.layout` groups comments with their elements. This module finds elements by the nodes of the readers: a key
and a list item have an id that follows from their place.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from noetl.base.diagnostics import Source
from noetl.language.formatting.layout import Block, LayoutComment, LayoutEntry, Leaf
from noetl.language.formatting.layout_reader import read_layout
from noetl.language.reading.nodes import Mapping, Node, Scalar
from noetl.language.reading.yaml_problems import BYTE_ORDER_MARK


class ElementPosition(StrEnum):
    BEFORE = "before"
    BEHIND = "behind"
    AFTER = "after"


class Element(msgspec.Struct, frozen=True):
    """A key or a list item written in block style; entries inside braces have no elements of their own."""

    id: str
    parent: str
    # An empty line is above the element, or among the comments above it.
    has_blank_above: bool


class SourceComment(msgspec.Struct, frozen=True):
    """A comment and the element that it is about; `start` is its offset in the old text."""

    text: str
    start: int
    column: int
    element: str
    place: ElementPosition


class SourceDocument:
    """The text at `root`, which `read_yaml` has read; raises UnformattableError where a key is no text."""

    def __init__(self, source: Source, root: Mapping) -> None:
        self.source = source
        self.root = root
        # the document has an alias: a value with an anchor cannot be moved alone
        self.aliased = _is_aliased(root)
        self.elements: dict[str, Element] = {}
        self.comments: list[SourceComment] = []
        # Offsets of the layout start after a byte order mark, those of nodes before it.
        self._shift = 1 if source.text.startswith(BYTE_ORDER_MARK) else 0
        # Comments above the next element that belong to the one before.
        self._above: list[LayoutComment] = []
        layout = read_layout(source.text[self._shift :])
        if isinstance(layout.root.value, Block):
            first = self._id(layout.root.value.entries[0])
            self._above = [*layout.preamble, *layout.root.before]
            self._note(self._above, first, ElementPosition.BEFORE)
            self._read(layout.root.value, "")
        self._note(layout.footer, "", ElementPosition.AFTER)

    def is_flow(self, node: Node) -> bool:
        """Whether a collection is written inside braces or brackets; with an anchor it is moved in one piece too."""
        start = node.span.start
        return not isinstance(node, Scalar) and self.source.text[start : start + 1] in ("{", "[", "&")

    def _read(self, block: Block, parent: str) -> None:
        for entry in block.entries:
            identity = self._id(entry)
            blanks = [comment for comment in (*self._above, *entry.before) if not comment.text]
            self.elements[identity] = Element(identity, parent, has_blank_above=bool(blanks))
            self._above = []
            self._note(entry.before, identity, ElementPosition.BEFORE)
            self._note([entry.trailing] if entry.trailing is not None else [], identity, ElementPosition.BEHIND)
            self._note(entry.inner, identity, ElementPosition.AFTER)
            if isinstance(entry.value, Leaf):
                self._note(entry.value.comments, identity, ElementPosition.BEHIND)
            elif isinstance(entry.value, Block):
                self._read(entry.value, identity)
        if block.entries:
            self._above = [*self._above, *block.tail]
            self._note(block.tail, self._id(block.entries[-1]), ElementPosition.AFTER)

    def _note(self, comments: list[LayoutComment], element: str, place: ElementPosition) -> None:
        for comment in comments:
            # A comment; blank lines and directives are skipped.
            if comment.text.startswith("#"):
                found = SourceComment(comment.text, comment.start + self._shift, comment.column, element, place)
                self.comments.append(found)

    def _id(self, entry: LayoutEntry) -> str:
        return f"{'i' if entry.key is None else 'k'}{entry.start + self._shift}"


def key_id(key: Scalar) -> str:
    return f"k{key.span.start}"


def origin_of(owner: Mapping, key: str) -> str:
    """The id of a key; its replacement gets the same id. Empty if the key was not written."""
    return key_id(owner.keys[key]) if key in owner else ""


def item_id(item: Node) -> str:
    return f"i{item.span.start}"


def _is_aliased(node: Node) -> bool:
    """Whether there is an alias: its value has the place of the anchor, before the alias itself."""
    if isinstance(node, Scalar):
        return False
    if isinstance(node, Mapping):
        inside = [(key.span.start, value) for _, key, value in node.items()]
    else:
        # The first item may begin where the list begins.
        before = [node.span.start - 1, *(item.span.start for item in node)]
        inside = list(zip(before, node, strict=False))
    return any(value.span.start <= start or _is_aliased(value) for start, value in inside)
