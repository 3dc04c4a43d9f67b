"""Strongly connected components: the cycles of a directed graph, found in linear time without recursion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

import msgspec

from noetl.language.proving.graph import Graph
from noetl.language.proving.witness import Marking, Move, sent

Node = TypeVar("Node")


def components(successors: Mapping[Node, Sequence[Node]]) -> list[list[Node]]:
    """Tarjan's components, those without way out first; nodes that are only targets must be keys too."""
    order: dict[Node, int] = {}
    low: dict[Node, int] = {}
    open_nodes: list[Node] = []
    is_open: set[Node] = set()
    found: list[list[Node]] = []
    for root in successors:
        if root in order:
            continue
        order[root] = low[root] = len(order)
        open_nodes.append(root)
        is_open.add(root)
        walk = [(root, iter(successors[root]))]
        while walk:
            node, rest = walk[-1]
            for target in rest:
                if target not in order:
                    order[target] = low[target] = len(order)
                    open_nodes.append(target)
                    is_open.add(target)
                    walk.append((target, iter(successors[target])))
                    break
                if target in is_open:
                    low[node] = min(low[node], order[target])
            else:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[node])
                if low[node] == order[node]:
                    cut = _last_index(open_nodes, node)
                    found.append(open_nodes[cut:])
                    is_open.difference_update(open_nodes[cut:])
                    del open_nodes[cut:]
    return found


def _last_index(nodes: list[Node], wanted: Node) -> int:
    return next(i for i in range(len(nodes) - 1, -1, -1) if nodes[i] == wanted)


def cycles(successors: Mapping[Node, Sequence[Node]]) -> list[list[Node]]:
    """The components that hold a cycle, each in the order of the mapping's keys."""
    position = {node: at for at, node in enumerate(successors)}
    return [
        sorted(part, key=position.__getitem__)
        for part in components(successors)
        if len(part) > 1 or part[0] in successors[part[0]]
    ]


def path(successors: Mapping[Node, Iterable[Node]], start: Node, goals: Iterable[Node]) -> list[Node] | None:
    """A shortest walk of at least one edge from `start` to one of `goals`, both ends included."""
    wanted = set(goals)
    came: dict[Node, Node] = {}
    layer = [start]
    while layer:
        following = []
        for node in layer:
            for target in successors.get(node, ()):
                if target in wanted:
                    walk = [target, node]
                    while walk[-1] != start:
                        walk.append(came[walk[-1]])
                    return walk[::-1]
                if target not in came and target != start:
                    came[target] = node
                    following.append(target)
        layer = following
    return None


# Steps no token can come to, and steps from which no token can end (ADV-06).


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
