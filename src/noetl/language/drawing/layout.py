"""Layout: where every box, label and way goes: rows from the start down, ways back up along the sides.

A way is laid through every row it crosses, and its label is a thing of its own in the row below its source, so that
neither runs through a box or over another label. Boxes stand in the even rows, labels in the odd ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from noetl.language.drawing.drawing import Drawing
from noetl.language.drawing.edges import Edge
from noetl.language.drawing.geometry import HEAD, DrawingLayout, PlacedBox, PlacedWay, Point, box_size, label_width
from noetl.language.drawing.rows import Rows, back_edges, ordered, placed, ranks

GAP = 26.0  # between things of one row
STRAND = 12.0  # width of a way that only passes through a row
LABEL_HEIGHT = 20.0
BETWEEN = 20.0  # between two rows

_BOX_WEIGHT, _STRAND_WEIGHT = 1.0, 4.0  # ways stay straighter than boxes stay put


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
                    continue  # between two rows of boxes there is nothing to keep away from
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
_NOTCHES = (10.0, 6.0, 14.0)  # how far outside a box ways turn, in turns, when another box stands beside it

Edges = Sequence[tuple[float, float]]  # of each row, where its first thing begins and its last one ends


def lanes(back: Sequence[Edge], boxes: Mapping[str, PlacedBox], edges: Edges) -> tuple[list[PlacedWay], float, float]:
    """The ways back, and how far left and right the whole drawing reaches with them."""
    left, right = min(edge[0] for edge in edges), max(edge[1] for edge in edges)
    taken: list[tuple[int, int, bool, float]] = []  # first row, last row, on the right, outermost x
    found = []
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
        points = _around(source, target, lane, on_right, edges, _NOTCHES[place % len(_NOTCHES)])
        label = Point(lane, (points[0].y + points[-1].y) / 2) if way.label else None
        found.append(PlacedWay(way, tuple(points), label, back=True))
    return found, left, right


def _around(
    source: PlacedBox, target: PlacedBox, lane: float, on_right: bool, edges: Edges, notch: float
) -> list[Point]:
    """Out of the source, along the lane, into the target: through its side, or round it where a box stands between."""
    return [*_out(source, lane, on_right, edges, notch), *_into(target, lane, on_right, edges, notch)]


def _free(box: PlacedBox, on_right: bool, edges: Edges) -> bool:
    """Whether nothing stands between a box and its side of the drawing."""
    first, last = edges[box.row]
    return box.right >= last - 1 if on_right else box.x <= first + 1


def _out(box: PlacedBox, lane: float, on_right: bool, edges: Edges, notch: float) -> list[Point]:
    if _free(box, on_right, edges):
        y = box.y + HEAD / 2 + 6
        return [Point(box.right if on_right else box.x, y), Point(lane, y)]
    x = box.right - 14 if on_right else box.x + 14
    return [Point(x, box.bottom), Point(x, box.row_bottom + notch), Point(lane, box.row_bottom + notch)]


def _into(box: PlacedBox, lane: float, on_right: bool, edges: Edges, notch: float) -> list[Point]:
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
