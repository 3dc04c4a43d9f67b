"""Rows: the order within each row, so that few arcs cross, and the position of each element along the row.

Both walk the rows down and up again a few times: an order by the middle of a thing's neighbours in the row before,
then places as near to that middle as the things beside it leave room for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

Rows = list[list[int]]
# For each item, the items it is linked to in the row before or after.
Links = Sequence[Sequence[int]]

_ORDERING_SWEEPS = 12
_PLACING_SWEEPS = 16


def ordered(rows: Rows, above: Links, below: Links) -> Rows:
    """The rows in the order with the fewest crossings found; ties keep the order they came in."""
    best, fewest = [list(row) for row in rows], crossings(rows, below)
    current = [list(row) for row in rows]
    for sweep in range(_ORDERING_SWEEPS):
        if not fewest:
            break
        downward = sweep % 2 == 0
        links = above if downward else below
        indices = range(1, len(current)) if downward else range(len(current) - 2, -1, -1)
        for index in indices:
            fixed = current[index - 1 if downward else index + 1]
            _sort_by_neighbours(current[index], {thing: place for place, thing in enumerate(fixed)}, links)
        crossed = crossings(current, below)
        # A sweep may also make things worse: the best order seen is kept.
        if crossed < fewest:
            best, fewest = [list(row) for row in current], crossed
    return best


def _sort_by_neighbours(row: list[int], place: dict[int, int], links: Links) -> None:
    def wanted_position(item: tuple[int, int]) -> float:
        index, thing = item
        near = [place[other] for other in links[thing]]
        return sum(near) / len(near) if near else float(index)

    row[:] = [thing for _, thing in sorted(enumerate(row), key=wanted_position)]


def crossings(rows: Rows, below: Links) -> int:
    """How many pairs of joins cross, over all neighbouring rows."""
    total = 0
    for row, following in pairwise(rows):
        place = {thing: index for index, thing in enumerate(following)}
        ends = [end for thing in row for end in sorted(place[other] for other in below[thing])]
        total += _inversions(ends, len(following))
    return total


def _inversions(ends: list[int], size: int) -> int:
    """Pairs out of order, counted with a tree of sums."""
    tree, total = [0] * (size + 1), 0
    for seen, end in enumerate(ends):
        index, smaller = end + 1, 0
        while index:
            smaller += tree[index]
            index &= index - 1
        total += seen - smaller
        index = end + 1
        while index <= size:
            tree[index] += 1
            index += index & -index
    return total


def placed(
    rows: Rows, above: Links, below: Links, widths: Sequence[float], weights: Sequence[float], gap: float
) -> list[float]:
    """The middle of each thing along its row: near its neighbours, and never nearer to the next than `gap`."""
    x = [0.0] * len(widths)
    for row in rows:
        at = 0.0
        for thing in row:
            x[thing] = at + widths[thing] / 2
            at += widths[thing] + gap
    for sweep in range(_PLACING_SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            links = above if sweep % 2 == 0 else below
            wishes = [_wanted_x(thing, x, links, above, below, last=sweep >= _PLACING_SWEEPS - 4) for thing in row]
            for thing, at in zip(row, _spread(row, wishes, widths, weights, gap), strict=True):
                x[thing] = at
    x = straightened(x, rows, above, below, widths, gap)
    left = min((x[thing] - widths[thing] / 2 for row in rows for thing in row), default=0.0)
    return [at - left for at in x]


def _wanted_x(thing: int, x: list[float], links: Links, above: Links, below: Links, *, last: bool) -> float:
    # The last sweeps look both ways; the ones before pull each row towards the one they come from.
    near = [*above[thing], *below[thing]] if last else links[thing]
    # The common case: most items are segments of an edge.
    if len(near) == 1:
        return x[near[0]]
    return median(x[other] for other in near) if near else x[thing]


def _spread(
    row: list[int], wishes: list[float], widths: Sequence[float], weights: Sequence[float], gap: float
) -> list[float]:
    """Places nearest to the wishes (by weighted squares) that keep order and distance: pool adjacent violators."""
    offsets, at = [], 0.0
    for index, thing in enumerate(row):
        at += (widths[row[index - 1]] + widths[thing]) / 2 + gap if index else 0.0
        offsets.append(at)
    # Mean of (wish - offset), weight, size.
    pools: list[tuple[float, float, int]] = []
    for thing, wish, offset in zip(row, wishes, offsets, strict=True):
        mean, weight, size = wish - offset, weights[thing], 1
        while pools and pools[-1][0] > mean:
            earlier, heavier, many = pools.pop()
            mean = (mean * weight + earlier * heavier) / (weight + heavier)
            weight, size = weight + heavier, size + many
        pools.append((mean, weight, size))
    means = [mean for mean, _, size in pools for _ in range(size)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def straightened(
    x: list[float], rows: Rows, above: Links, below: Links, widths: Sequence[float], gap: float
) -> list[float]:
    """`x` with chains of things that have one neighbour each way drawn upright, as far as others leave room."""
    beside = {
        thing: (row[i - 1] if i else None, row[i + 1] if i + 1 < len(row) else None)
        for row in rows
        for i, thing in enumerate(row)
    }
    for chain in _chains(rows, above, below):
        run: list[int] = []
        low, high = float("-inf"), float("inf")
        for thing in chain:
            at_least, at_most = _room(thing, beside[thing], x, widths, gap)
            if max(low, at_least) > min(high, at_most):
                _upright(run, x, low, high)
                run, low, high = [], float("-inf"), float("inf")
            run.append(thing)
            low, high = max(low, at_least), min(high, at_most)
        _upright(run, x, low, high)
    return x


def _room(
    thing: int, beside: tuple[int | None, int | None], x: list[float], widths: Sequence[float], gap: float
) -> tuple[float, float]:
    """How far a thing may move between those beside it."""
    left, right = beside
    low = float("-inf") if left is None else x[left] + (widths[left] + widths[thing]) / 2 + gap
    high = float("inf") if right is None else x[right] - (widths[right] + widths[thing]) / 2 - gap
    return min(low, x[thing]), max(high, x[thing])


def _upright(run: list[int], x: list[float], low: float, high: float) -> None:
    if run:
        at = min(max(median(x[thing] for thing in run), low), high)
        for thing in run:
            x[thing] = at


def _chains(rows: Rows, above: Links, below: Links) -> list[list[int]]:
    """The longest runs of things joined one to one, from the top."""
    found = []
    for row in rows:
        for thing in row:
            if len(above[thing]) == 1 and len(below[above[thing][0]]) == 1:
                continue  # inside another chain
            chain = [thing]
            while len(below[chain[-1]]) == 1 and len(above[below[chain[-1]][0]]) == 1:
                chain.append(below[chain[-1]][0])
            if len(chain) > 1:
                found.append(chain)
    return found


# Ranks: the row of each box, and the arcs against the direction of the drawing.

Edge = tuple[str, str]


def back_edges(names: Sequence[str], edges: Iterable[Edge], entry: str) -> set[Edge]:
    """The edges that lead back to a box still open in a depth-first walk from the entry, self-loops included."""
    following: dict[str, list[str]] = {name: [] for name in names}
    for source, target in edges:
        following[source].append(target)
    found: set[Edge] = set()
    # Absent: not seen, 1: open, 2: closed.
    state: dict[str, int] = {}
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
                # The deeper one climbs, until both meet at the box that all ways have in common.
                if depth[common] >= depth[other]:
                    common = found[common]
                else:
                    other = found[other]
        found[name], depth[name] = common, depth[common] + 1
    del found[entry]
    return found
