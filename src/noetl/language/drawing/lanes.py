"""Lanes: ways that lead back up, laid beside the boxes so that they cross none, and ways from a box to itself.

Each lane takes the side its ends are nearer to, beyond everything in the rows it passes and beyond the lanes inside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from noetl.language.drawing.edges import Edge
from noetl.language.drawing.positions import PlacedBox, PlacedWay, Point
from noetl.language.drawing.text_metrics import HEAD, label_width

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
