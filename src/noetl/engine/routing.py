"""Routing: which arcs fire when a step run has ended, and the tokens they make (ROUTE-02 to ROUTE-12).

Arcs are evaluated once per step run, on its boundary event. A failure takes only an arc that asks for it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.engine.decision import Decision, Draft
from noetl.engine.execution import Boundary, Execution, StepRun
from noetl.engine.identity import run_id_of, token_id_of
from noetl.engine.patching import patch_ctx
from noetl.engine.plan import Plan
from noetl.engine.scopes import arc_scope
from noetl.errors import TemplateError, ToolError
from noetl.net.net import Transition
from noetl.net.routing import Arc, Mode, Router
from noetl.records.events import (
    ArcConsidered,
    NextEnqueued,
    NextSelected,
    TokenConsumed,
    TokenCreated,
    TokenEnqueued,
)
from noetl.records.outcomes import Error
from noetl.templates.render import holds, render
from noetl.templates.scope import Scope

FAILED = "step.failed"


class Fired(msgspec.Struct, frozen=True):
    arc: int
    target: str
    args: dict[str, Any]


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    considered: tuple[ArcConsidered, ...] = ()
    fired: tuple[Fired, ...] = ()
    error: Error | None = None


def route(plan: Plan, execution: Execution, run: StepRun, at: float) -> Decision:
    """Write the step's own `set_ctx`, choose arcs, make their tokens, consume this one."""
    boundary = run.ended
    assert boundary is not None, "only a step run that has ended is routed"
    step = plan.step(run.step)
    draft = Draft(execution, at, boundary.event_id)
    selection = _settle(plan, draft, execution, run, at)
    draft.add(_record(step, boundary, selection), run=run)
    for fired in selection.fired:
        _enqueue(plan, draft, execution, run, fired)
    draft.add(TokenConsumed(token_id=run.token_id), run=run)
    return draft.decision()


def _settle(plan: Plan, draft: Draft, execution: Execution, run: StepRun, at: float) -> Selection:
    assert run.ended is not None
    step = plan.step(run.step)
    ctx = execution.ctx
    try:
        if step.set_ctx is not None and run.ended.error is None:
            patch = render(step.set_ctx, arc_scope(plan, execution, run, run.ended), now=at, keys=True)
            ctx = patch_ctx(draft, execution, run, patch)
    except (TemplateError, ToolError) as problem:
        return Selection(error=Error(kind=problem.kind, message=f'set_ctx of step "{run.step}": {problem}'))
    return select(step.router or Router(), run.ended, arc_scope(plan, execution, run, run.ended, ctx=ctx), at)


def select(router: Router, boundary: Boundary, scope: Scope, now: float) -> Selection:
    """The arcs that fire, in YAML order: the first whose guard holds, or all of them (ROUTE-03, ROUTE-04)."""
    considered: list[ArcConsidered] = []
    fired: list[Fired] = []
    for index, arc in enumerate(router.arcs):
        if fired and router.mode is Mode.EXCLUSIVE:
            considered.append(ArcConsidered(step=arc.target, guard="not_evaluated"))
            continue
        try:
            guard, takes = _considered(arc, router, boundary, scope, now)
            considered.append(ArcConsidered(step=arc.target, guard=guard, fired=takes))
            if takes:
                fired.append(Fired(index, arc.target, _args(arc, scope, now)))
        except (TemplateError, ToolError) as problem:
            message = f'arc {index} of step "{boundary.step}" to "{arc.target}": {problem}'
            return Selection(considered=tuple(considered), error=Error(kind=problem.kind, message=message))
    return Selection(considered=tuple(considered), fired=tuple(fired))


def _considered(arc: Arc, router: Router, boundary: Boundary, scope: Scope, now: float) -> tuple[bool | str, bool]:
    """The guard's value as it is recorded, and whether the arc fires."""
    if arc.when is not None:
        holding = holds(arc.when, scope, now=now)
        return holding, holding
    return "unguarded", boundary.name != FAILED or router.unguarded_always  # ROUTE-05


def _args(arc: Arc, scope: Scope, now: float) -> dict[str, Any]:
    args = render(arc.args, scope, now=now) if arc.args is not None else None
    if args is not None and not isinstance(args, dict):
        raise TemplateError(f"args must be a mapping, this gave {type(args).__name__}")
    return args or {}


def _record(step: Transition, boundary: Boundary, selection: Selection) -> NextSelected:
    mode = (step.router or Router()).mode.value
    ended, error = None, selection.error
    if error is not None:
        ended = "failed"
    elif not selection.fired:
        ended, error = _end_of_token(step, boundary)
    return NextSelected(event=boundary.name, mode=mode, arcs=selection.considered, ended=ended, error=error)


def _end_of_token(step: Transition, boundary: Boundary) -> tuple[str, Error | None]:
    """A failure that no arc takes fails the execution, unless the step is best-effort (ROUTE-08)."""
    if boundary.error is None:
        return "done", None
    return ("tolerated", None) if step.best_effort else ("failed", boundary.error)


def _enqueue(plan: Plan, draft: Draft, execution: Execution, run: StepRun, fired: Fired) -> None:
    assert run.ended is not None
    source = run.ended.event_id
    token_id = token_id_of(execution.execution_id, source, fired.arc)
    draft.add(NextEnqueued(token_id=token_id, step=fired.target, arc=fired.arc), run=run)
    about: dict[str, Any] = {"step": fired.target, "step_run_id": run_id_of(token_id)}
    draft.add(
        TokenCreated(
            token_id=token_id,
            step=fired.target,
            path=plan.net.path,
            version=plan.net.version,
            args=fired.args,
            source_event_id=source,
            parent_step_run_id=run.step_run_id,
            arc=fired.arc,
        ),
        **about,
    )
    draft.add(TokenEnqueued(token_id=token_id), **about)
