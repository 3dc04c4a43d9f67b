"""Layout: where every box, label and way goes: rows from the start down, ways back up along the sides.

Text is measured without asking a font: widths are generous rather than exact. A way is laid through every row it
crosses, and its label is a thing of its own in the row below its source, so that neither runs through a box or over
another label. Boxes stand in the even rows, labels in the odd ones.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence

import msgspec

from noetl.language.drawing.drawing import Box, BoxLine, BoxMark, Drawing, Edge
from noetl.language.drawing.rows import Rows, back_edges, ordered, placed, ranks

TITLE, TEXT, SMALL = 14.0, 12.0, 11.0  # font sizes
# Height of a line inside a box.
ROW = 19.0
HEAD = 34.0  # height of the name
PADDING = 14.0
# Indentation of a task inside choose, while or until.
INDENT = 14.0

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


GAP = 26.0  # between things of one row
# Width of an edge that only passes through a row.
STRAND = 12.0
LABEL_HEIGHT = 20.0
BETWEEN = 20.0  # between two rows

# Straight edges count more than the position of boxes.
_BOX_WEIGHT, _STRAND_WEIGHT = 1.0, 4.0


def lay_out(drawing: Drawing) -> DrawingLayout:
    """Places for everything in `drawing`."""
    return _Plan(drawing).layout()


class _Plan:
    """The things of a drawing by number: the boxes first, then what each forward way passes through."""

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing
        names = [box.name for box in drawing.boxes]
        edges = [(way.source, way.target) for way in drawing.ways]
        backward = back_edges(names, edges, drawing.entry)
        rank = ranks(names, [edge for edge in edges if edge not in backward])
        self._number = {name: index for index, name in enumerate(names)}
        self._row = [2 * rank[name] for name in names]
        self._circles = [way for way in drawing.ways if way.source == way.target]
        self._sizes = [box_size(box) for box in drawing.boxes]
        self._widths = [
            width + 2 * circle_room(self._circles, name) for name, (width, _) in zip(names, self._sizes, strict=True)
        ]
        self._heights = [height for _, height in self._sizes]
        self._weights = [_BOX_WEIGHT] * len(names)
        self._above: list[list[int]] = [[] for _ in names]
        self._below: list[list[int]] = [[] for _ in names]
        self._strands: list[tuple[Edge, list[int]]] = []
        self._back = [way for way in drawing.ways if (way.source, way.target) in backward and way not in self._circles]
        for way in drawing.ways:
            if (way.source, way.target) not in backward:
                self._thread(way)

    def _thread(self, way: Edge) -> None:
        """Lay a forward way through the rows between its boxes."""
        source, target = self._number[way.source], self._number[way.target]
        passed: list[int] = []
        before = source
        for row in range(self._row[source] + 1, self._row[target]):
            # The label is in the row below the source, where arcs have not joined yet.
            label = way.label and not passed
            thing = self._add(row, label_width(way.label) if label else STRAND, LABEL_HEIGHT if label else 0.0)
            self._join(before, thing)
            passed.append(thing)
            before = thing
        self._join(before, target)
        self._strands.append((way, passed))

    def _add(self, row: int, width: float, height: float) -> int:
        self._row.append(row)
        self._widths.append(width)
        self._heights.append(height)
        self._weights.append(_STRAND_WEIGHT)
        self._above.append([])
        self._below.append([])
        return len(self._row) - 1

    def _join(self, upper: int, lower: int) -> None:
        self._below[upper].append(lower)
        self._above[lower].append(upper)

    def _rows(self) -> Rows:
        rows: Rows = [[] for _ in range(max(self._row, default=0) + 1)]
        for thing in self._walk():
            rows[self._row[thing]].append(thing)
        return rows

    def _walk(self) -> list[int]:
        """Things in the order of a walk from the top: a good first order, since branches stay together."""
        seen: dict[int, None] = {}
        stack = list(reversed(range(len(self._drawing.boxes))))
        stack.append(self._number.get(self._drawing.entry, 0))
        while stack:
            thing = stack.pop()
            if thing not in seen:
                seen[thing] = None
                stack += reversed(self._below[thing])
        return list(seen)

    def layout(self) -> DrawingLayout:
        rows = ordered(self._rows(), self._above, self._below)
        x = placed(rows, self._above, self._below, self._widths, self._weights, GAP)
        tops, bottoms = self._levels(rows)
        boxes = tuple(
            PlacedBox(
                box,
                x[i] - self._sizes[i][0] / 2,
                tops[self._row[i]],
                *self._sizes[i],
                self._row[i],
                bottoms[self._row[i]],
            )
            for i, box in enumerate(self._drawing.boxes)
        )
        forward = self._forward(x, tops, bottoms, boxes)
        by_name = {one.box.name: one for one in boxes}
        backward, left, right = lanes(self._back, by_name, self._edges(rows, x))
        return DrawingLayout(left, right, bottoms[-1], boxes, (*forward, *backward, *circles(self._circles, by_name)))

    def _edges(self, rows: Rows, x: list[float]) -> list[tuple[float, float]]:
        """Where the first thing of each row begins and the last one ends."""
        return [
            (
                min((x[thing] - self._widths[thing] / 2 for thing in row), default=0.0),
                max((x[thing] + self._widths[thing] / 2 for thing in row), default=0.0),
            )
            for row in rows
        ]

    def _levels(self, rows: Rows) -> tuple[list[float], list[float]]:
        """Top and bottom of each row."""
        tops, bottoms, at = [], [], 0.0
        for row in rows:
            tops.append(at)
            bottoms.append(at + max((self._heights[thing] for thing in row), default=0.0))
            at = bottoms[-1] + BETWEEN
        return tops, bottoms

    def _forward(
        self, x: list[float], tops: list[float], bottoms: list[float], boxes: tuple[PlacedBox, ...]
    ) -> list[PlacedWay]:
        leaving, arriving = self._ports(x, boxes)
        found = []
        for index, (way, passed) in enumerate(self._strands):
            source, target = boxes[self._number[way.source]], boxes[self._number[way.target]]
            points = [Point(leaving[index], source.bottom), Point(leaving[index], source.row_bottom)]
            for thing in passed:
                row = self._row[thing]
                if row % 2 and not self._heights[thing]:
                    # There is nothing to avoid between two rows of boxes.
                    continue
                points += [Point(x[thing], tops[row]), Point(x[thing], bottoms[row])]
            points += [Point(arriving[index], target.y), Point(arriving[index], target.y)]
            first = self._row[passed[0]]
            label = Point(x[passed[0]], (tops[first] + bottoms[first]) / 2) if way.label else None
            found.append(PlacedWay(way, tuple(points), label))
        return found

    def _ports(self, x: list[float], boxes: tuple[PlacedBox, ...]) -> tuple[list[float], list[float]]:
        """Where each forward way leaves its source and reaches its target, side by side in the order they lie."""
        leaving, arriving = [0.0] * len(self._strands), [0.0] * len(self._strands)
        for ports, end, near in ((leaving, "source", 0), (arriving, "target", -1)):
            of_box: dict[str, list[int]] = {box.box.name: [] for box in boxes}
            for index, (way, _) in enumerate(self._strands):
                of_box[getattr(way, end)].append(index)
            for box in boxes:
                own = sorted(of_box[box.box.name], key=lambda i: x[self._strands[i][1][near]])
                step = min(30.0, (box.width - 30) / max(len(own), 1))
                for place, index in enumerate(own):
                    ports[index] = box.middle + (place - (len(own) - 1) / 2) * step
        return leaving, arriving


# Lanes: ways that lead back up, laid beside the boxes so that they cross none, and ways from a box to itself.

APART = 16.0
# Distance from a box at which edges turn. They alternate if another box is beside it.
_NOTCHES = (10.0, 6.0, 14.0)

# For each row, where its first item begins and its last one ends.
Edges = Sequence[tuple[float, float]]


def lanes(back: Sequence[Edge], boxes: Mapping[str, PlacedBox], edges: Edges) -> tuple[list[PlacedWay], float, float]:
    """The ways back, and how far left and right the whole drawing reaches with them."""
    left, right = min(edge[0] for edge in edges), max(edge[1] for edge in edges)
    # First row, last row, whether it is on the right, outermost x.
    taken: list[tuple[int, int, bool, float]] = []
    found = []
    # Short ones first: they take the lanes near the boxes, and longer ones go round them.
    for place, way in enumerate(sorted(back, key=lambda way: boxes[way.source].row - boxes[way.target].row)):
        source, target = boxes[way.source], boxes[way.target]
        first, last = target.row, source.row
        on_right = source.middle + target.middle >= left + right
        half = label_width(way.label) / 2 if way.label else 0.0
        inner = [outer for f, t, side, outer in taken if side is on_right and f <= last and first <= t]
        rows = edges[first : last + 1]
        if on_right:
            lane = max([*(edge[1] for edge in rows), *inner]) + APART + half
            right = max(right, lane + half + APART)
        else:
            lane = min([*(edge[0] for edge in rows), *inner]) - APART - half
            left = min(left, lane - half - APART)
        taken.append((first, last, on_right, lane + half if on_right else lane - half))
        points = _path_around(source, target, lane, on_right, edges, _NOTCHES[place % len(_NOTCHES)])
        label = Point(lane, (points[0].y + points[-1].y) / 2) if way.label else None
        found.append(PlacedWay(way, tuple(points), label, back=True))
    return found, left, right


def _path_around(
    source: PlacedBox, target: PlacedBox, lane: float, on_right: bool, edges: Edges, notch: float
) -> list[Point]:
    """Out of the source, along the lane, into the target: through its side, or round it where another box is between
    them."""
    return [*_points_out(source, lane, on_right, edges, notch), *_points_into(target, lane, on_right, edges, notch)]


def _free(box: PlacedBox, on_right: bool, edges: Edges) -> bool:
    """Whether no other box is between a box and its side of the drawing."""
    first, last = edges[box.row]
    return box.right >= last - 1 if on_right else box.x <= first + 1


def _points_out(box: PlacedBox, lane: float, on_right: bool, edges: Edges, notch: float) -> list[Point]:
    if _free(box, on_right, edges):
        y = box.y + HEAD / 2 + 6
        return [Point(box.right if on_right else box.x, y), Point(lane, y)]
    x = box.right - 14 if on_right else box.x + 14
    return [Point(x, box.bottom), Point(x, box.row_bottom + notch), Point(lane, box.row_bottom + notch)]


def _points_into(box: PlacedBox, lane: float, on_right: bool, edges: Edges, notch: float) -> list[Point]:
    if _free(box, on_right, edges):
        y = box.y + HEAD / 2 - 4
        return [Point(lane, y), Point(box.right if on_right else box.x, y)]
    x = box.right - 14 if on_right else box.x + 14
    return [Point(lane, box.y - notch), Point(x, box.y - notch), Point(x, box.y)]


def circle_room(ways: Sequence[Edge], name: str) -> float:
    """The room that the ways from a box to itself need at its side."""
    return sum(_circle_width(way) for way in ways if way.source == name)


def _circle_width(way: Edge) -> float:
    return APART + (label_width(way.label) if way.label else 0.0)


def circles(ways: Sequence[Edge], boxes: Mapping[str, PlacedBox]) -> list[PlacedWay]:
    """Ways from a box to itself: out of its right side and in again above, each round the one before."""
    found = []
    outer = {name: box.right for name, box in boxes.items()}
    for way in ways:
        box = boxes[way.source]
        lane = outer[way.source] + APART / 2 + (label_width(way.label) / 2 if way.label else 0.0)
        outer[way.source] += _circle_width(way)
        low, high = box.bottom - 7, box.y + 9
        points = (Point(box.right, low), Point(lane, low), Point(lane, high), Point(box.right, high))
        label = Point(lane, (low + high) / 2) if way.label else None
        found.append(PlacedWay(way, points, label, back=True))
    return found
