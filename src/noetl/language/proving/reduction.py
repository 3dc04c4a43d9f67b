"""Reduction before the search: steps that only pass one token on are skipped (series), so states are fewer."""

from __future__ import annotations

from noetl.language.proving.graph import Graph


class Shortcuts:
    """For each step, the next one at which something can be decided, and the steps passed on the way."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._kept = graph.cancelled
        self._known: dict[int, tuple[int, tuple[int, ...]]] = {}

    def __getitem__(self, step: int) -> tuple[int, tuple[int, ...]]:
        if step not in self._known:
            passed: list[int] = []
            at = step
            while (following := self._only_way(at)) is not None and following not in passed and following != step:
                passed.append(at)
                at = following
            self._known[step] = at, tuple(passed)
        return self._known[step]

    def _only_way(self, step: int) -> int | None:
        node = self._graph[step]
        if node.join is not None or node.may_deny or step in self._kept or len(node.firings) != 1:
            return None
        firing = node.firings[0]
        if firing.stops or firing.optional or len(firing.fixed) != 1:
            return None
        way = firing.fixed[0]
        if way.tokens > 1 or len(way.targets) > 1 or way.cancels or way.targets[0] in self._kept:
            return None
        return way.targets[0]
