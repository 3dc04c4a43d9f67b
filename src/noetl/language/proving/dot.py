"""The net with its findings, for Graphviz: steps and arcs that something was found about are coloured (ADV-06)."""

from __future__ import annotations

import json

from noetl.language.proving.certificate import Certificate
from noetl.language.proving.firings import build
from noetl.language.proving.graph import Graph, NetStep
from noetl.language.proving.soundness import UNSOUND
from noetl.net.debug import step_address
from noetl.net.net import Net

_GRAVE, _ADVICE = "#c0392b", "#b7791f"  # unsound, and everything else that was found


def dot(net: Net, certificate: Certificate) -> str:
    """A directed graph in the DOT language."""
    graph = build(net)
    marked = _marked(certificate)
    lines = ["digraph playbook {", "  rankdir=TB;", f"  label={_text(f'{net.name}: {certificate.verdict}')};"]
    lines += ['  node [shape=box, style="rounded,filled", fillcolor=white, fontname="sans-serif"];']
    lines += [_node(step, marked) for step in graph.steps]
    lines += _edges(graph, marked)
    return "\n".join([*lines, "}", ""])


def _marked(certificate: Certificate) -> dict[str, list[str]]:
    """Codes by address; what stands at a part of a step other than an arc shows at the step."""
    marked: dict[str, list[str]] = {}
    for mark in certificate.marks:
        parts = mark.address.split("/")
        kept = mark.address if parts[2:3] in (["arcs"], ["case"]) else "/".join(parts[:2])
        marked.setdefault(kept, []).append(mark.code)
    return marked


def _node(step: NetStep, marked: dict[str, list[str]]) -> str:
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
