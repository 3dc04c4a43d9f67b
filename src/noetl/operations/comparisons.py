"""Comparisons: the differences between two values, and between two executions (SRV-09).

Command line, API and web UI show the same comparison. Two executions need not be of the same playbook: steps are
compared by name. Everything is read from the event logs; nothing is stored for comparisons.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any, Literal

import msgspec

from noetl.base.clock import rfc3339
from noetl.engine.execution import Execution
from noetl.events.projection.projection import STEP_EVENTS, Projection
from noetl.events.projection.views import StepRunView
from noetl.operations import attempt_shapes
from noetl.store.contract import EventFilter, ExecutionRow, History, Store

MOST_BYTES = 64_000  # a larger value is replaced by its size and its hash
MOST_DIFFERENCES = 200
MOST_OF_ONE = 25  # of one step, input or variable
# If one list has more additional entries than this, only the two lengths are reported.
MOST_ADDED = 3
_PAGE = 2_000


class ComparedSide(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two executions: its row, the catalogue version it is pinned to, its state, and its step runs."""

    row: ExecutionRow
    version: int | None
    execution: Execution
    runs: list[StepRunView]


async def compare_executions(
    store: Store,
    after: ExecutionRow,
    against: ExecutionRow | None,
    state: Callable[[ExecutionRow], Awaitable[Execution]],
) -> attempt_shapes.ExecutionComparison:
    """The differences between an execution and `against`, by default the previous execution of the same playbook.
    `state` returns the current state of an execution; a server may have it in memory."""
    before = against if against is not None else await _run_before(store, after)
    sides = [await _load_side(store, row, state) for row in (before, after) if row is not None]
    return compare_sides(sides[0] if before is not None else None, sides[-1])


async def _run_before(store: Store, row: ExecutionRow) -> ExecutionRow | None:
    earlier = await store.executions(limit=1, path=row.path, until=row.created_at)
    return earlier[0] if earlier else None


async def _load_side(
    store: Store, row: ExecutionRow, state: Callable[[ExecutionRow], Awaitable[Execution]]
) -> ComparedSide:
    registered = await store.catalog.versions(row.path)
    return ComparedSide(
        row=row,
        version=next((version_row.version for version_row in registered if version_row.net_hash == row.net_hash), None),
        execution=await state(row),
        # Read all of them: with a bound, a step that ran late would be reported as missing.
        runs=await step_runs(store, row.execution_id, pages=None),
    )


async def step_runs(store: History, execution_id: str, *, pages: int | None = 1) -> list[StepRunView]:
    """Step runs without their tasks, from the first `pages` of an execution's step events; None reads all pages."""
    history: list[StepRunView] = []
    projection, after = Projection(history), 0
    while pages is None or pages > 0:
        page = await store.events(execution_id, after=after, only=EventFilter(types=STEP_EVENTS, limit=_PAGE))
        projection.take_all(page)
        if len(page) < _PAGE:
            break
        after, pages = page[-1].seq, None if pages is None else pages - 1
    return history


def compare_sides(before: ComparedSide | None, after: ComparedSide) -> attempt_shapes.ExecutionComparison:
    """The comparison of two loaded executions. Without `before` it only describes `after`."""
    if before is None:
        return attempt_shapes.ExecutionComparison(before=None, after=_side_view(after))
    old, new = before.execution, after.execution
    return attempt_shapes.ExecutionComparison(
        before=_side_view(before),
        after=_side_view(after),
        steps=_step_pairs(before.runs, after.runs, unrun=(_unrun_items(before), _unrun_items(after))),
        inputs=differences(abridged_value(old.origin.workload), abridged_value(new.origin.workload)),
        variables=differences(abridged_value(old.variables.ctx), abridged_value(new.variables.ctx)),
        results=differences(_result_values(old), _result_values(new)),
    )


def _side_view(side: ComparedSide) -> attempt_shapes.ComparedExecution:
    row, error = side.row, side.execution.lifecycle.error
    return attempt_shapes.ComparedExecution(
        execution_id=row.execution_id,
        path=row.path,
        version=side.version,
        status=row.status,
        created_at=rfc3339(row.created_at),
        duration_s=round(row.finished_at - row.created_at, 3) if row.finished_at is not None else None,
        error=error.readable() if error is not None else None,
    )


def _result_values(execution: Execution) -> Any:
    return {name: abridged_value(msgspec.to_builtins(result)) for name, result in execution.outputs.results.items()}


def _unrun_items(side: ComparedSide) -> Mapping[str, int]:
    """How many items of the loops of each step were not run to their end."""
    return side.execution.counts.failed_iterations.unrun_by_step


def _step_pairs(
    before: Sequence[StepRunView],
    after: Sequence[StepRunView],
    unrun: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {}),
) -> list[attempt_shapes.ComparedStep]:
    """A summary of each step in both executions, in the order in which the steps ran."""
    old, new = _summaries(before, unrun[0]), _summaries(after, unrun[1])
    return [
        attempt_shapes.ComparedStep(
            step=step, before=old.get(step), after=new.get(step), change_s=_change_s(old.get(step), new.get(step))
        )
        for step in step_order([list(new), list(old)])
    ]


def step_order(runs: Iterable[Sequence[str]]) -> list[str]:
    """The steps of several executions in one order. A step that one execution left out comes before the step that
    follows it in another, so that a rerun from the middle does not put the first steps last."""
    # A linked list, so that a step is inserted without a search: each step with the one before it, None the last.
    before: dict[str | None, str | None] = {None: None}
    for steps in runs:
        # Go backwards: the following step then has its position already.
        following: str | None = None
        for step in reversed(steps):
            if step not in before:
                before[step], before[following] = before[following], step
            following = step
    ordered: list[str] = []
    last = before[None]
    while last is not None:
        ordered.append(last)
        last = before[last]
    return ordered[::-1]


def _change_s(before: attempt_shapes.StepSummary | None, after: attempt_shapes.StepSummary | None) -> float | None:
    if before is None or after is None or before.duration_s is None or after.duration_s is None:
        return None
    return round(after.duration_s - before.duration_s, 3)


def _summaries(runs: Sequence[StepRunView], unrun: Mapping[str, int]) -> dict[str, attempt_shapes.StepSummary]:
    """One summary per step over all its runs. Side runs (compensations, handlers) are not counted."""
    summaries: dict[str, attempt_shapes.StepSummary] = {}
    for run in runs:
        if run.origin is not None:
            continue
        so_far = summaries.get(run.step, attempt_shapes.StepSummary(status="", duration_s=None, runs=0))
        seconds = so_far.duration_s
        if run.finished_at is not None:
            seconds = round((seconds or 0.0) + run.elapsed_s(run.finished_at), 3)
        level = run.loop.levels[0] if run.loop is not None else None
        summaries[run.step] = attempt_shapes.StepSummary(
            status=run.status,
            duration_s=seconds,
            runs=so_far.runs + 1,
            failed=so_far.failed + (level.failed if level is not None else 0),
            unrun=unrun.get(run.step, 0),
            iterations=so_far.iterations + (level.total if level is not None else 0),
        )
    return summaries


def abridged_value(value: Any, depth: int = 0) -> Any:
    """A value whose large parts are replaced by size and hash. The hash shows whether two of them differ."""
    size = len(encoded := msgspec.json.encode(value))
    if size <= MOST_BYTES:
        return value
    # Four levels at most: deeper, hundreds of replaced parts would be as hard to read as the value itself.
    if isinstance(value, dict) and depth < 4:
        return {key: abridged_value(item, depth + 1) for key, item in value.items()}
    entries = f", {len(value):,} entries" if isinstance(value, list | dict) else ""
    return f"({size:,} bytes{entries}, SHA-256 {hashlib.sha256(encoded).hexdigest()[:16]})"


_ABSENT = object()


def differences(before: Any, after: Any) -> list[attempt_shapes.ValueDifference]:
    """The places where two values differ, at most MOST_DIFFERENCES. Each top-level name (a step, an input) gets an
    equal share of them; the last entry of a name counts those that are left out."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return _limited_differences(before, after, "", MOST_DIFFERENCES)
    # The keys of `before` come first, so that a removed key keeps its position.
    pairs = [(key, before.get(key, _ABSENT), after.get(key, _ABSENT)) for key in {**before, **after}]
    differing = [(str(key), old, new) for key, old, new in pairs if any(_iter_differences(old, new, ""))]
    # Without shares, one long list would use up the limit and hide the differences of all later names.
    share = max(1, min(MOST_OF_ONE, MOST_DIFFERENCES // max(1, len(differing))))
    return [
        difference
        for key, old, new in differing[:MOST_DIFFERENCES]
        for difference in _limited_differences(old, new, key, share)
    ]


def _limited_differences(before: Any, after: Any, path: str, limit: int) -> list[attempt_shapes.ValueDifference]:
    places = _iter_differences(before, after, path)
    listed = list(islice(places, limit))
    more = sum(1 for _ in places)
    return [*listed, attempt_shapes.ValueDifference(path=path, values={}, more=more)] if more else listed


def _iter_differences(before: Any, after: Any, path: str) -> Iterator[attempt_shapes.ValueDifference]:
    match before, after:
        case dict(), dict():
            pairs = [(key, before.get(key, _ABSENT), after.get(key, _ABSENT)) for key in {**before, **after}]
        case list(), list():
            if abs(len(before) - len(after)) > MOST_ADDED:
                # A thousand rows against a hundred is one difference to a reader, not nine hundred.
                yield attempt_shapes.ValueDifference(
                    path=path, values={}, entries={"before": len(before), "after": len(after)}
                )
                both: Iterable[tuple[Any, Any]] = zip(before, after, strict=False)
            else:
                both = zip_longest(before, after, fillvalue=_ABSENT)
            pairs = [(str(at), old, new) for at, (old, new) in enumerate(both)]
        case _:
            # Compare types too: in Python True == 1.
            if before is not after and (type(before) is not type(after) or before != after):
                sides: dict[Literal["before", "after"], Any] = {"before": before, "after": after}
                values = {side: value for side, value in sides.items() if value is not _ABSENT}
                yield attempt_shapes.ValueDifference(path=path, values=values)
            return
    for key, old, new in pairs:
        yield from _iter_differences(old, new, f"{path}.{key}" if path else str(key))
