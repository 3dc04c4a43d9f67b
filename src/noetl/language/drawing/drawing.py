"""Drawing: what there is to draw of a net: boxes with their contents, and the ways between them.

No positions and no language: `layout` finds the first, `svg`, `mermaid`, `dot` and `ladder` write the second.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from noetl.language.drawing.box_contents import BoxLine, BoxMark, lines_of, marks_of
from noetl.language.drawing.edges import Edge, ways_of
from noetl.net.net import Net, Transition


class BoxRole(StrEnum):
    START = "start"
    STEP = "step"
    WAIT = "wait"
    END = "end"  # nothing leads on from here
    UNKNOWN = "unknown"


class Box(msgspec.Struct, frozen=True):
    """A step, or the place of a target that cannot be told."""

    name: str
    role: BoxRole
    marks: tuple[BoxMark, ...] = ()
    lines: tuple[BoxLine, ...] = ()


class Drawing(msgspec.Struct, frozen=True):
    """Boxes and ways in YAML order."""

    title: str
    subtitle: str
    entry: str
    boxes: tuple[Box, ...]
    ways: tuple[Edge, ...]


def draw(net: Net) -> Drawing:
    """Everything of `net` that a picture shows."""
    ways = ways_of(net)
    leaving = {way.source for way in ways}
    boxes = [_box(step, net.entry, leaving) for step in net.transitions]
    known = {box.name for box in boxes}
    boxes += [Box(name, BoxRole.UNKNOWN) for name in dict.fromkeys(way.target for way in ways) if name not in known]
    return Drawing(net.name, f"{net.path} · {net.dialect}", net.entry, tuple(boxes), ways)


def _box(step: Transition, entry: str, leaving: set[str]) -> Box:
    return Box(step.name, _role(step, entry, leaving), marks_of(step), lines_of(step))


def _role(step: Transition, entry: str, leaving: set[str]) -> BoxRole:
    if step.name == entry:
        return BoxRole.START
    if step.name not in leaving:
        return BoxRole.END
    return BoxRole.WAIT if step.waits else BoxRole.STEP
