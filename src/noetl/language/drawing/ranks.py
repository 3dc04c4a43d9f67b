"""Ranks: which row each box stands in, and which ways go against the direction of the drawing.

A box stands one row below the lowest box that leads to it. Ways that close a cycle are left out of that count.
`dominators` says where the branches that meet in a box have parted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Edge = tuple[str, str]


def back_edges(names: Sequence[str], edges: Iterable[Edge], entry: str) -> set[Edge]:
    """The edges that lead back to a box still open in a depth-first walk from the entry, self-loops included."""
    following: dict[str, list[str]] = {name: [] for name in names}
    for source, target in edges:
        following[source].append(target)
    found: set[Edge] = set()
    state: dict[str, int] = {}  # absent: not seen, 1: open, 2: closed
    for root in (entry, *names):
        if root in state:
            continue
        state[root] = 1
        walk = [(root, iter(following[root]))]
        while walk:
            name, rest = walk[-1]
            reached = next(rest, None)
            if reached is None:
                state[name] = 2
                walk.pop()
            elif state.get(reached) == 1:
                found.add((name, reached))
            elif reached not in state:
                state[reached] = 1
                walk.append((reached, iter(following[reached])))
    return found


def ranks(names: Sequence[str], edges: Iterable[Edge]) -> dict[str, int]:
    """Row of each box by its longest way from a source; `edges` hold no cycle."""
    following: dict[str, list[str]] = {name: [] for name in names}
    missing = dict.fromkeys(names, 0)
    for source, target in edges:
        following[source].append(target)
        missing[target] += 1
    rank = dict.fromkeys(names, 0)
    ready = [name for name in names if not missing[name]]
    for name in ready:
        for target in following[name]:
            rank[target] = max(rank[target], rank[name] + 1)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    return rank


def dominators(names: Sequence[str], edges: Iterable[Edge], entry: str) -> dict[str, str]:
    """The immediate dominator of every box that can be reached from `entry`; `edges` hold no cycle."""
    edges = list(edges)
    arriving: dict[str, list[str]] = {name: [] for name in names}
    for source, target in edges:
        arriving[target].append(source)
    rank = ranks(names, edges)
    found, depth = {entry: entry}, {entry: 0}
    for name in sorted(names, key=rank.__getitem__):
        known = [source for source in arriving[name] if source in found]
        if name == entry or not known:
            continue
        common = known[0]
        for other in known[1:]:
            while common != other:
                if depth[common] >= depth[other]:
                    common = found[common]
                else:
                    other = found[other]
        found[name], depth[name] = common, depth[common] + 1
    del found[entry]
    return found
