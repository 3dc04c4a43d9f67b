"""The cost of a net: how long each step took in finished executions, and the critical path, the slowest chain of steps.

The search is a pure function of durations and arcs; `StepDurations` reads the durations. A step has one duration for
each execution, over all its visits. So a cycle counts once, as one node with all its steps, and the search runs over
the graph of these nodes, which has no cycles.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import msgspec

from noetl.events.executions import ExecutionRequested
from noetl.events.projection.views import StepRunView
from noetl.language.proving.graph import components
from noetl.net.net import Net
from noetl.operations.comparisons import step_runs
from noetl.store.contract import EventFilter, ExecutionRow, Records, Store

Spans = Mapping[str, float]  # seconds of each step in one execution


class StepCost(msgspec.Struct, frozen=True, kw_only=True):
    """`runs` counts the executions behind the figures; a step without any has no history. `share` is its fraction of
    the critical path, null for other steps. `in_cycle` marks a step that tokens may visit again."""

    step: str
    median_s: float | None
    p95_s: float | None
    runs: int
    share: float | None
    is_critical: bool
    in_cycle: bool


class NetCost(msgspec.Struct, frozen=True, kw_only=True):
    """`steps` has the critical path first, in its order, then the others, the longest first. `total_s` is the sum of
    the medians on the critical path; null if no step has a history. `arcs` are the arcs of that path, as pairs of
    steps. `executions` counts the executions that were read."""

    path: str
    executions: int
    total_s: float | None
    steps: list[StepCost]
    arcs: list[tuple[str, str]]


def net_cost(net: Net, path: str, history: Sequence[Spans]) -> NetCost:
    """The cost of `net`, from the durations of its steps in the executions of `history`."""
    names = [step.name for step in net.transitions]
    spans = {name: sorted(execution[name] for execution in history if name in execution) for name in names}
    # Medians, not means: one execution that waited overnight for a person would dominate a mean.
    medians = {name: median(seconds) for name, seconds in spans.items() if seconds}
    successors = _successors(net)
    chain = critical_path(successors, net.entry, medians) if medians else []
    critical = [name for part in chain for name in part]
    total = sum(medians.get(name, 0.0) for name in critical)
    on_path, cyclic = set(critical), _steps_in_cycles(successors)
    others = sorted((name for name in names if name not in on_path), key=lambda name: -medians.get(name, -1.0))

    def cost(name: str) -> StepCost:
        seconds, is_critical = spans[name], name in on_path
        return StepCost(
            step=name,
            median_s=_rounded_s(medians.get(name)),
            p95_s=_rounded_s(percentile(seconds, 95)) if seconds else None,
            runs=len(seconds),
            share=round(medians[name] / total, 4) if is_critical and seconds and total else None,
            is_critical=is_critical,
            in_cycle=name in cyclic,
        )

    return NetCost(
        path=path,
        executions=len(history),
        total_s=_rounded_s(total) if medians else None,
        steps=[cost(name) for name in (*critical, *others)],
        arcs=_arcs(successors, chain),
    )


def _arcs(successors: Mapping[str, Sequence[str]], chain: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """The arcs inside each cycle of the chain, and from each link of it to the next."""
    place = {step: at for at, part in enumerate(chain) for step in part}
    return [
        (source, target)
        for source, at in place.items()
        for target in dict.fromkeys(successors[source])
        if place.get(target) in (at, at + 1)
    ]


def _rounded_s(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The value with `percent` of the sorted, non-empty values before it."""
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def _successors(net: Net) -> dict[str, list[str]]:
    """The steps that follow each step without a failure. Arcs that handle failures are left out."""
    # A server starts without the drawings: the first request for a cost loads them.
    from noetl.language.drawing.drawing import Manner, ways_of

    successors: dict[str, list[str]] = {step.name: [] for step in net.transitions}
    for way in ways_of(net):
        if way.manner is not Manner.FAILURE and way.target in successors:
            successors[way.source].append(way.target)
    return successors


def critical_path(successors: Mapping[str, Sequence[str]], entry: str, seconds: Spans) -> list[list[str]]:
    """The longest chain from `entry` to an end. Each link is one step, or the steps of a cycle in the order of
    `successors`.

    Linear in steps and arcs. A step that is not in `seconds` costs nothing and does not break the chain.
    """
    parts = components(successors)
    part_of = {step: at for at, part in enumerate(parts) for step in part}
    longest: list[float] = []
    onward: list[int | None] = []
    # `components` yields those without successors first, so the longest chain after each one is known by then.
    for at, part in enumerate(parts):
        following = dict.fromkeys(
            part_of[target] for step in part for target in successors[step] if part_of[target] != at
        )
        best = max(following, key=longest.__getitem__, default=None)
        onward.append(best)
        own = sum(seconds.get(step, 0.0) for step in part)
        longest.append(own + (longest[best] if best is not None else 0.0))
    position = {step: at for at, step in enumerate(successors)}
    chain: list[list[str]] = []
    here: int | None = part_of[entry]
    while here is not None:
        chain.append(sorted(parts[here], key=position.__getitem__))
        here = onward[here]
    return chain


def _steps_in_cycles(successors: Mapping[str, Sequence[str]]) -> set[str]:
    return {step for part in components(successors) for step in part if len(part) > 1 or step in successors[step]}


def covered_s(spans: Iterable[tuple[float, float]]) -> float:
    """The time covered by these (from, to) spans. Overlapping spans count once."""
    total, until = 0.0, float("-inf")
    for begun, ended in sorted(spans):
        total += max(0.0, ended - max(begun, until))
        until = max(until, ended)
    return total


# Durations of steps in executions that are over, in a cache: they cannot change any more.
#
# The editor asks for them with every change of the net, so each log is read once. When the cache is full, the
# executions that were not used for longest are dropped first.

_RECENT = 20  # executions: enough for a median, and few logs to read
# Pages of a log: an execution of 1,000 steps has about 4,000 step events.
_PAGES = 5
_CACHE_SIZE = 50_000  # durations, a few megabytes


class StepDurations:
    """Reads and caches the durations of steps in finished executions."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cache: OrderedDict[str, Mapping[str, float]] = OrderedDict()
        self._partial: set[str] = set()  # ids of reruns from a step
        self._figures = 0

    async def recent(self, path: str) -> list[Mapping[str, float]]:
        """The seconds of each step in the newest executions of a playbook that are over, one mapping for each."""
        # Twice as many as needed, since some of them may be open or partial.
        rows = await self._store.executions(limit=2 * _RECENT, path=path)
        registered = {version.net_hash for version in await self._store.catalog.versions(path)}
        found: list[Mapping[str, float]] = []
        for row in rows:
            # Drafts do not count, but a playbook that is run from a file only has nothing else.
            if row.finished_at is not None and row.path == path and (row.net_hash in registered or not registered):
                if (durations := await self._step_durations(row)) is not None:
                    found.append(durations)
                if len(found) == _RECENT:
                    break
        return found

    async def _step_durations(self, row: ExecutionRow) -> Mapping[str, float] | None:
        """None for a partial rerun."""
        if row.execution_id in self._partial:
            return None
        durations = self._cache.get(row.execution_id)
        if durations is None:
            if await first_step_of(self._store, row.execution_id) is not None:
                self._partial.add(row.execution_id)
                return None
            durations = _durations(await step_runs(self._store, row.execution_id, pages=_PAGES))
            self._cache[row.execution_id] = durations
            self._figures += len(durations)
        self._cache.move_to_end(row.execution_id)
        # Always keep the last one, however large: the caller is about to use it.
        while self._figures > _CACHE_SIZE and len(self._cache) > 1:
            self._figures -= len(self._cache.popitem(last=False)[1])
        return durations


async def first_step_of(records: Records, execution_id: str) -> str | None:
    """The step that a rerun began at; None for an execution that did all of its work itself."""
    first = await records.events(execution_id, only=EventFilter(limit=1))
    request = first[0].payload if first else None
    return request.carried.step if isinstance(request, ExecutionRequested) and request.carried is not None else None


def _durations(runs: list[StepRunView]) -> dict[str, float]:
    """Durations of the steps whose last visit is done. A failed or cancelled visit says nothing about the duration."""
    visits: dict[str, list[StepRunView]] = {}
    for run in runs:
        visits.setdefault(run.step, []).append(run)
    return {
        step: covered_s((run.active_since, run.finished_at) for run in step_visits if run.finished_at is not None)
        for step, step_visits in visits.items()
        if step_visits[-1].status == "done"
    }
