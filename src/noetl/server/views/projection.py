"""The folded state of an execution as a screen draws it, now or after any event: its steps, its loops, its side runs.

What an event means is told by `events/projection`; here its state gets the shape of the API.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.clock import rfc3339
from noetl.events.projection.loop_cells import BLOCK, LoopCells
from noetl.events.projection.side_runs import SideRunMoment
from noetl.events.projection.state_history import StateHistory, StepMoment

MOST_SIDE_RUNS = 1_000  # listed in one answer; all are counted
MOST_LOOPS = 200


class LoopCountsView(msgspec.Struct, frozen=True, kw_only=True):
    """Iterations; the others of `total` have not ended."""

    total: int
    done: int
    failed: int


class StepProjection(msgspec.Struct, frozen=True, kw_only=True):
    """One step: `tokens` are before it, `running` of its runs have not left it, `waiting` of those wait for somebody
    outside. `status` is running, waiting, failed or done, null before its first run. `loop` counts the innermost
    iterations of all its runs, `side_runs` what ran beside them, by kind and status."""

    step: str
    status: str | None
    tokens: int
    running: int
    waiting: int
    done: int
    failed: int
    loop: LoopCountsView | None
    side_runs: dict[str, dict[str, int]]


class SideRunProjection(msgspec.Struct, frozen=True, kw_only=True):
    """One side run. `number` is its place in the order they were asked for. `kind`: compensation | handler | async |
    hook; `status`: pending | scheduled | running | done | failed | unknown | cancelled. `event` is what a handler
    handles or the phase of a hook, `path` the iteration that is undone."""

    number: int
    kind: str
    step: str
    task: str | None
    event: str | None
    path: list[int]
    status: str
    scheduled_at: str
    started_at: str | None
    finished_at: str | None
    error: dict[str, Any] | None


class ProjectionView(msgspec.Struct, frozen=True, kw_only=True):
    """The state after event `at`, which happened at `ts`. With `since` only steps and side runs that changed after that
    event. Of more than 1,000 side runs the last are listed. `undoable` compensations are registered."""

    execution_id: str
    at: int
    since: int
    ts: str | None
    status: str
    undoable: int
    steps: list[StepProjection]
    side_runs: list[SideRunProjection]
    side_runs_total: int


class FailedIterationView(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    kind: str
    message: str


class LoopProjection(msgspec.Struct, frozen=True, kw_only=True):
    """One level of a loop; `path` is the iteration around it. `blocks` has a digit for each iteration, 1,000 in a
    block, by the number of the block: 0 not started, 1 running, 2 done, 3 failed. `failures` are the first 1,000."""

    step: str
    step_run_id: str
    path: list[int]
    total: int
    done: int
    failed: int
    blocks: dict[int, str]
    failures: list[FailedIterationView]


class LoopsView(msgspec.Struct, frozen=True, kw_only=True):
    """The loops after event `at`: the outermost, and those inside the iteration that was asked for. With `since` only
    blocks and failures that are new after that event. Of more than 200 the last are told; `loops_total` counts all."""

    execution_id: str
    at: int
    since: int
    block: int
    loops: list[LoopProjection]
    loops_total: int


def shown_projection(execution_id: str, history: StateHistory, at: int, since: int) -> ProjectionView:
    counts, changed = history.side_runs.counts(at, since)
    steps = {one.step: one for one in history.steps(at)}
    wanted = {one.step for one in history.steps(at, since)} | changed
    time = history.time(at)
    return ProjectionView(
        execution_id=execution_id,
        at=at,
        since=since,
        ts=rfc3339(time) if time is not None else None,
        status=history.status(at),
        undoable=history.undoable(at),
        steps=[_step(steps.get(step) or StepMoment(step=step), counts.get(step, {})) for step in sorted(wanted)],
        side_runs=[_side_run(one) for one in history.side_runs.latest(at, most=MOST_SIDE_RUNS, since=since)],
        side_runs_total=history.side_runs.known(at),
    )


def _step(moment: StepMoment, side_runs: dict[str, dict[str, int]]) -> StepProjection:
    loop = moment.loop
    return StepProjection(
        step=moment.step,
        status=moment.status,
        tokens=moment.tokens,
        running=moment.running,
        waiting=moment.waiting,
        done=moment.done,
        failed=moment.failed,
        loop=LoopCountsView(total=loop.total, done=loop.done, failed=loop.failed) if loop is not None else None,
        side_runs=side_runs,
    )


def _side_run(moment: SideRunMoment) -> SideRunProjection:
    origin, started_at, finished_at = moment.origin, moment.started_at, moment.finished_at
    return SideRunProjection(
        number=moment.number,
        kind=origin.kind,
        step=moment.step,
        task=moment.task,
        event=origin.event,
        path=list(origin.path),
        status=moment.status,
        scheduled_at=rfc3339(moment.scheduled_at),
        started_at=rfc3339(started_at) if started_at is not None else None,
        finished_at=rfc3339(finished_at) if finished_at is not None else None,
        error=moment.error.readable() if moment.error is not None else None,
    )


def shown_loops(
    execution_id: str,
    history: StateHistory,
    at: int,
    since: int,
    *,
    step: str | None = None,
    step_run_id: str | None = None,
    path: tuple[int, ...] = (),
) -> LoopsView:
    """The outermost loops, of one step if it is named, and those around and in the iteration `path` of a step run."""
    known = [one for one in history.loops.values() if one.seq <= at and step in (None, one.step)]
    outermost = [one for one in known if not one.path]
    inside = [one for one in known if one.path and one.step_run_id == step_run_id and path[: len(one.path)] == one.path]
    return LoopsView(
        execution_id=execution_id,
        at=at,
        since=since,
        block=BLOCK,
        loops=[_loop(one, at, since) for one in (*outermost[-MOST_LOOPS:], *inside)],
        loops_total=len(outermost),
    )


def _loop(cells: LoopCells, at: int, since: int) -> LoopProjection:
    counts = cells.counts(at)
    return LoopProjection(
        step=cells.step,
        step_run_id=cells.step_run_id,
        path=list(cells.path),
        total=counts.total,
        done=counts.done,
        failed=counts.failed,
        blocks=cells.blocks(at, since),
        failures=[
            FailedIterationView(index=one.index, kind=one.kind, message=one.message)
            for one in cells.failures
            if since < one.seq <= at
        ],
    )
