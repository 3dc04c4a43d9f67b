"""A drawing in Graphviz's DOT language."""

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
