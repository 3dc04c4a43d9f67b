"""Cycles of arcs, and the reason why each one ends (ROUTE-10, beyond.md §2).

An arc can be relied on to stay silent one day when its step can also leave the cycle and a guard that decides reads
something a round changes, when it is taken only after a failure or a timeout, or when its step waits. Cycles that
hold without all such arcs have no reason to end but the budget of step runs.
"""

from __future__ import annotations

from noetl.language.proving.arcs import StepEdge, edges
from noetl.language.proving.components import cycles, path, walked
from noetl.language.proving.graph import FAILED, Graph
from noetl.language.proving.source_positions import CycleReason, PlacedFinding
from noetl.language.proving.variable_access import Moving, ReadKeys, keys, step_ctx
from noetl.net.net import Net


def arc_cycles(net: Net, graph: Graph) -> tuple[list[PlacedFinding], list[CycleReason]]:
    """Cycles without a reason to end, and the reasons of the others."""
    reached = graph.reachable(graph.entry)
    found: list[PlacedFinding] = []
    reasons: list[CycleReason] = []
    for part in cycles({index: graph[index].successors for index in sorted(reached)}):
        inside = {graph.name(index) for index in part}
        around = [edge for edge in edges(net, inside) if edge.target in inside]
        moving = _moving(net, inside, around)
        leaving = {graph.name(index) for index in part if _leaves(graph, index, set(part))}
        why = {edge: _reason(edge, moving, edge.source in leaving) for edge in around}
        endless = cycles({name: [e.target for e in around if e.source == name and not why[e]] for name in inside})
        found += [_endless(graph, names, [e for e in around if not why[e]]) for names in endless]
        if not endless:
            told = dict.fromkeys(reason for reason in why.values() if reason)
            reasons.append(CycleReason(tuple(graph.name(index) for index in part), "; ".join(told)))
    return found, reasons


def _reason(edge: StepEdge, moving: Moving, leaves: bool) -> str | None:
    """Why `edge` will not be taken for ever."""
    decided = edge.guards if leaves else ()
    return edge.reason or moving.first_reason((*decided, *edge.admission))


def _leaves(graph: Graph, index: int, inside: set[int]) -> bool:
    """Whether a run there can end the token or send it out of the cycle without failing."""
    calm = [firing for firing in graph[index].firings if firing.event != FAILED]
    outside = any(target not in inside for firing in calm for way in firing.ways for target in way.targets)
    return outside or any(firing.stops or firing.ends for firing in calm)


def _moving(net: Net, inside: set[str], around: list[StepEdge]) -> Moving:
    written, passed = ReadKeys(), ReadKeys()
    for step in net.transitions:
        if step.name in inside:
            written |= step_ctx(step)
    for edge in around:
        passed |= keys(edge.args)
    return Moving(ctx=written, args=passed, results=frozenset(inside), workload=frozenset(net.workload))


def _endless(graph: Graph, names: list[str], around: list[StepEdge]) -> PlacedFinding:
    order = {step.name: step.index for step in graph.steps}
    names = sorted(names, key=order.__getitem__)
    ways = {name: [e.target for e in around if e.source == name and e.target in names] for name in names}
    walk = path(ways, names[0], [names[0]]) or names
    back = max((e for e in around if e.source in names and e.target in names), key=lambda e: order[e.source])
    indexes = {step.index: step.successors for step in graph.steps}
    start = order[names[0]]
    lead = [start] if start == graph.entry else path(indexes, graph.entry, [start]) or [start]
    around_once = " -> ".join(walk) if set(walk) == set(names) else f"through {', '.join(names)}"
    message = f"nothing was found that ends the cycle {around_once}"
    hint = "guard an arc of it with something a round changes: a counter, a result, or a wait"
    moves = walked(graph, [*lead, *(order[name] for name in walk[1:])])
    return PlacedFinding("W_CYCLE_UNBOUNDED", (back.address,), message, hint, moves)
