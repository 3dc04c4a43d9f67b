"""The layout: nothing on top of anything else, ways down in the middle and back up at the sides."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from noetl.language.drawing.drawing import draw
from noetl.language.drawing.layout import DrawingLayout, PlacedBox, PlacedWay, label_width, lay_out
from noetl.language.drawing.rows import back_edges, crossings, dominators, ordered, placed, ranks
from tests.language.drawing.nets import grown, net, step

SEEDS = range(12)
Rectangle = tuple[float, float, float, float]


def rectangle(box: PlacedBox) -> Rectangle:
    return (box.x, box.y, box.right, box.bottom)


def label_rectangle(way: PlacedWay) -> Rectangle:
    assert way.label is not None
    half = label_width(way.way.label) / 2
    return (way.label.x - half, way.label.y - 9, way.label.x + half, way.label.y + 9)


def overlap(a: Rectangle, b: Rectangle) -> bool:
    return a[0] < b[2] - 0.01 and b[0] < a[2] - 0.01 and a[1] < b[3] - 0.01 and b[1] < a[3] - 0.01


def laid_out(seed: int) -> DrawingLayout:
    return lay_out(draw(grown(seed)))


@pytest.mark.parametrize("seed", SEEDS)
def test_boxes_and_labels_do_not_overlap(seed: int) -> None:
    layout = laid_out(seed)
    boxes = [rectangle(box) for box in layout.boxes]
    labels = [label_rectangle(way) for way in layout.ways if way.label is not None]

    assert not [pair for pair in combinations(boxes, 2) if overlap(*pair)]
    assert not [(label, box) for label in labels for box in boxes if overlap(label, box)]
    assert not [pair for pair in combinations(labels, 2) if overlap(*pair)]


@pytest.mark.parametrize("seed", SEEDS)
def test_arcs_start_and_end_at_their_boxes_and_cross_no_other(seed: int) -> None:
    layout = laid_out(seed)
    boxes = {box.box.name: box for box in layout.boxes}
    for way in layout.ways:
        source, target = boxes[way.way.source], boxes[way.way.target]
        first, last = way.points[0], way.points[-1]

        assert source.x <= first.x <= source.right
        assert source.y <= first.y <= source.bottom
        assert target.x <= last.x <= target.right
        assert target.y <= last.y <= target.bottom
        for a, b in pairwise(way.points) if way.back else zip(way.points[::2], way.points[1::2], strict=True):
            piece = (min(a.x, b.x), min(a.y, b.y), max(a.x, b.x) + 0.02, max(a.y, b.y) + 0.02)
            crossed = [n for n, box in boxes.items() if overlap(piece, rectangle(box))]
            assert set(crossed) <= {way.way.source, way.way.target}, (way.way, a, b)


@pytest.mark.parametrize("seed", SEEDS)
def test_forward_arcs_lead_down_and_the_rest_stay_inside_the_picture(seed: int) -> None:
    layout = laid_out(seed)
    for way in layout.ways:
        if not way.back:
            assert all(a.y <= b.y + 0.01 for a, b in pairwise(way.points))
        assert all(layout.left - 0.01 <= point.x <= layout.right + 0.01 for point in way.points)


def test_a_chain_is_drawn_in_one_line() -> None:
    layout = lay_out(draw(net(*(step(f"s{n}", f"s{n + 1}") for n in range(8)), step("s8"))))

    assert len({round(box.middle, 3) for box in layout.boxes}) == 1


def test_a_step_that_leads_to_itself_has_a_loop_at_its_side() -> None:
    layout = lay_out(draw(net(step("start", ("start", "ctx.n < 3"), "end"), step("end"))))

    assert [way.back for way in layout.ways if way.way.target == "start"] == [True]


def test_an_arc_that_closes_a_cycle_is_a_back_edge() -> None:
    names = ["a", "b", "c", "d"]
    edges = [("a", "b"), ("b", "c"), ("c", "a"), ("a", "d"), ("d", "c"), ("b", "b")]

    assert back_edges(names, edges, "a") == {("c", "a"), ("b", "b")}


def test_a_box_is_below_all_its_predecessors() -> None:
    names = ["a", "b", "c", "d"]

    assert ranks(names, [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")]) == {"a": 0, "b": 1, "c": 2, "d": 3}


def test_branches_are_centred_where_they_fork_and_join() -> None:
    names = ["start", "a", "b", "merge", "after", "lost"]
    edges = [("start", "a"), ("start", "b"), ("a", "merge"), ("b", "merge"), ("merge", "after"), ("lost", "merge")]

    assert dominators(names, edges, "start") == {"a": "start", "b": "start", "merge": "start", "after": "merge"}


def test_crossings_are_counted_and_removed() -> None:
    rows = [[0, 1, 2], [3, 4, 5]]
    below = [[5], [4], [3], [], [], []]
    above = [[], [], [], [2], [1], [0]]

    assert crossings(rows, below) == 3
    assert crossings(ordered(rows, above, below), below) == 0


def test_boxes_of_a_row_keep_their_order_and_distance() -> None:
    rows = [[0], [1, 2, 3]]
    above, below = [[], [0], [0], [0]], [[1, 2, 3], [], [], []]
    widths = [50.0, 100.0, 40.0, 80.0]

    x = placed(rows, above, below, widths, [1.0] * 4, gap=10.0)

    assert x[2] - x[1] >= 80
    assert x[3] - x[2] >= 70
    assert x[1] < x[0] < x[3]
