"""Scopes of a loop's own templates: `in`, its bounds, partition keys (O-14). Admission's names, and `iter` from the
second level on."""

from __future__ import annotations

from typing import Any

from noetl.engine.execution import Execution, StepRun
from noetl.engine.loops.opening import LevelScope, level_at
from noetl.engine.plan import Plan
from noetl.engine.scopes import event_of, token_of
from noetl.net.net import Transition
from noetl.pipeline.patches import written
from noetl.pipeline.scopes import Views
from noetl.records.loops import LoopStarted, Path
from noetl.records.orders import Outer


def first_scope(plan: Plan, execution: Execution, namespaces: dict[str, Any]) -> LevelScope:
    """Of the outermost level, when its step is admitted; `namespaces` are admission's."""
    return LevelScope(namespaces, Views(execution.results, plan.load))


def inner_scope(plan: Plan, execution: Execution, run: StepRun, step: Transition, path: Path) -> LevelScope:
    """Of the level that opens inside the outer iteration at `path`."""
    loop = run.loop
    assert loop is not None
    token = execution.tokens[run.token_id]
    frame = loop.frames[path[:-1]]
    region = loop.region_of(frame)
    namespaces = {
        "args": run.args,
        "ctx": execution.ctx if region is None else written(region.ctx, region.own.get(path[: frame.strand], {})),
        "workload": execution.workload,
        "event": event_of(token.source, plan.load),
        "execution_id": execution.execution_id,
        "token": token_of(execution, run),
    }
    scope = LevelScope(namespaces, Views(execution.results, plan.load))
    for outer in outer_of(plan, run, step, path):
        scope = scope.inside(outer.iterator, outer.item, outer.index)
    return scope


def outer_of(plan: Plan, run: StepRun, step: Transition, path: Path) -> tuple[Outer, ...]:
    """The iterations of `path`, the outermost first, with their elements."""
    assert run.loop is not None
    found = []
    for depth, index in enumerate(path):
        frame = run.loop.frames[path[:depth]]
        item = items_of(plan, frame.opened)[index]
        found.append(Outer(iterator=level_at(step, path[:depth]).iterator, index=index, item=item))
    return tuple(found)


def items_of(plan: Plan, opened: LoopStarted) -> list[Any]:
    """The collection of a level."""
    if opened.items is not None or opened.items_ref is None:
        return opened.items or []
    items: list[Any] = plan.collection(opened.items_ref)
    return items
