"""The result of a layout, in the units of the picture, origin at the top left."""

from __future__ import annotations

import msgspec

from noetl.language.drawing.drawing import Box
from noetl.language.drawing.edges import Edge


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
