"""A drawing as text of another program: Graphviz's DOT language, and Mermaid."""

from __future__ import annotations

from noetl.language.drawing.drawing import Box, BoxRole, Drawing
from noetl.language.drawing.edges import Edge, Manner

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


def dot(drawing: Drawing) -> str:
    """The digraph, top to bottom."""
    lines = [
        f"digraph {_quoted(drawing.title)} {{",
        "  graph [rankdir=TB, label="
        + _quoted(f"{drawing.title}\n{drawing.subtitle}")
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
    rows += ["· " * line.depth + " · ".join(part for part in (line.name, line.kind) if part) for line in box.lines]
    return f"  {_quoted(box.name)} [label={_quoted(chr(10).join(rows))}, fillcolor={_quoted(_FILLS[box.role])}]"


def _edge(way: Edge) -> str:
    return f"  {_quoted(way.source)} -> {_quoted(way.target)} [label={_quoted(way.label)}{_STYLES[way.manner]}]"


def _quoted(text: str) -> str:
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
_ARROWS = {Manner.PLAIN: "-->", Manner.FAILURE: "-.->", Manner.COMPUTED: "-.->"}


def mermaid(drawing: Drawing) -> str:
    """The flowchart; ids are made here, since names may hold anything."""
    ids = {box.name: f"s{index}" for index, box in enumerate(drawing.boxes)}
    lines = ["---", f"title: {_mermaid_text(drawing.title)}", "---", "flowchart TD"]
    lines += [f"  {ids[box.name]}{_shape(box)}" for box in drawing.boxes]
    lines += [f"  {_way(way, ids)}" for way in drawing.ways]
    failures = [str(index) for index, way in enumerate(drawing.ways) if way.manner is Manner.FAILURE]
    if failures:
        lines.append(f"  linkStyle {','.join(failures)} stroke:#c2410c")
    return "\n".join(lines) + "\n"


def _shape(box: Box) -> str:
    opening, closing = _SHAPES[box.role]
    rows = [f"<b>{_escaped(box.name)}</b>"]
    rows += [f"{mark.sign} {_escaped(f'{mark.word}: {mark.text}')}" for mark in box.marks]
    rows += [
        _escaped("· " * line.depth + " · ".join(part for part in (line.name, line.kind) if part)) for line in box.lines
    ]
    return f"{opening}{'<br/>'.join(rows)}{closing}"


def _way(way: Edge, ids: dict[str, str]) -> str:
    label = f'|"{_escaped(way.label)}"|' if way.label else ""
    return f"{ids[way.source]} {_ARROWS[way.manner]}{label} {ids[way.target]}"


def _escaped(text: str) -> str:
    """Text inside a quoted label: Mermaid reads entities written with # in place of &."""
    for char in '#&"<>`|':
        text = text.replace(char, f"\0{ord(char)};")
    return " ".join(text.replace("\0", "#").split())


def _mermaid_text(text: str) -> str:
    """A title in the front matter, which is YAML."""
    return "'" + " ".join(text.split()).replace("'", "''") + "'"
