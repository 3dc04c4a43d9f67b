"""What a worker needs to run a range: the elements, what is around them, and what has begun already (WRK-04)."""

from __future__ import annotations

from typing import Any

from noetl.engine.execution import Execution, StepRun
from noetl.engine.loops.levels import level_at
from noetl.engine.loops.scopes import item_at, outer_of
from noetl.engine.loops.state import LoopRun, Range
from noetl.engine.pipeline.patches import written
from noetl.engine.plan import Plan
from noetl.events.orders import Iterations, Resumed


def iterations_of(plan: Plan, run: StepRun, span: Range) -> Iterations:
    """The iterations of a range that have not ended."""
    loop, step = run.loop, plan.step(run.step)
    assert loop is not None
    frame, level = loop.frames[span.path], level_at(step, span.path)
    whole = span.indices is None and span.left == len(span)
    indices = None if whole else tuple(index for index in span if not frame.ended[index])
    wanted = range(span.first, span.last + 1) if indices is None else indices
    stored = frame.opened.items is None and span.first < frame.opened.total
    return Iterations(
        path=span.path,
        first=span.first,
        last=span.last,
        indices=indices,
        slots=span.slots,
        iterator=level.iterator,
        items=None if stored else [item_at(plan, frame, index) for index in wanted],
        items_ref=frame.opened.items_ref if stored else None,
        outer=outer_of(plan, run, step, span.path),
        begun=_resumed(loop, span),
        fail_fast=not loop.best_effort,
        hands_on=not frame.opened.parallel,
        reduced=tuple(loop.reducers),
        extend=level.extend,
    )


def _resumed(loop: LoopRun, span: Range) -> dict[int, Resumed]:
    return {
        path[-1]: Resumed(position=begun.stands(), interrupted=begun.in_task, writes=dict(begun.writes))
        for path, begun in loop.begun.items()
        if begun.order_id == span.order_id
    }


def ctx_for(execution: Execution, run: StepRun, span: Range) -> dict[str, Any]:
    """`ctx` as the iterations of a range read it: as of the region's start with the strand's own writes, or as it is
    when they run one after another (SCOPE-06)."""
    assert run.loop is not None
    frame = run.loop.frames[span.path]
    region = run.loop.region_of(frame)
    if region is None:
        return dict(execution.ctx)
    own = (
        region.own.get(span.path[: frame.strand])
        if frame.strand is not None and frame.strand <= len(span.path)
        else None
    )
    return written(region.ctx, own) if own else region.ctx
