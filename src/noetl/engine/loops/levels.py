"""Levels of a loop: opened with collection and bounds, which the server evaluates (LOOP-01, LOOP-07, LOOP-12, O-14),
and the scopes of the loop's own templates there: `in`, its bounds, partition keys. Also what a worker is given to run a
range of iterations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from noetl.base.errors import TemplateError, ToolError
from noetl.engine.execution import Execution, StepRun
from noetl.engine.loops.state import Frame, LoopRun, Range
from noetl.engine.pipeline.patches import patched
from noetl.engine.pipeline.scopes import Views
from noetl.engine.plan import Plan
from noetl.engine.scopes import event_of, token_of
from noetl.events.loops import LoopStarted, Path
from noetl.events.orders import Iterations, Outer, Resumed
from noetl.events.outcomes import Error, Reference
from noetl.net.net import Loop, Transition
from noetl.templates.render import render, render_collection
from noetl.templates.scope import Scope, loop_of
from noetl.templates.values import Authored

KIND = "loop.collection"
MAX_IN_FLIGHT = 10  # O-33

_WORDS = {str: "text", bool: "a boolean", int: "a number", float: "a number", type(None): "null or nothing"}


class LevelScope:
    """The server's names at one level; `inside` an iteration, `iter` is it and what was `iter` its parent (LOOP-06)."""

    def __init__(
        self,
        namespaces: Mapping[str, Any],
        steps: Views,
        bare: Mapping[str, Any] | None = None,
        loop: Mapping[str, Any] | None = None,
        *,
        known: Collection[str] | None = None,
    ) -> None:
        self._namespaces, self._steps, self._bare, self._known = namespaces, steps, bare, known
        self.scope = Scope(namespaces, iteration=bare, steps=steps, loop=loop, known=known)

    def inside(self, iterator: str, item: Any, index: int, more: Mapping[str, Any] | None = None) -> LevelScope:
        iteration = {**(more or {}), iterator: item, "index": index, "parent": self._namespaces.get("iter")}
        # The iterator is readable by its bare name as well, those of outer levels included.
        bare = {**(self._bare or {}), iterator: item}
        names, loop = {**self._namespaces, "iter": iteration}, loop_of(iteration, iterator)
        return LevelScope(names, self._steps, bare, loop, known=self._known)


def level_at(step: Transition, path: Path) -> Loop:
    """The loop level whose iterations are numbered below `path`."""
    loop = step.loop
    for _ in path:
        assert loop is not None
        loop = loop.inner
    assert loop is not None
    return loop


def levels_of(step: Transition) -> tuple[Loop, ...]:
    levels, loop = [], step.loop
    while loop is not None:
        levels.append(loop)
        loop = loop.inner
    return tuple(levels)


def open_level(plan: Plan, step: Transition, path: Path, around: LevelScope, now: float) -> LoopStarted:
    """The event that opens a level. ToolError `loop.collection` for what is no collection, TemplateError for what a
    template cannot give."""
    level, scope = level_at(step, path), around.scope
    items = collection(render_collection(level.items, scope, now=now), f'loop.in of step "{step.name}"')
    in_flight = _in_flight(plan, level, scope, now)
    lanes = _lanes(level, items, around, now) if level.partition is not None else None
    # A large collection would travel with the event wherever it is read; so it is stored once and named.
    kept_items, items_ref = value_or_reference(plan, items)
    kept_lanes, lanes_ref = value_or_reference(plan, lanes) if lanes is not None else (None, None)
    return LoopStarted(
        path=path,
        total=len(items),
        items=kept_items,
        items_ref=items_ref,
        parallel=level.parallel,
        in_flight=in_flight,
        # Sequential iterations stay with one worker unless the loop is distributed: spreading them only costs claims.
        local=not (level.parallel if level.distributed is None else level.distributed),
        nested=level.inner is not None,
        best_effort=step.best_effort,
        last_wins=any(one.ctx_writes == "last" for one in levels_of(step)),
        reducers={key: op for one in levels_of(step) for key, op in one.reducers.items()},
        max_queue=_count(level.max_queue, scope, now, "max_queue") if level.max_queue is not None else None,
        lanes=kept_lanes,
        lanes_ref=lanes_ref,
        lane_count=len(lanes) if lanes is not None else None,
    )


def open_error(problem: TemplateError | ToolError, step: Transition) -> Error:
    """Why a level does not open, with the place it was noticed (TPL-09)."""
    where = f'the loop of step "{step.name}": ' if isinstance(problem, TemplateError) else ""
    return Error(kind=problem.kind, message=f"{where}{problem}")


def collection(value: Any, what: str) -> list[Any]:
    """A list as it is, a mapping as {key, value} in its own order (LOOP-12)."""
    if isinstance(value, list):
        return value
    if isinstance(value, Mapping):
        return [{"key": key, "value": item} for key, item in value.items()]
    found = _WORDS.get(type(value), type(value).__name__)
    raise ToolError(KIND, f"{what} gave {found}, and a list or a mapping is needed{_way_out(value)}")


def _way_out(value: Any) -> str:
    if isinstance(value, str) and "," in value:
        return ": text with commas becomes a list with .split(',')"
    if isinstance(value, int) and not isinstance(value, bool):
        return ": to count, write range(…)"
    return ""


def _in_flight(plan: Plan, level: Loop, scope: Scope, now: float) -> int:
    if not level.parallel:
        return 1
    if level.max_in_flight is None:
        return int(plan.net.executor.limits.get("max_in_flight", MAX_IN_FLIGHT))
    return _count(level.max_in_flight, scope, now, "max_in_flight")


def _count(written: Authored, scope: Scope, now: float, what: str) -> int:
    value = render(written, scope, now=now)
    try:
        # True is 1 in Python, but an author does not mean a boolean as a count.
        number = int(value) if not isinstance(value, bool) else 0
    except (TypeError, ValueError):
        number = 0
    if number < 1:
        raise TemplateError(f"{what} must be a whole number from 1, and this gave {value!r}")
    return number


def _lanes(level: Loop, items: list[Any], around: LevelScope, now: float) -> list[list[int]]:
    """The indices of equal keys, in order: these iterations must run one after another (LOOP-15)."""
    assert level.partition is not None
    lanes: dict[bytes, list[int]] = {}
    for index, item in enumerate(items):
        key = render(level.partition, around.inside(level.iterator, item, index).scope, now=now)
        # By JSON text, since keys may be lists or mappings, and since 1 and "1" must not share a lane.
        lanes.setdefault(msgspec.json.encode(key), []).append(index)
    return list(lanes.values())


def value_or_reference(plan: Plan, value: list[Any]) -> tuple[list[Any] | None, Reference | None]:
    if plan.fits(value):
        return value, None
    return None, plan.keep(value)


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


# The data that a worker needs for a range: the elements, the enclosing iterations, and those already started (WRK-04).


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
        begun=_resumed_iterations(loop, span),
        fail_fast=not loop.best_effort,
        hands_on=not frame.opened.parallel,
        reduced=tuple(loop.reducers),
        extend=level.extend,
    )


def _resumed_iterations(loop: LoopRun, span: Range) -> dict[int, Resumed]:
    return {
        path[-1]: Resumed(position=begun.current_position(), interrupted=begun.in_task, writes=dict(begun.writes))
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
