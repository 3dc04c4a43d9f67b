"""Dominators: for each box, the last box that every way to it passes through: where its branches parted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from noetl.language.drawing.ranks import Edge, ranks


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
