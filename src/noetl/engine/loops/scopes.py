"""Scopes of a loop's own templates: `in`, its bounds, partition keys (O-14). Admission's names, and `iter` from the
second level on."""

from __future__ import annotations

from typing import Any

from noetl.engine.execution import Execution, StepRun
from noetl.engine.loops.levels import LevelScope, level_at
from noetl.engine.loops.state import Frame
from noetl.engine.pipeline.patches import written
from noetl.engine.pipeline.scopes import Views
from noetl.engine.plan import Plan
from noetl.engine.scopes import event_of, token_of
from noetl.events.loops import Path
from noetl.events.orders import Outer
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
    ctx = execution.ctx if region is None else written(region.ctx, region.own.get(path[: frame.strand], {}))
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
        "args": run.args,
        "ctx": ctx,
        "workload": execution.origin.workload,
        "event": event_of(execution.tokens[run.token_id].source, plan.load),
        "execution_id": execution.execution_id,
        "token": {"args": run.args, **token_of(execution, run)},
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
