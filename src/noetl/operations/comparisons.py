"""Comparisons: what differs between two values, and between two executions (SRV-09).

Command line, API and web UI show what is found here. Two executions need not be of the same playbook: steps are
compared by their names. Nothing is recorded for it; all of it follows from the logs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import msgspec

from noetl.base.clock import rfc3339
from noetl.engine.execution import Execution
from noetl.events.projection.projection import STEP_EVENTS, Projection
from noetl.events.projection.views import StepRunView
from noetl.operations.attempt_shapes import (
    ComparedExecution,
    ComparedStep,
    ExecutionComparison,
    StepSummary,
    ValueDifference,
)
from noetl.store.contract import ExecutionRow, History, SingleRow, Store

MOST_BYTES = 64_000  # of one value that is shown; a larger one is told by its size and its hash
MOST_DIFFERENCES = 200
_PAGE = 2_000


class ComparedSide(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two: its row, the version in the catalogue that it is pinned to, its state, and its step runs."""

    row: ExecutionRow
    version: int | None
    execution: Execution
    runs: list[StepRunView]


async def comparison(
    store: Store,
    after: ExecutionRow,
    against: ExecutionRow | None,
    state: Callable[[ExecutionRow], Awaitable[Execution]],
) -> ExecutionComparison:
    """What differs between an execution and another one; without another, the one of the same playbook before it.
    `state` reads what an execution stands at, which a server may have in memory."""
    before = against if against is not None else await _run_before(store, after)
    sides = [await _side(store, row, state) for row in (before, after) if row is not None]
    return compared(sides[0] if before is not None else None, sides[-1])


async def _run_before(store: Store, row: ExecutionRow) -> ExecutionRow | None:
    found = await store.executions(limit=1, path=row.path, until=row.created_at)
    return found[0] if found else None


async def _side(store: Store, row: ExecutionRow, state: Callable[[ExecutionRow], Awaitable[Execution]]) -> ComparedSide:
    registered = await store.catalog.versions(row.path)
    return ComparedSide(
        row=row,
        version=next((one.version for one in registered if one.net_hash == row.net_hash), None),
        execution=await state(row),
        runs=await step_runs(store, row.execution_id, pages=None),
    )


async def step_runs(store: History, execution_id: str, *, pages: int | None = 1) -> list[StepRunView]:
    """Step runs without their tasks, from the first events of an execution that tell of them, so that many can be
    looked at quickly; None reads all."""
    history: list[StepRunView] = []
    projection, after = Projection(history), 0
    while pages is None or pages > 0:
        page = await store.events(execution_id, after=after, only=SingleRow(types=STEP_EVENTS, limit=_PAGE))
        projection.take_all(page)
        if len(page) < _PAGE:
            break
        after, pages = page[-1].seq, None if pages is None else pages - 1
    return history


def compared(before: ComparedSide | None, after: ComparedSide) -> ExecutionComparison:
    """The comparison, from what was read; with nothing to compare with, it says only what `after` is."""
    if before is None:
        return ExecutionComparison(before=None, after=_shown_side(after))
    old, new = before.execution, after.execution
    return ExecutionComparison(
        before=_shown_side(before),
        after=_shown_side(after),
        steps=_step_pairs(before.runs, after.runs),
        inputs=differences(abridged_value(old.origin.workload), abridged_value(new.origin.workload)),
        variables=differences(abridged_value(old.ctx), abridged_value(new.ctx)),
        results=differences(_results(old), _results(new)),
    )


def _shown_side(side: ComparedSide) -> ComparedExecution:
    row, error = side.row, side.execution.lifecycle.error
    return ComparedExecution(
        execution_id=row.execution_id,
        path=row.path,
        version=side.version,
        status=row.status,
        created_at=rfc3339(row.created_at),
        duration_s=round(row.finished_at - row.created_at, 3) if row.finished_at is not None else None,
        error=error.readable() if error is not None else None,
    )


def _results(execution: Execution) -> Any:
    return {name: abridged_value(msgspec.to_builtins(one)) for name, one in execution.outputs.results.items()}


def _step_pairs(before: Sequence[StepRunView], after: Sequence[StepRunView]) -> list[ComparedStep]:
    """How each step went in both, in the order in which they came."""
    old, new = _summaries(before), _summaries(after)
    return [
        ComparedStep(
            step=step, before=old.get(step), after=new.get(step), change_s=_change(old.get(step), new.get(step))
        )
        for step in step_order([list(new), list(old)])
    ]


def step_order(runs: Iterable[Sequence[str]]) -> list[str]:
    """The steps of several executions in one order. What one left out stands before what followed it in another, so
    that a rerun from the middle does not put the first steps last."""
    found: list[str] = []
    known: set[str] = set()
    for steps in runs:
        # From the end: the step that follows has its place already.
        for at in range(len(steps) - 1, -1, -1):
            if steps[at] not in known:
                following = steps[at + 1] if at + 1 < len(steps) else None
                found.insert(found.index(following) if following is not None else len(found), steps[at])
                known.add(steps[at])
    return found


def _change(before: StepSummary | None, after: StepSummary | None) -> float | None:
    if before is None or after is None or before.duration_s is None or after.duration_s is None:
        return None
    return round(after.duration_s - before.duration_s, 3)


def _summaries(runs: Sequence[StepRunView]) -> dict[str, StepSummary]:
    """All runs of a step together. What runs beside the tokens (compensations, handlers) is not part of its step."""
    found: dict[str, StepSummary] = {}
    for run in runs:
        if run.origin is not None:
            continue
        so_far = found.get(run.step, StepSummary(status="", duration_s=None, runs=0))
        seconds = so_far.duration_s
        if run.finished_at is not None:
            seconds = round((seconds or 0.0) + run.elapsed_s(run.finished_at), 3)
        level = run.loop.levels[0] if run.loop is not None else None
        found[run.step] = StepSummary(
            status=run.status,
            duration_s=seconds,
            runs=so_far.runs + 1,
            failed=so_far.failed + (level.failed if level is not None else 0),
            iterations=so_far.iterations + (level.total if level is not None else 0),
        )
    return found


def abridged_value(value: Any, depth: int = 0) -> Any:
    """A value with large parts told by their size: nobody reads them here, and their hash says whether they differ."""
    size = len(encoded := msgspec.json.encode(value))
    if size <= MOST_BYTES:
        return value
    if isinstance(value, dict) and depth < 4:
        return {key: abridged_value(item, depth + 1) for key, item in value.items()}
    entries = f", {len(value):,} entries" if isinstance(value, list | dict) else ""
    return f"({size:,} bytes{entries}, SHA-256 {hashlib.sha256(encoded).hexdigest()[:16]})"


_ABSENT = object()


def differences(before: Any, after: Any) -> list[ValueDifference]:
    """Every place where two values differ, at most MOST_DIFFERENCES of them."""
    found: list[ValueDifference] = []
    for path, old, new in _differing(before, after, ""):
        sides = {"before": old, "after": new}
        told: Any = {side: value for side, value in sides.items() if value is not _ABSENT}
        found.append(ValueDifference(path=path, values=told))
        if len(found) == MOST_DIFFERENCES:
            break
    return found


def _differing(before: Any, after: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    match before, after:
        case dict(), dict():
            pairs = [(key, before.get(key, _ABSENT), after.get(key, _ABSENT)) for key in {**before, **after}]
        case list(), list():
            both = zip_longest(before, after, fillvalue=_ABSENT)
            pairs = [(str(at), old, new) for at, (old, new) in enumerate(both)]
        case _:
            # Not == alone: to Python, true is 1.
            if before is not after and (type(before) is not type(after) or before != after):
                yield path, before, after
            return
    for key, old, new in pairs:
        yield from _differing(old, new, f"{path}.{key}" if path else str(key))
