"""The folded state of an execution as a screen draws it, now or after any event: its steps, its loops, its side runs.

`events/projection` defines the meaning of events; this module gives the state the shape of the API.
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
    """Iterations; the others of `total` have not ended. `unrun` of those never will: their loop ended after a failure.
    `passed_over` are done although a task of theirs failed (`do: continue`)."""

    total: int
    done: int
    failed: int
    unrun: int = 0
    passed_over: int = 0


class StepProjection(msgspec.Struct, frozen=True, kw_only=True):
    """One step: `tokens` are before it, `running` of its runs have not left it, `waiting` of those wait for somebody
    outside, and no worker has taken `queued` of them yet, the oldest since `queued_at`. `status` is running, queued,
    waiting, failed, cancelled or done, null before its first run. `loop` counts the innermost iterations of all its
    runs, `side_runs` what ran beside them, by kind and status."""

    step: str
    status: str | None
    tokens: int
    running: int
    waiting: int
    queued: int
    queued_at: str | None
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
    block, by the number of the block: 0 not started, 1 running, 2 done, 3 failed, 4 done by the execution that this one
    reruns. `failures` are the first 1,000. The step run `is_over`: what was running was stopped. Of those that are
    done, `passed_over` are so although a task of theirs failed, and `kept` were taken over from the earlier execution.
    """

    step: str
    step_run_id: str
    path: list[int]
    total: int
    done: int
    failed: int
    is_over: bool
    blocks: dict[int, str]
    failures: list[FailedIterationView]
    passed_over: int = 0
    kept: int = 0


class LoopsView(msgspec.Struct, frozen=True, kw_only=True):
    """The loops after event `at`: the outermost, and those inside the iteration that was asked for. With `since` only
    blocks and failures that are new after that event. Of more than 200 loops the last are listed; `loops_total` counts
    all."""

    execution_id: str
    at: int
    since: int
    block: int
    loops: list[LoopProjection]
    loops_total: int


def projection_view(execution_id: str, history: StateHistory, at: int, since: int) -> ProjectionView:
    counts, changed = history.side_runs.counts(at, since)
    # All steps, not only those that changed: a step is listed for its side runs too, and its own counts go along.
    steps = {moment.step: moment for moment in history.steps(at)}
    # A side run that moved changes the badges of its step, though the step itself stood still.
    wanted = {moment.step for moment in history.steps(at, since)} | changed
    time = history.time(at)
    return ProjectionView(
        execution_id=execution_id,
        at=at,
        since=since,
        ts=rfc3339(time) if time is not None else None,
        status=history.status(at),
        undoable=history.undoable(at),
        steps=[
            _step(history, steps.get(step) or StepMoment(step=step), counts.get(step, {})) for step in sorted(wanted)
        ],
        side_runs=[_side_run(moment) for moment in history.side_runs.latest(at, most=MOST_SIDE_RUNS, since=since)],
        side_runs_total=history.side_runs.known(at),
    )


def _step(history: StateHistory, moment: StepMoment, side_runs: dict[str, dict[str, int]]) -> StepProjection:
    loop, queued_at = moment.loop, history.time(moment.queued_at)
    return StepProjection(
        step=moment.step,
        status=moment.status,
        tokens=moment.tokens,
        running=moment.running,
        waiting=moment.waiting,
        queued=moment.queued,
        queued_at=rfc3339(queued_at) if queued_at is not None else None,
        done=moment.done,
        failed=moment.failed,
        loop=LoopCountsView(**msgspec.structs.asdict(loop)) if loop is not None else None,
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


def loops_view(
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
    known = [loop for loop in history.loops.values() if loop.seq <= at and step in (None, loop.step)]
    outermost = [loop for loop in known if not loop.path]
    inside = [
        # Of nested loops only those around the iteration that the reader has chosen: there is one inside every outer
        # iteration.
        loop
        for loop in known
        if loop.path and loop.step_run_id == step_run_id and path[: len(loop.path)] == loop.path
    ]
    return LoopsView(
        execution_id=execution_id,
        at=at,
        since=since,
        block=BLOCK,
        loops=[_loop(history, loop, at, since) for loop in (*outermost[-MOST_LOOPS:], *inside)],
        loops_total=len(outermost),
    )


def _loop(history: StateHistory, cells: LoopCells, at: int, since: int) -> LoopProjection:
    counts, end = cells.counts(at), history.loop_ends.get(cells.step_run_id)
    return LoopProjection(
        step=cells.step,
        step_run_id=cells.step_run_id,
        path=list(cells.path),
        total=counts.total,
        done=counts.done,
        failed=counts.failed,
        is_over=end is not None and end <= at,
        blocks=cells.blocks(at, since),
        passed_over=counts.passed_over,
        kept=cells.kept_count(at),
        failures=[
            FailedIterationView(index=failure.index, kind=failure.kind, message=failure.message)
            for failure in cells.failures
            if since < failure.seq <= at
        ],
    )
