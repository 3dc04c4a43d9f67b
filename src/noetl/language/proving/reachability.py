"""Steps no token can come to, and steps from which no token can end (ADV-06)."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from noetl.language.proving.components import components, path
from noetl.language.proving.graph import Graph
from noetl.language.proving.witness import Marking, Move, sent


class Trap(msgspec.Struct, frozen=True):
    """Steps that lead only to each other; `step` is the first of them in the text."""

    step: int
    steps: tuple[int, ...]
    moves: tuple[Move, ...]


def unreachable(graph: Graph) -> list[int]:
    """Written steps that no walk from the entry comes to."""
    reached = graph.reachable(graph.entry)
    return [step.index for step in graph.steps if step.written and step.index not in reached]


def traps(graph: Graph) -> list[Trap]:
    """The reachable components without a way out in which no token may end."""
    reached = graph.reachable(graph.entry)
    taken_away = graph.withdrawable
    ending = graph.leading_to({index for index in reached if graph[index].may_end or index in taken_away})
    closed = {index: [t for t in graph[index].successors if t not in ending] for index in sorted(reached - ending)}
    found = []
    for part in components(closed):
        inside = set(part)
        if all(target in inside for index in part for target in graph[index].successors):
            first = min(part)
            found.append(Trap(first, tuple(sorted(part)), _walk_in(graph, first)))
    return sorted(found, key=lambda trap: trap.step)


def _walk_in(graph: Graph, step: int) -> tuple[Move, ...]:
    """A walk from the entry into the trap and once around it."""
    edges = {s.index: s.successors for s in graph.steps}
    walk = [step] if step == graph.entry else path(edges, graph.entry, [step]) or [step]
    walk = walk + (path(edges, step, [step]) or [step])[1:]
    return walked(graph, walk)


def walked(graph: Graph, walk: list[int]) -> tuple[Move, ...]:
    """The moves of one token along `walk`."""
    marking = Marking(graph)
    for source, target in pairwise(walk):
        for firing in graph[source].firings:
            way = next((w for w in firing.ways if target in w.targets), None)
            if way is not None:
                others = [w.targets[0] for w in firing.fixed if w is not way]
                targets = [target, *others]
                marking.fire(source, [way.address], targets, sent(graph, source, targets, firing.event))
                break
    return tuple(marking.moves)
