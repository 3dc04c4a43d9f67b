"""Driving a loop: the next action by its state. One action at a time, the oldest first (LOOP-05, LOOP-07, LOOP-09).
Also its beginning."""

from __future__ import annotations

from collections.abc import Collection
from math import gcd
from typing import Any

import msgspec

from noetl.base.errors import TemplateError, ToolError
from noetl.base.ids import derived
from noetl.engine.decision import Decision, DispatchStep, Draft
from noetl.engine.execution import Execution, StepRun
from noetl.engine.identity import SERVER
from noetl.engine.loops.endings import end_level, end_loop, fail_loop
from noetl.engine.loops.levels import (
    KIND,
    first_scope,
    inner_scope,
    level_at,
    open_error,
    open_level,
    value_or_reference,
)
from noetl.engine.loops.state import Frame
from noetl.engine.plan import Plan
from noetl.events.executions import KeptIterations
from noetl.events.loops import IterationFailed, IterationStarted, LoopKept, LoopScheduled, LoopStarted
from noetl.events.steps import StepFailed, StepScheduled, StepStarted
from noetl.events.tokens import TokenClaimed
from noetl.net.net import Transition


def drive_loop(plan: Plan, execution: Execution, run: StepRun, at: float) -> Decision:
    """Hand out more iterations, end a level, or end the loop."""
    loop = run.loop
    assert loop is not None, "only a loop that is open is driven"
    if loop.failing:
        error = loop.broken or loop.failure
        assert error is not None
        return fail_loop(execution, run, error, at)
    # The frame that came due first: no level of a nested loop waits behind another forever.
    frame = loop.frames[next(iter(loop.due))]
    if frame.over:
        end = end_level if frame.path else end_loop
        return end(plan, execution, run, frame, at)
    if frame.nested:
        return _begin_outer(plan, execution, run, frame, at)
    return _hand_out(plan, execution, run, frame, at)


def _hand_out(plan: Plan, execution: Execution, run: StepRun, frame: Frame, at: float) -> Decision:
    """The next range of an innermost level becomes an order."""
    draft = Draft(execution, at, frame.event_id)
    # By how many were given out before: unique in the loop, and the same for a decision that is made again.
    order_id = derived("order", run.step_run_id, *frame.path, "range", frame.given)
    scheduled = _next_range(plan, run, frame, order_id)
    draft.add(scheduled, run=run, parent_id=frame.event_id)
    draft.add_effect(
        DispatchStep(order_id, run.step_run_id, execution.tokens[run.token.token_id].priority, run.lease.pool)
    )
    return draft.decision()


def _next_range(plan: Plan, run: StepRun, frame: Frame, order_id: str) -> LoopScheduled:
    opened, first = frame.opened, frame.given
    if opened.lane_count is not None:
        lanes = opened.lanes if opened.lanes is not None else plan.collection(opened.lanes_ref)  # type: ignore[arg-type]
        lane = tuple(lanes[first])
        return LoopScheduled(order_id=order_id, path=frame.path, first=lane[0], last=lane[-1], indices=lane)
    if first >= opened.total:  # elements that iterations have added
        last = min(frame.total, first + MAX_LENGTH) - 1
        slots = range_slots(opened, last - first + 1, opened.in_flight - frame.open_slots)
        return LoopScheduled(order_id=order_id, path=frame.path, first=first, last=last, slots=slots)
    length = min(range_length(opened), opened.total - first)
    if opened.max_queue is not None:
        length = min(length, opened.max_queue - frame.queued) if not opened.local else length
    indices = None
    if level_at(plan.step(run.step), frame.path).ordering == "shuffle" and opened.parallel:
        indices = shuffled(range(first, first + length), opened.total, run.step_run_id)
    return LoopScheduled(
        order_id=order_id,
        path=frame.path,
        first=first,
        last=first + length - 1,
        slots=range_slots(opened, length, opened.in_flight - frame.open_slots),
        indices=indices,
    )


def _begin_outer(plan: Plan, execution: Execution, run: StepRun, frame: Frame, at: float) -> Decision:
    """The next iteration of an outer level begins, and with it the loop inside it (O-04)."""
    index, step = frame.given, plan.step(run.step)
    path = (*frame.path, index)
    draft = Draft(execution, at, frame.event_id)
    about: dict[str, Any] = {"run": run, "parent_id": frame.event_id}
    draft.add(IterationStarted(index=index, path=path), on_behalf=True, **about)
    try:
        draft.add(open_level(plan, step, path, inner_scope(plan, execution, run, step, path), at), **about)
    except (TemplateError, ToolError) as problem:
        error = open_error(problem, step)
        draft.add(IterationFailed(index=index, path=path, error=error), on_behalf=True, **about)
    return draft.decision()


# Ranges: how many iterations one order takes, and which (LOOP-05, LOOP-11, LOOP-15, performance.md §2).

MAX_SHARDS = 8  # ranges of one loop that are open at the same time, where its bound allows


# A range is one order and one claim; after the loss of a worker at most this many iterations are checked again.
MAX_LENGTH = 500
_ROUNDS = 4  # each shard takes about this many ranges, so that a slow one does not hold up the end


def shards(in_flight: int) -> int:
    return min(in_flight, MAX_SHARDS)


def range_length(opened: LoopStarted) -> int:
    """How many iterations a range of this level has."""
    # One order for all of it: the step asks to stay on one worker.
    if opened.local:
        return opened.total
    # A few iterations make a range of one, a million make ranges of MAX_LENGTH.
    parts = shards(opened.in_flight) * _ROUNDS
    return min(max(-(-opened.total // parts), 1), MAX_LENGTH)


def range_slots(opened: LoopStarted, length: int, room: int) -> int:
    """How many iterations of a range run at a time; `room` is what the bound leaves."""
    share = opened.in_flight if opened.local else -(-opened.in_flight // shards(opened.in_flight))
    return max(1, min(share, length, room))


def shuffled(positions: range, total: int, seed: str) -> tuple[int, ...]:
    """The iterations at these positions of a fixed shuffling of all `total`: the same for the same seed."""
    number = int(derived(seed)[:16], 16)
    third = max(total // 3, 1)
    # A multiplication modulo the total visits each position once if the factor has no divisor in common with it. So no
    # list of a million positions is shuffled and stored; each range computes its own.
    step = third + number % third  # far from its neighbours either way
    while gcd(step, total) != 1:
        step += 1
    return tuple((position * step + number) % total for position in positions)


# The beginning of a looped step run: admitted, its collection evaluated in the same breath (LOOP-01, LOOP-12).


def begin_loop(
    plan: Plan,
    execution: Execution,
    draft: Draft,
    step: Transition,
    scheduled: StepScheduled,
    *,
    names: dict[str, Any],
    about: dict[str, Any],
    at: float,
) -> Decision:
    """Open the outermost level, or fail the step run. The server itself claims iterations that no worker runs."""
    draft.add(scheduled, **about)
    try:
        opened = open_level(plan, step, (), first_scope(plan, execution, {**names, "args": scheduled.args}), at)
        kept = execution.outputs.kept_iterations
        if kept is not None and kept.step != step.name:
            kept = None
        opened = opened if kept is None else without_kept(plan, opened, kept)
    except (TemplateError, ToolError) as problem:
        _claim(draft, scheduled, about)
        draft.add(StepFailed(error=open_error(problem, step)), on_behalf=True, **about)
        return draft.decision()
    # No worker will ever see this loop, so the server claims the token and the loop ends in the same decision.
    if opened.total == 0:
        _claim(draft, scheduled, about)
    draft.add(opened, **about)
    if kept is not None:
        draft.add(LoopKept(indices=kept.indices, results=kept.results), **about)
    return draft.decision()


def _claim(draft: Draft, scheduled: StepScheduled, about: dict[str, Any]) -> None:
    draft.add(TokenClaimed(token_id=scheduled.token_id, worker_id=SERVER), **about)
    draft.add(StepStarted(worker_id=SERVER), **about)


# A loop of which some iterations are kept: an earlier run had done them, and only the others run (CLI-04).
def without_kept(plan: Plan, opened: LoopStarted, kept: KeptIterations) -> LoopStarted:
    """The level with lanes of those iterations alone that are to run. ToolError `loop.collection` where the collection
    is another one: the results that are kept are not of its items then."""
    if not _has_same_items(opened, kept):
        raise ToolError(
            KIND,
            "the collection is not the one that the earlier run had, so its results cannot be kept: "
            "run the whole step again, with --from and without --failed-items",
        )
    lanes = _lanes(plan, opened, frozenset(kept.indices))
    inline, reference = value_or_reference(plan, lanes)
    return msgspec.structs.replace(opened, lanes=inline, lanes_ref=reference, lane_count=len(lanes))


def _has_same_items(opened: LoopStarted, kept: KeptIterations) -> bool:
    if opened.items_ref is not None and kept.items_ref is not None:
        # Equal content has equal checksums: two collections of a million items are compared without loading them.
        return opened.items_ref.checksum == kept.items_ref.checksum
    return opened.items is not None and opened.items == kept.items


def _lanes(plan: Plan, opened: LoopStarted, kept: Collection[int]) -> list[list[int]]:
    """Those of equal keys stay together; else one for each where they may run at the same time, and one for all."""
    if opened.lane_count is not None:
        lanes = opened.lanes if opened.lanes is not None else plan.collection(opened.lanes_ref)  # type: ignore[arg-type]
        left = [[index for index in lane if index not in kept] for lane in lanes]
        return [lane for lane in left if lane]
    left_over = [index for index in range(opened.total) if index not in kept]
    return [[index] for index in left_over] if opened.parallel else [left_over]
