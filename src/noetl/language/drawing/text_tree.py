"""A drawing as indented text: steps from the start down, each once, with the ways that lead on below it.

A step where branches meet stands below all of them, at the depth of the step where they parted.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from noetl.language.drawing.drawing import Box, Drawing
from noetl.language.drawing.edges import Edge, Manner
from noetl.language.drawing.rows import back_edges, dominators, ranks

_ARROWS = {Manner.PLAIN: "→", Manner.FAILURE: "⇢", Manner.COMPUTED: "⇝"}


def ladder(drawing: Drawing) -> str:
    """The text, made for a terminal."""
    return _Ladder(drawing).text()


class _Rung(msgspec.Struct, frozen=True):
    """What is still to be written: a way (`branch` is the elbow before it, nothing in a chain), or a meeting place."""

    prefix: str
    way: Edge | None = None
    branch: str = ""
    meeting: str = ""


class _Ladder:
    """Walks the drawing depth first, by a stack of its own, so that a long chain costs no recursion."""

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing
        self._boxes = {box.name: box for box in drawing.boxes}
        self._ways: dict[str, list[Edge]] = {box.name: [] for box in drawing.boxes}
        for way in drawing.ways:
            self._ways[way.source].append(way)
        self._rows: list[str] = []
        self._shown: set[str] = set()
        self._meetings = self._meeting_places()
        self._met = {name for places in self._meetings.values() for name in places}

    def _meeting_places(self) -> dict[str, list[str]]:
        """For each step, the steps at which the branches that part there meet again, from the top."""
        names = list(self._boxes)
        edges = [(way.source, way.target) for way in self._drawing.ways]
        backward = back_edges(names, edges, self._drawing.entry)
        forward = [edge for edge in edges if edge not in backward]
        rank = ranks(names, forward)
        parting = dominators(names, forward, self._drawing.entry)
        reached = Counter(target for source, target in forward if source == self._drawing.entry or source in parting)
        found: dict[str, list[str]] = {name: [] for name in names}
        for name in sorted(parting, key=rank.__getitem__):
            if reached[name] > 1:
                found[parting[name]].append(name)
        return found

    def text(self) -> str:
        self._rows += [self._drawing.title, self._drawing.subtitle, ""]
        self._from(self._drawing.entry)
        for box in self._drawing.boxes:
            if box.name not in self._shown:
                self._rows += ["", "never reached:"]
                self._from(box.name)
        return "\n".join(row.rstrip() for row in self._rows) + "\n"

    def _from(self, name: str) -> None:
        self._rows.append(name)
        waiting = self._reach(name, "")
        while waiting:
            waiting += self._climb(waiting.pop())

    def _climb(self, rung: _Rung) -> list[_Rung]:
        """Write one way and the step it leads to; a step that has its own place is only named."""
        way, prefix = rung.way, rung.prefix
        if way is None:
            self._rows += [prefix, f"{prefix}{rung.meeting}"]
            return self._reach(rung.meeting, prefix)
        arrow = f"{way.label} {_ARROWS[way.manner]}".strip()
        if way.target in self._shown or way.target in self._met:
            sign = "↑" if way.target in self._shown else "↓"
            self._rows.append(f"{prefix}{rung.branch or '└─'} {arrow} {way.target} {sign}")
            return []
        if rung.branch:
            self._rows.append(f"{prefix}{rung.branch} {arrow} {way.target}")
            prefix += "│  " if rung.branch == "├─" else "   "
        else:
            self._rows += [f"{prefix}↓ {way.label}", f"{prefix}{way.target}"]
        return self._reach(way.target, prefix)

    def _reach(self, name: str, prefix: str) -> list[_Rung]:
        """Write what a step holds, and give what follows it, the last thing first."""
        self._shown.add(name)
        ways = self._ways[name]
        bar = "│" if ways else " "
        self._rows += [f"{prefix}{bar}  {row}" for row in _contents(self._boxes[name])]
        meetings = [_Rung(prefix, meeting=place) for place in reversed(self._meetings[name])]
        if len(ways) == 1:
            return [*meetings, _Rung(prefix, ways[0])]
        return [*meetings, *(_Rung(prefix, way, "└─" if way is ways[-1] else "├─") for way in reversed(ways))]


def _contents(box: Box) -> list[str]:
    names = ["  " * line.depth + line.name for line in box.lines]
    longest = max(map(len, names), default=0)
    marks = [f"{mark.sign} {mark.word}: {mark.text}" for mark in box.marks]
    return [*marks, *(f"{name.ljust(longest)}  {line.note}" for name, line in zip(names, box.lines, strict=True))]
