"""Drawing: what there is to draw of a net: boxes with their contents, and the ways between them.

No positions and no language: `layout` finds the first, `svg`, `mermaid`, `dot` and `ladder` write the second.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from noetl.graph.contents import Line, Mark, lines_of, marks_of
from noetl.graph.ways import Way, ways_of
from noetl.net.net import Net, Transition


class Role(StrEnum):
    START = "start"
    STEP = "step"
    WAIT = "wait"
    END = "end"  # nothing leads on from here
    UNKNOWN = "unknown"


class Box(msgspec.Struct, frozen=True):
    """A step, or the place of a target that cannot be told."""

    name: str
    role: Role
    marks: tuple[Mark, ...] = ()
    lines: tuple[Line, ...] = ()


class Drawing(msgspec.Struct, frozen=True):
    """Boxes and ways in YAML order."""

    title: str
    subtitle: str
    entry: str
    boxes: tuple[Box, ...]
    ways: tuple[Way, ...]


def draw(net: Net) -> Drawing:
    """Everything of `net` that a picture shows."""
    ways = ways_of(net)
    leaving = {way.source for way in ways}
    boxes = [_box(step, net.entry, leaving) for step in net.transitions]
    known = {box.name for box in boxes}
    boxes += [Box(name, Role.UNKNOWN) for name in dict.fromkeys(way.target for way in ways) if name not in known]
    return Drawing(net.name, f"{net.path} · {net.dialect}", net.entry, tuple(boxes), ways)


def _box(step: Transition, entry: str, leaving: set[str]) -> Box:
    return Box(step.name, _role(step, entry, leaving), marks_of(step), lines_of(step))


def _role(step: Transition, entry: str, leaving: set[str]) -> Role:
    if step.name == entry:
        return Role.START
    if step.name not in leaving:
        return Role.END
    return Role.WAIT if step.waits else Role.STEP
