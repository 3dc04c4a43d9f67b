"""How large text and boxes are, without asking a font. Widths are generous rather than exact."""

from __future__ import annotations

import unicodedata

import msgspec

from noetl.language.drawing.drawing import Box, BoxLine, BoxMark
from noetl.language.drawing.edges import Edge

TITLE, TEXT, SMALL = 14.0, 12.0, 11.0  # font sizes
ROW = 19.0  # height of a line inside a box
HEAD = 34.0  # height of the name
PADDING = 14.0
INDENT = 14.0  # of a task inside a choose, while or until

_NARROW = frozenset("iljI.,:;|!'()[]{}ft/ ·")
_BROAD = frozenset("mwMW@%…→↷")


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Width of text in a sans-serif font of `size`."""
    width = sum(_share(char) for char in text) * size
    return width * 1.06 if bold else width


def _share(char: str) -> float:
    if char in _NARROW:
        return 0.34
    if char in _BROAD:
        return 0.9
    if unicodedata.east_asian_width(char) in "WF":
        return 1.05
    return 0.68 if char.isupper() else 0.58


def mark_width(mark: BoxMark) -> float:
    return pill_width(mark) + 6 + text_width(mark.text, SMALL)


def pill_width(mark: BoxMark) -> float:
    return text_width(mark.word, 9.5, bold=True) + 12


def line_width(line: BoxLine) -> float:
    return INDENT * line.depth + text_width(line.name, TEXT) + 14 + text_width(line.note, SMALL)


def box_size(box: Box) -> tuple[float, float]:
    """Width and height of a box with everything in it."""
    widths = [text_width(box.name, TITLE, bold=True), *(mark_width(mark) for mark in box.marks)]
    widths += [line_width(line) for line in box.lines]
    inside = len(box.marks) + len(box.lines)
    height = HEAD + (inside * ROW + (14 if box.marks and box.lines else 8) if inside else 0)
    return max(90.0, max(widths) + 2 * PADDING), height


def label_width(label: str) -> float:
    return text_width(label, SMALL) + 10


# The result of a layout, in the units of the picture, origin at the top left.


class Point(msgspec.Struct, frozen=True):
    x: float
    y: float


class PlacedBox(msgspec.Struct, frozen=True):
    """`row_bottom` is where the tallest box of its row ends."""

    box: Box
    x: float
    y: float
    width: float
    height: float
    row: int
    row_bottom: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height


class PlacedWay(msgspec.Struct, frozen=True):
    """A forward way goes straight between the points of each pair and in a curve from pair to pair; a way back goes
    straight from point to point and turns in round corners."""

    way: Edge
    points: tuple[Point, ...]
    label: Point | None = None
    back: bool = False


class DrawingLayout(msgspec.Struct, frozen=True):
    left: float
    right: float
    bottom: float
    boxes: tuple[PlacedBox, ...]
    ways: tuple[PlacedWay, ...]
