"""A drawing as text: indented for people, and in the languages of Graphviz and Mermaid."""

from __future__ import annotations

import json
from collections import Counter

import msgspec

from noetl.language.drawing.drawing import Box, BoxLine, BoxRole, Drawing, Edge, Manner
from noetl.language.drawing.rows import back_edges, dominators, ranks
from noetl.language.proving.certificate import Certificate
from noetl.language.proving.firings import build
from noetl.language.proving.graph import Graph, NetStep
from noetl.language.proving.soundness import UNSOUND
from noetl.net.debug import step_address
from noetl.net.net import Net

_ARROWS = {Manner.PLAIN: "→", Manner.FAILURE: "⇢", Manner.COMPUTED: "⇝"}
_FILLS = {
    BoxRole.START: "#dbeafe",
    BoxRole.STEP: "#f8fafc",
    BoxRole.WAIT: "#fef3c7",
    BoxRole.END: "#dcfce7",
    BoxRole.UNKNOWN: "#f1f5f9",
}
_STYLES = {
    Manner.PLAIN: "",
    Manner.FAILURE: ', style=dashed, color="#c2410c", fontcolor="#c2410c"',
    Manner.COMPUTED: ", style=dotted",
}
# Red for unsound nets, amber for all other findings.
_GRAVE, _ADVICE = "#c0392b", "#b7791f"


# A drawing as indented text: steps from the start down, each once, with the ways that lead on below it.
#
# A step where branches join is below all of them, at the depth of the step where they forked.


def ladder(drawing: Drawing) -> str:
    """The text, made for a terminal."""
    return _Ladder(drawing).text()


class _Rung(msgspec.Struct, frozen=True):
    """A line still to be written: an arc (`branch` is the elbow before it, nothing in a chain), or a join."""

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
            waiting += self._write_edge(waiting.pop())

    def _write_edge(self, rung: _Rung) -> list[_Rung]:
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


# A drawing as text of another program: Graphviz's DOT language, and Mermaid.


def dot(drawing: Drawing) -> str:
    """The digraph, top to bottom."""
    lines = [
        f"digraph {_as_dot(drawing.title)} {{",
        "  graph [rankdir=TB, label="
        + _as_dot(f"{drawing.title}\n{drawing.subtitle}")
        + ', labelloc=t, fontname="sans-serif"]',
        '  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=11]',
        '  edge [fontname="sans-serif", fontsize=10]',
    ]
    lines += [_node(box) for box in drawing.boxes]
    lines += [_edge(way) for way in drawing.ways]
    return "\n".join([*lines, "}"]) + "\n"


def _node(box: Box) -> str:
    rows = [box.name]
    rows += [f"{mark.sign} {mark.word}: {mark.text}" for mark in box.marks]
    rows += [_line_text(line) for line in box.lines]
    return f"  {_as_dot(box.name)} [label={_as_dot(chr(10).join(rows))}, fillcolor={_as_dot(_FILLS[box.role])}]"


def _line_text(line: BoxLine) -> str:
    return "· " * line.depth + " · ".join(part for part in (line.name, line.kind) if part)


def _edge(way: Edge) -> str:
    return f"  {_as_dot(way.source)} -> {_as_dot(way.target)} [label={_as_dot(way.label)}{_STYLES[way.manner]}]"


def _as_dot(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "")
    return f'"{escaped}"'


# A drawing in Mermaid's flowchart language, for documents that render it.

_SHAPES = {
    BoxRole.START: ('(["', '"])'),
    BoxRole.STEP: ('["', '"]'),
    BoxRole.WAIT: ('{{"', '"}}'),
    BoxRole.END: ('(["', '"])'),
    BoxRole.UNKNOWN: ('(("', '"))'),
}
_MERMAID_ARROWS = {Manner.PLAIN: "-->", Manner.FAILURE: "-.->", Manner.COMPUTED: "-.->"}


def mermaid(drawing: Drawing) -> str:
    """The flowchart; ids are made here, since names may hold anything."""
    ids = {box.name: f"s{index}" for index, box in enumerate(drawing.boxes)}
    lines = ["---", f"title: {_mermaid_text(drawing.title)}", "---", "flowchart TD"]
    lines += [f"  {ids[box.name]}{_shape(box)}" for box in drawing.boxes]
    lines += [f"  {_arc_line(way, ids)}" for way in drawing.ways]
    failures = [str(index) for index, way in enumerate(drawing.ways) if way.manner is Manner.FAILURE]
    if failures:
        lines.append(f"  linkStyle {','.join(failures)} stroke:#c2410c")
    return "\n".join(lines) + "\n"


def _shape(box: Box) -> str:
    opening, closing = _SHAPES[box.role]
    rows = [f"<b>{_escaped_label(box.name)}</b>"]
    rows += [f"{mark.sign} {_escaped_label(f'{mark.word}: {mark.text}')}" for mark in box.marks]
    rows += [_escaped_label(_line_text(line)) for line in box.lines]
    return f"{opening}{'<br/>'.join(rows)}{closing}"


def _arc_line(way: Edge, ids: dict[str, str]) -> str:
    label = f'|"{_escaped_label(way.label)}"|' if way.label else ""
    return f"{ids[way.source]} {_MERMAID_ARROWS[way.manner]}{label} {ids[way.target]}"


def _escaped_label(text: str) -> str:
    """Text inside a quoted label: Mermaid reads entities written with # in place of &."""
    # Through NUL, because # is both a sign to escape and the sign that escapes.
    for char in '#&"<>`|':
        text = text.replace(char, f"\0{ord(char)};")
    return " ".join(text.replace("\0", "#").split())


def _mermaid_text(text: str) -> str:
    """A title in the front matter, which is YAML."""
    return "'" + " ".join(text.split()).replace("'", "''") + "'"


# The net with its findings, for Graphviz: steps and arcs that something was found about are coloured (ADV-06).


def findings_dot(net: Net, certificate: Certificate) -> str:
    """A directed graph in the DOT language."""
    graph = build(net)
    marked = _codes_by_address(certificate)
    lines = ["digraph playbook {", "  rankdir=TB;", f"  label={_text(f'{net.name}: {certificate.verdict}')};"]
    lines += ['  node [shape=box, style="rounded,filled", fillcolor=white, fontname="sans-serif"];']
    lines += [_finding_node(step, marked) for step in graph.steps]
    lines += _edges(graph, marked)
    return "\n".join([*lines, "}", ""])


def _codes_by_address(certificate: Certificate) -> dict[str, list[str]]:
    """Codes by address; findings on parts of a step other than an arc are shown at the step."""
    marked: dict[str, list[str]] = {}
    for mark in certificate.marks:
        parts = mark.address.split("/")
        kept = mark.address if parts[2:3] in (["arcs"], ["case"]) else "/".join(parts[:2])
        marked.setdefault(kept, []).append(mark.code)
    return marked


def _finding_node(step: NetStep, marked: dict[str, list[str]]) -> str:
    codes = list(dict.fromkeys(marked.get(step_address(step.name), ())))
    label = "\n".join([step.name, *([f"join {_join(step)}"] if step.join else []), *codes])
    shape = ", shape=circle" if not step.written else ""
    colour = f', color="{_colour(codes)}", penwidth=2' if codes else ""
    return f"  {_text(step.name)} [label={_text(label)}{shape}{colour}];"


def _join(step: NetStep) -> str:
    return "" if step.join is None else str(step.join.count or step.join.mode.value)


def _edges(graph: Graph, marked: dict[str, list[str]]) -> list[str]:
    drawn: dict[str, None] = {}
    for step, firing, way in graph.ways():
        codes = list(dict.fromkeys(marked.get(way.address, ())))
        colour = f', color="{_colour(codes)}", fontcolor="{_colour(codes)}"' if codes else ""
        dashed = ", style=dashed" if firing.event in ("step.failed", "step.timeout") else ""
        label = _text("\n".join(codes))
        for target in way.targets:
            drawn[f"  {_text(step.name)} -> {_text(graph.name(target))} [label={label}{dashed}{colour}];"] = None
    return list(drawn)


def _colour(codes: list[str]) -> str:
    return _GRAVE if any(code in UNSOUND for code in codes) else _ADVICE


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
