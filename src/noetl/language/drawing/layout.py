"""Layout: where every box, label and way goes: rows from the start down, ways back up along the sides.

A way is laid through every row it crosses, and its label is a thing of its own in the row below its source, so that
neither runs through a box or over another label. Boxes stand in the even rows, labels in the odd ones.
"""

from __future__ import annotations

from noetl.language.drawing.drawing import Drawing
from noetl.language.drawing.edges import Edge
from noetl.language.drawing.lanes import circle_room, circles, lanes
from noetl.language.drawing.positions import DrawingLayout, PlacedBox, PlacedWay, Point
from noetl.language.drawing.ranks import back_edges, ranks
from noetl.language.drawing.rows import Rows, ordered, placed
from noetl.language.drawing.text_metrics import box_size, label_width

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
