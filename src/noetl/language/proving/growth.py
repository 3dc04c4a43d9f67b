"""Token growth: cycles in which a split adds tokens each round that no join takes back (ADV-06).

A fork grows when one of its own tokens comes back to it without leaving the group the fork opened, or when the
group sends more than one joined token on and one of them comes back. A cycle closed by the fork's own join does not.
"""

from __future__ import annotations

import msgspec

from noetl.language.proving.components import cycles, path, walked
from noetl.language.proving.forks_and_joins import caps, group_outcomes, settle_joins
from noetl.language.proving.graph import Firing, Graph
from noetl.language.proving.outcomes import Normal, Outcome
from noetl.language.proving.token_outcomes import TokenOutcomes
from noetl.language.proving.witness import Move


class Growth(msgspec.Struct, frozen=True):
    step: int
    cycle: tuple[int, ...]
    moves: tuple[Move, ...]


def growing(graph: Graph, solved: TokenOutcomes | None) -> list[Growth]:
    """The forks of `graph` that make tokens without end, each with the cycle that does it."""
    reached = sorted(graph.reachable(graph.entry))
    edges = {index: list(graph[index].successors) for index in reached}
    found = []
    # Only a cycle can grow: outside of one every fork opens its group once for each token that comes.
    for part in cycles(edges):
        forks = [index for index in part if graph[index].forks]
        if not forks:
            continue
        level = _Level(graph, set(part), forks)
        for fork in forks:
            around = level.return_to(fork)
            # The dearer question last: it goes through the outcomes of the whole group.
            if around is None and solved is not None and _sends_several(graph, solved, fork):
                around = level.return_after_joining(fork)
            if around is not None:
                found.append(Growth(fork, tuple(around), _witness(graph, edges, around)))
    return found


class _Level:
    """Walks within one group, inside one component: a join of the group ends the walk, a nested fork is crossed
    to the joins its group may come to."""

    def __init__(self, graph: Graph, inside: set[int], forks: list[int]) -> None:
        self._graph = graph
        self._inside = inside
        self._crossed: dict[int, set[int]] = {fork: set() for fork in forks}
        changed = True
        # A fork may be inside the group of another, and where that one comes out is only known when the inner is.
        while changed:
            changed = False
            for fork in forks:
                reached = self._arrivals(fork)
                if reached - self._crossed[fork]:
                    self._crossed[fork] |= reached
                    changed = True

    def return_to(self, fork: int) -> list[int] | None:
        """The walk of one of the fork's own tokens back to it, inside its group."""
        edges = self._edges()
        for first in self._first_steps(fork):
            if first == fork:
                return [fork, fork]
            if self._graph[first].join is None:
                walk = path(edges, first, [fork])
                if walk is not None:
                    return [fork, *walk]
        return None

    def return_after_joining(self, fork: int) -> list[int] | None:
        """The walk of a joined token back to the fork, in the group around."""
        edges = self._edges()
        walks = (path(edges, join, [fork]) for join in sorted(self._crossed[fork]))
        return next(([fork, *walk] for walk in walks if walk is not None), None)

    def _first_steps(self, fork: int) -> list[int]:
        """First steps of the tokens of groups that `fork` opens."""
        firings = [f for f in self._graph[fork].firings if f.most_tokens >= 2]
        return [t for f in firings for way in f.ways for t in way.targets if t in self._inside]

    def _edges(self) -> dict[int, list[int]]:
        """Steps that run one after another within a level."""
        edges: dict[int, list[int]] = {}
        for index in self._inside:
            singles = [t for f in self._graph[index].firings for t in _single_targets(f)]
            # A join is no step further within the level: whoever arrives there leaves the group.
            plain = [t for t in singles if t in self._inside and self._graph[t].join is None]
            edges[index] = plain + sorted(self._crossed.get(index, ()))
        return edges

    def _arrivals(self, fork: int) -> set[int]:
        edges = self._edges()
        seen = set(self._first_steps(fork))
        waiting = [t for t in seen if self._graph[t].join is None]
        found = {t for t in seen if self._graph[t].join is not None}
        while waiting:
            index = waiting.pop()
            for firing in self._graph[index].firings:
                found |= {t for t in _single_targets(firing) if t in self._inside and self._graph[t].join is not None}
            for target in edges[index]:
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return found


def _single_targets(firing: Firing) -> list[int]:
    return [target for way in firing.alone for target in way.targets]


def _sends_several(graph: Graph, solved: TokenOutcomes, fork: int) -> bool:
    """Whether one group of `fork` can send two joined tokens on."""

    def enter(target: int) -> list[Outcome]:
        if graph[target].join is not None:
            return [Normal(((target, 1),))]
        return list(solved.outcomes(target, True))

    limits = caps(graph)
    for firing in graph[fork].firings:
        if firing.most_tokens >= 2:
            for outcome, _ in group_outcomes(firing, enter, limits, lambda _work: None):
                if (
                    isinstance(outcome, Normal)
                    and len(settle_joins(graph, outcome).fired + settle_joins(graph, outcome).maybe) >= 2
                ):
                    return True
    return False


def _witness(graph: Graph, edges: dict[int, list[int]], around: list[int]) -> tuple[Move, ...]:
    """From the entry to the fork, then around the cycle by plain arcs."""
    fork = around[0]
    walk = [fork] if fork == graph.entry else path(edges, graph.entry, [fork]) or [fork]
    for stop in around[1:]:
        walk += (path(edges, walk[-1], [stop]) or [walk[-1], stop])[1:]
    return walked(graph, walk)
