"""What a net costs: how long each step took in finished executions, and the chain of steps that takes longest.

The search is a pure function of durations and arcs; `StepDurations` reads the durations. A step of a cycle has one
duration for each execution, with all its visits in it. So a cycle counts once, with all of its steps, and the search is
over what is left without cycles.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from noetl.events.projection.views import StepRunView
from noetl.language.drawing.edges import Manner, ways_of
from noetl.language.proving.components import components
from noetl.net.net import Net
from noetl.operations.comparisons import step_runs
from noetl.store.contract import ExecutionRow, Store

Spans = Mapping[str, float]  # seconds of each step in one execution


class StepCost(msgspec.Struct, frozen=True, kw_only=True):
    """`runs` counts the executions that the figures are from; a step without any has no history. `share` is its part of
    the critical path, for steps on it. `in_cycle` is a step that tokens may come back to."""

    step: str
    median_s: float | None
    p95_s: float | None
    runs: int
    share: float | None
    is_critical: bool
    in_cycle: bool


class NetCost(msgspec.Struct, frozen=True, kw_only=True):
    """`steps` has the critical path first, in its order, then the others, the longest first. `total_s` is the sum of
    the medians of the critical path; null where no step has a history. `arcs` of it lead from a step to a step.
    `executions` is how many were looked at."""

    path: str
    executions: int
    total_s: float | None
    steps: list[StepCost]
    arcs: list[tuple[str, str]]


def net_cost(net: Net, path: str, history: Sequence[Spans]) -> NetCost:
    """The cost of `net`, by what its steps took in the executions of `history`."""
    names = [step.name for step in net.transitions]
    spans = {name: sorted(one[name] for one in history if name in one) for name in names}
    medians = {name: percentile(found, 50) for name, found in spans.items() if found}
    ways = _ways(net)
    chain = critical_path(ways, net.entry, medians) if medians else []
    critical = [name for part in chain for name in part]
    total = sum(medians.get(name, 0.0) for name in critical)
    on_path, cyclic = set(critical), _steps_in_cycles(ways)
    others = sorted((name for name in names if name not in on_path), key=lambda name: -medians.get(name, -1.0))

    def cost(name: str) -> StepCost:
        found, is_critical = spans[name], name in on_path
        return StepCost(
            step=name,
            median_s=_rounded(medians.get(name)),
            p95_s=_rounded(percentile(found, 95)) if found else None,
            runs=len(found),
            share=round(medians[name] / total, 4) if is_critical and found and total else None,
            is_critical=is_critical,
            in_cycle=name in cyclic,
        )

    return NetCost(
        path=path,
        executions=len(history),
        total_s=_rounded(total) if medians else None,
        steps=[cost(name) for name in (*critical, *others)],
        arcs=_arcs(ways, chain),
    )


def _arcs(ways: Mapping[str, Sequence[str]], chain: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """The arcs inside each cycle of the chain, and from each link of it to the next."""
    place = {step: at for at, part in enumerate(chain) for step in part}
    return [
        (source, target)
        for source, at in place.items()
        for target in dict.fromkeys(ways[source])
        if place.get(target) in (at, at + 1)
    ]


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Of values in order, at least one: the one with `percent` of them before it, so the upper one of two medians."""
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def _ways(net: Net) -> dict[str, list[str]]:
    """Where tokens go from each step when all is well: what handles a failure is no part of the usual way."""
    ways: dict[str, list[str]] = {step.name: [] for step in net.transitions}
    for way in ways_of(net):
        if way.manner is not Manner.FAILURE and way.target in ways:
            ways[way.source].append(way.target)
    return ways


def critical_path(ways: Mapping[str, Sequence[str]], entry: str, seconds: Spans) -> list[list[str]]:
    """The longest chain from `entry` to an end. A link of it is one step, or those of a cycle in the order of `ways`.

    Linear in steps and arcs. A step that is not in `seconds` costs nothing and does not break the chain.
    """
    parts = components(ways)
    part_of = {step: at for at, part in enumerate(parts) for step in part}
    longest: list[float] = []
    onward: list[int | None] = []
    # Components come with those first that lead nowhere, so what one leads to is known when it is its turn.
    for at, part in enumerate(parts):
        following = dict.fromkeys(part_of[target] for step in part for target in ways[step] if part_of[target] != at)
        best = max(following, key=longest.__getitem__, default=None)
        onward.append(best)
        own = sum(seconds.get(step, 0.0) for step in part)
        longest.append(own + (longest[best] if best is not None else 0.0))
    position = {step: at for at, step in enumerate(ways)}
    chain: list[list[str]] = []
    here: int | None = part_of[entry]
    while here is not None:
        chain.append(sorted(parts[here], key=position.__getitem__))
        here = onward[here]
    return chain


def _steps_in_cycles(ways: Mapping[str, Sequence[str]]) -> set[str]:
    return {step for part in components(ways) for step in part if len(part) > 1 or step in ways[step]}


def covered_s(spans: Iterable[tuple[float, float]]) -> float:
    """How long at least one of these (from, to) lasted: visits at the same time are no sum."""
    total, until = 0.0, float("-inf")
    for begun, ended in sorted(spans):
        total += max(0.0, ended - max(begun, until))
        until = max(until, ended)
    return total


# How long each step took in executions that are over, kept because it cannot change any more.
#
# Whoever edits a playbook asks for it with every change of the net. The logs are read once; the executions that were
# not asked for longest go first when too many figures are kept.

_RECENT = 20  # executions: enough for a median, and few logs to read
_PAGES = 5  # of a log: an execution of 1,000 steps has some 4,000 events that tell of them
_KEPT = 50_000  # figures, a few megabytes


class StepDurations:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[str, Mapping[str, float]] = OrderedDict()
        self._figures = 0

    async def recent(self, path: str) -> list[Mapping[str, float]]:
        """The seconds of each step in the newest executions of a playbook that are over, one mapping for each."""
        rows = await self._store.executions(limit=2 * _RECENT, path=path)  # some may be open
        ended = [row for row in rows if row.finished_at is not None and row.path == path]
        return [await self._of(row) for row in ended[:_RECENT]]

    async def _of(self, row: ExecutionRow) -> Mapping[str, float]:
        found = self._kept.get(row.execution_id)
        if found is None:
            found = _durations(await step_runs(self._store, row.execution_id, pages=_PAGES))
            self._kept[row.execution_id] = found
            self._figures += len(found)
        self._kept.move_to_end(row.execution_id)
        while self._figures > _KEPT and len(self._kept) > 1:
            self._figures -= len(self._kept.popitem(last=False)[1])
        return found


def _durations(runs: list[StepRunView]) -> dict[str, float]:
    """Of steps whose last visit was done: one that failed, or was cancelled, does not say how long the step takes."""
    visits: dict[str, list[StepRunView]] = {}
    for run in runs:
        visits.setdefault(run.step, []).append(run)
    return {
        step: covered_s((one.active_since, one.finished_at) for one in found if one.finished_at is not None)
        for step, found in visits.items()
        if found[-1].status == "done"
    }
