"""Scopes of a loop's own templates: `in`, its bounds, partition keys (O-14). Admission's names, and `iter` from the
second level on. Also what a worker is given to run a range of iterations."""

from __future__ import annotations

from typing import Any

from noetl.engine.execution import Execution, StepRun
from noetl.engine.loops.levels import LevelScope, level_at
from noetl.engine.loops.state import Frame, LoopRun, Range
from noetl.engine.pipeline.patches import patched
from noetl.engine.pipeline.scopes import Views
from noetl.engine.plan import Plan
from noetl.engine.scopes import event_of, token_of
from noetl.events.loops import Path
from noetl.events.orders import Iterations, Outer, Resumed
from noetl.net.net import Transition
from noetl.templates.scope import Scope


def first_scope(plan: Plan, execution: Execution, namespaces: dict[str, Any]) -> LevelScope:
    """Of the outermost level, when its step is admitted; `namespaces` are admission's."""
    return LevelScope(namespaces, Views(execution.outputs.results, plan.load), known=plan.names)


def inner_scope(plan: Plan, execution: Execution, run: StepRun, step: Transition, path: Path) -> LevelScope:
    """Of the level that opens inside the outer iteration at `path`."""
    assert run.loop is not None
    frame = run.loop.frames[path[:-1]]
    region = run.loop.region_of(frame)
    ctx = execution.variables.ctx if region is None else patched(region.ctx, region.own.get(path[: frame.strand], {}))
    return _scope_in(plan, execution, run, step, path, ctx)


def judging_scope(
    plan: Plan, execution: Execution, run: StepRun, path: Path, ctx: dict[str, Any], more: dict[str, Any]
) -> Scope:
    """Of `complete_when`, after the iteration at `path` has ended; `more` are further names of its `iter`."""
    step, (*around, index) = plan.step(run.step), path
    scope = _scope_in(plan, execution, run, step, tuple(around), ctx)
    [*_, own] = outer_of(plan, run, step, path)
    return scope.inside(own.iterator, own.item, index, more).scope


def _scope_in(
    plan: Plan, execution: Execution, run: StepRun, step: Transition, path: Path, ctx: dict[str, Any]
) -> LevelScope:
    namespaces = {
        "args": run.token.args,
        "ctx": ctx,
        "workload": execution.origin.workload,
        "event": event_of(execution.tokens[run.token.token_id].source, plan.load),
        "execution_id": execution.execution_id,
        "token": {"args": run.token.args, **token_of(execution, run)},
    }
    scope = LevelScope(namespaces, Views(execution.outputs.results, plan.load), known=plan.names)
    for outer in outer_of(plan, run, step, path):
        scope = scope.inside(outer.iterator, outer.item, outer.index)
    return scope


def outer_of(plan: Plan, run: StepRun, step: Transition, path: Path) -> tuple[Outer, ...]:
    """The iterations of `path`, the outermost first, with their elements."""
    assert run.loop is not None
    found = []
    for depth, index in enumerate(path):
        item = item_at(plan, run.loop.frames[path[:depth]], index)
        found.append(Outer(iterator=level_at(step, path[:depth]).iterator, index=index, item=item))
    return tuple(found)


def item_at(plan: Plan, frame: Frame, index: int) -> Any:
    """An element of a level's collection, or one that was added to it."""
    opened = frame.opened
    if index >= opened.total:
        return frame.added[index - opened.total]
    if opened.items is not None:
        return opened.items[index]
    assert opened.items_ref is not None
    return plan.collection(opened.items_ref)[index]


# What a worker needs to run a range: the elements, what is around them, and what has begun already (WRK-04).


def iterations_of(plan: Plan, run: StepRun, span: Range) -> Iterations:
    """The iterations of a range that have not ended."""
    loop, step = run.loop, plan.step(run.step)
    assert loop is not None
    frame, level = loop.frames[span.path], level_at(step, span.path)
    # Most orders have their whole range: two numbers instead of a list of all indices.
    whole = span.indices is None and span.left == len(span)
    indices = None if whole else tuple(index for index in span if not frame.ended[index])
    wanted = range(span.first, span.last + 1) if indices is None else indices
    # Elements in the results store go by reference; the worker loads the collection itself. Elements that iterations
    # added are in the state only, so they go along.
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
        return dict(execution.variables.ctx)
    own = (
        region.own.get(span.path[: frame.strand])
        if frame.strand is not None and frame.strand <= len(span.path)
        else None
    )
    return patched(region.ctx, own) if own else region.ctx
