"""A document's text with its elements (keys and list items) and its comments, and which belongs to which.

A comment on a line of its own belongs to the element after it, unless it stands deeper than that one; a comment
behind something belongs to the last element that begins on its line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from enum import StrEnum
from itertools import accumulate

import msgspec

from noetl.base.source import Source
from noetl.language.reading.nodes import Mapping, Node, Scalar, Sequence

_NEARBY = 1000  # elements looked back over for the one that a comment stands below
_COMMENT = re.compile(r"(?:(?<=\s)|\A)#[^\r\n]*")


class ElementPosition(StrEnum):
    BEFORE = "before"
    BEHIND = "behind"
    AFTER = "after"


class Element(msgspec.Struct, frozen=True):
    """A key or a list item written in block style; what stands inside braces has no elements of its own."""

    id: str
    parent: str
    start: int
    line: int
    column: int


class SourceComment(msgspec.Struct, frozen=True):
    text: str
    start: int
    line: int
    column: int
    element: str
    place: ElementPosition


class Sheet:
    def __init__(self, source: Source, root: Mapping) -> None:
        self.source = source
        self.root = root
        self.lines = source.text.split("\n")
        self._line_starts = [0, *accumulate(len(line) + 1 for line in self.lines)]
        self.elements = {element.id: element for element in _elements(source.text, root)}
        self.comments = list(self._comments())
        self.aliased = _is_aliased(root)

    def is_flow(self, node: Node) -> bool:
        """Whether a collection is written inside braces or brackets."""
        return is_flow(self.source.text, node)

    def blank_before(self, identity: str) -> bool:
        """Whether the author left an empty line above this element and its comments."""
        element = self.elements.get(identity)
        if element is None:
            return False
        number = element.line - 1  # the line above, counted from zero, is number - 1
        while number > 0 and self.lines[number - 1].lstrip().startswith("#"):
            number -= 1
        return number > 0 and not self.lines[number - 1].strip()

    def _comments(self) -> Iterator[SourceComment]:
        ordered = sorted(self.elements.values(), key=lambda element: (element.start, element.id[0] != "i"))
        starts = [element.start for element in ordered]
        for begin, end in _gaps(self.source.text, self.root):
            for found in _COMMENT.finditer(self.source.text, begin, end):
                start = found.start()
                line = bisect_right(self._line_starts, start)
                line_start = self._line_starts[line - 1]
                own_line = not self.source.text[line_start:start].strip()
                column = start - line_start + 1
                element, place = _owner(ordered, bisect_right(starts, start), column, own_line=own_line)
                yield SourceComment(found.group().rstrip(), start, line, column, element, place)


def _owner(ordered: list[Element], position: int, column: int, *, own_line: bool) -> tuple[str, ElementPosition]:
    """The element of a comment that stands before the one at `position`."""
    if not own_line:
        return (ordered[position - 1].id, ElementPosition.BEHIND) if position else ("", ElementPosition.BEFORE)
    after = ordered[position] if position < len(ordered) else None
    if after is not None and column <= after.column:
        return after.id, ElementPosition.BEFORE
    for element in reversed(ordered[max(0, position - _NEARBY) : position]):
        if element.column == column:
            return element.id, ElementPosition.AFTER
    return (after.id, ElementPosition.BEFORE) if after is not None else ("", ElementPosition.AFTER)


def key_id(key: Scalar) -> str:
    return f"k{key.span.start}"


def item_id(item: Node) -> str:
    return f"i{item.span.start}"


def is_flow(text: str, node: Node) -> bool:
    return not isinstance(node, Scalar) and text[node.span.start : node.span.start + 1] in ("{", "[", "&")


def _elements(text: str, root: Mapping) -> Iterator[Element]:
    waiting: list[tuple[Node, str]] = [(root, "")]
    while waiting:
        node, parent = waiting.pop()
        if is_flow(text, node):
            continue
        if isinstance(node, Mapping):
            for _, key, value in node.items():
                yield Element(key_id(key), parent, key.span.start, key.span.line, key.span.column)
                waiting.append((value, key_id(key)))
        elif isinstance(node, Sequence):
            for item in node:
                yield Element(item_id(item), parent, item.span.start, item.span.line, node.span.column)
                waiting.append((item, item_id(item)))


def _is_aliased(node: Node) -> bool:
    """Whether an alias stands anywhere: its value has the place of the anchor, before the alias itself."""
    if isinstance(node, Scalar):
        return False
    if isinstance(node, Mapping):
        inside = [(key.span.start, value) for _, key, value in node.items()]
    else:
        before = [node.span.start - 1, *(item.span.start for item in node)]  # the first item may begin the list
        inside = list(zip(before, node, strict=False))
    return any(value.span.start <= start or _is_aliased(value) for start, value in inside)


def _pairs(node: Node) -> Iterator[tuple[Scalar, Node]]:
    match node:
        case Mapping():
            for _, key, value in node.items():
                yield key, value
                yield from _pairs(value)
        case Sequence():
            for item in node:
                yield from _pairs(item)


def _gaps(text: str, root: Mapping) -> Iterator[tuple[int, int]]:
    """The stretches of text between scalars: only there can comments stand."""
    spans = {(key.span.start, key.span.end) for key, _ in _pairs(root)}
    waiting: list[Node] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Scalar):
            spans.add((node.span.start, node.span.end))
        else:
            waiting.extend(node.values.values() if isinstance(node, Mapping) else node.items)
    position = 0
    for start, end in sorted(spans):
        if start > position:
            yield position, start
        position = max(position, end)
    yield position, len(text)
