"""How the events of a loop change its state. Called by `engine.evolve` alone, as all code that changes an execution
(EVT-07)."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.engine.identity import entry_key
from noetl.engine.loops.reducers import note_writes
from noetl.engine.loops.state import Frame, LoopRun, OpenIteration, Range, Region
from noetl.engine.pipeline.progress import position_after_entry
from noetl.events import loops
from noetl.events.orders import Position
from noetl.events.outcomes import TaskResult, unwrapped
from noetl.events.steps import CaseStarted
from noetl.events.tasks import HookFailed, JobPlaced, KeychainRefreshed, TaskProcessed, TaskStarted
from noetl.events.v2_case_positions import Taken


def on_loop_started(loop: LoopRun | None, payload: loops.LoopStarted, event_id: str, ctx: dict[str, Any]) -> LoopRun:
    """A level opens; the outermost one begins the loop."""
    if loop is None:
        loop = LoopRun(reducers=payload.reducers, best_effort=payload.best_effort)
    path, around = payload.path, loop.frames[payload.path[:-1]] if payload.path else None
    region = around.region if around else None
    # The outermost parallel level opens the region. Its iterations read `ctx` as it is now and do not see each other's
    # writes, whichever ends first (SCOPE-06).
    if payload.parallel and region is None:
        region = path
        loop.regions[path] = Region(ctx=dict(ctx), last_wins=payload.last_wins)
    strand = len(path) + 1 if payload.parallel else around.strand if around else None
    loop.frames[path] = Frame(
        opened=payload,
        event_id=event_id,
        nested=payload.nested,
        units=payload.total if payload.lane_count is None else payload.lane_count,
        ended=bytearray(payload.total),
        results=[None] * payload.total,
        region=region,
        strand=strand,
    )
    if not payload.nested:
        loop.total += payload.total
    _update_due(loop, loop.frames[path])
    return loop


def on_range_scheduled(loop: LoopRun, payload: loops.LoopScheduled) -> None:
    frame = loop.frames[payload.path]
    span = Range(
        order_id=payload.order_id,
        path=payload.path,
        first=payload.first,
        last=payload.last,
        slots=payload.slots,
        left=0,
        indices=payload.indices,
    )
    span.left = len(span)
    loop.ranges[payload.order_id] = span
    # With partition keys a lane is handed out as a whole, so it counts as one; else every iteration counts.
    frame.given += 1 if frame.opened.lane_count is not None else span.left
    frame.open_slots += span.slots
    frame.queued += span.left
    _update_due(loop, frame)


def on_range_claimed(loop: LoopRun, order_id: str, worker_id: str, lease_epoch: int) -> None:
    span = loop.ranges[order_id]
    # Only the first claim: a range that is claimed again after a lost lease was taken out of the queue before.
    if span.lease_epoch == 0:
        frame = loop.frames[span.path]
        frame.queued -= len(span)
        _update_due(loop, frame)
    span.worker_id, span.lease_epoch = worker_id, lease_epoch


def on_iteration_started(loop: LoopRun, payload: loops.IterationStarted, first: Position) -> None:
    """An iteration begins: of an innermost level in its order, of an outer one in the server."""
    frame = loop.frames[payload.path[:-1]]
    if frame.nested:
        frame.given += 1
        frame.open_slots += 1
        _update_due(loop, frame)
        return
    # A few ranges are open at once (MAX_SHARDS), so this is no search through the loop.
    order_id = next(span.order_id for span in loop.ranges.values() if span.path == frame.path and payload.index in span)
    loop.begun[payload.path] = OpenIteration(order_id=order_id, position=first)


def on_task_note(loop: LoopRun, payload: TaskStarted | KeychainRefreshed | HookFailed | JobPlaced) -> None:
    """Something of the task under way."""
    iteration = loop.begun[payload.path]
    # With the epoch of the lease: the next holder of the range reports these entries once more, and both are true.
    iteration.task_events = (*iteration.task_events, entry_key(payload, loop.ranges[iteration.order_id].lease_epoch))
    iteration.in_task = iteration.in_task or isinstance(payload, TaskStarted)


def on_task_processed(loop: LoopRun, payload: TaskProcessed, at: float) -> None:
    iteration = loop.begun[payload.path]
    iteration.position = iteration.current_position()
    iteration.last, iteration.last_at, iteration.in_task, iteration.task_events = payload, at, False, ()
    iteration.passed_over = iteration.passed_over or payload.is_passed_over
    if payload.decision.set_ctx:
        note_writes(loop, payload.path, payload.decision.set_ctx)


def on_case_started(loop: LoopRun, payload: CaseStarted) -> None:
    iteration = loop.begun[payload.path]
    iteration.position = position_after_entry(iteration.current_position(), payload.decision)
    iteration.last = None
    if payload.decision.set_ctx:
        note_writes(loop, payload.path, payload.decision.set_ctx)


def on_iteration_ended(loop: LoopRun, payload: loops.IterationDone | loops.IterationFailed) -> Range | None:
    """An iteration ends. Gives the range that ended with it, if one did."""
    *around, index = payload.path
    frame = loop.frames[tuple(around)]
    frame.ended[index] = 1
    if isinstance(payload, loops.IterationFailed):
        frame.failed += 1
        loop.failed += 1
        loop.failure = loop.failure or payload.error
    else:
        frame.done += 1
        # Before `_close_frame` below: the result of an outer iteration is in the frame of the level inside it.
        frame.results[index] = _result(loop, frame, payload)
        if payload.extend:
            _extend(loop, frame, payload.extend)
    closed = None
    if frame.nested:
        frame.open_slots -= 1
        _close_frame(loop, payload.path)
    else:
        closed = _leave_range(loop, frame, payload.path)
    _update_due(loop, frame)
    return closed


def keep_iterations(loop: LoopRun, payload: loops.LoopKept) -> None:
    """Iterations that an earlier run had done."""
    frame = loop.frames[payload.path]
    for index, stored in zip(payload.indices, payload.results, strict=True):
        frame.ended[index] = 1
        frame.results[index] = collected_value(msgspec.convert(stored, TaskResult))
    frame.done += len(payload.indices)
    loop.done += len(payload.indices)
    _update_due(loop, frame)


def _extend(loop: LoopRun, frame: Frame, items: list[Any]) -> None:
    frame.added += items
    frame.units += len(items)
    loop.total += len(items) * (not frame.nested)
    frame.ended.extend(bytes(len(items)))
    frame.results += [None] * len(items)


def on_loop_cut(loop: LoopRun, payload: loops.LoopCut) -> list[Range]:
    """A level ends early, with everything inside it. Returns the ranges that are withdrawn."""
    path, depth = payload.path, len(payload.path)
    loop.broken = payload.error
    gone = [span for span in loop.ranges.values() if span.path[:depth] == path]
    for span in gone:
        del loop.ranges[span.order_id]
    for inside in [one for one in loop.begun if one[:depth] == path]:
        del loop.begun[inside]
    for inside in [one for one in loop.frames if one[:depth] == path and len(one) > depth]:
        _close_frame(loop, inside)
    frame = loop.frames[path]
    frame.cut, frame.open_slots, frame.queued = True, 0, 0
    _update_due(loop, frame)
    return gone


def _result(loop: LoopRun, frame: Frame, payload: loops.IterationDone) -> Any:
    """An iteration's payload, or its result where that is stored elsewhere; of an outer one, those inside it."""
    if frame.nested:
        return loop.frames[payload.path].results
    loop.done += 1
    return collected_value(payload.result)


def collected_value(result: TaskResult) -> Any:
    """As it is kept until the end: the payload, or the whole result where it has to be loaded first."""
    return result if result.ref is not None else unwrapped(result.result, wrapped=result.wrapped)


def _close_frame(loop: LoopRun, path: loops.Path) -> None:
    loop.frames.pop(path, None)
    loop.regions.pop(path, None)
    loop.due.pop(path, None)


def _transition_of(iteration: OpenIteration) -> tuple[Taken, ...]:
    """The transition that the iteration's rules took (V2C-23)."""
    case = iteration.position.case
    if iteration.last is not None and iteration.last.decision.case is not None:
        case = iteration.last.decision.case.position
    return case.taken if case is not None else ()


def _leave_range(loop: LoopRun, frame: Frame, path: loops.Path) -> Range | None:
    iteration = loop.begun.pop(path)
    if taken := _transition_of(iteration):
        loop.taken[path] = taken
    span = loop.ranges[iteration.order_id]
    span.left -= 1
    if span.left:
        return None
    del loop.ranges[span.order_id]
    frame.open_slots -= span.slots
    return span


def _update_due(loop: LoopRun, frame: Frame) -> None:
    if not frame.has_work:
        loop.due.pop(frame.path, None)
    # A frame that is due keeps its place, so that levels are served in the order in which they came due.
    elif frame.path not in loop.due:
        loop.due[frame.path] = None
