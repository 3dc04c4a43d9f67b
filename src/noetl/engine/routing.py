"""Routing: which arcs fire when a step run has ended, and the tokens they make (ROUTE-02 to ROUTE-12).

Arcs are evaluated once per step run, on its boundary event. A failure takes only an arc that asks for it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.durations import seconds
from noetl.base.errors import TemplateError, ToolError
from noetl.engine.compensation import register, request_compensation
from noetl.engine.decision import Decision, Draft, patch_ctx
from noetl.engine.execution import Boundary, Execution, StepRun
from noetl.engine.pipeline.patches import written
from noetl.engine.plan import Plan
from noetl.engine.scopes import arc_scope
from noetl.engine.token_creation import Fired, send
from noetl.engine.v2_case.routing import BrokenCase, after_loop, decided_by_rules, sets_own_vars, shortcut
from noetl.engine.waits.times import length
from noetl.engine.waits.wait_start import arm, comes_to_waits
from noetl.engine.withdrawal import all_but, others_at, withdraw
from noetl.events.control import Emitted, PlaybookCancelled
from noetl.events.outcomes import Error
from noetl.events.tokens import ArcConsidered, NextSelected, TokenConsumed
from noetl.events.waits import StepTimeout
from noetl.net.net import Transition
from noetl.net.routing import Arc, Mode, Router
from noetl.templates.render import holds, render
from noetl.templates.scope import V2_CASE, Scope
from noetl.templates.values import Authored

FAILED = "step.failed"
_SELECTED = "selected"  # arcs that were chosen, in the memo of a plan
EXECUTION = "*"  # an arc that cancels the whole execution


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    considered: tuple[ArcConsidered, ...] = ()
    fired: tuple[Fired, ...] = ()
    error: Error | None = None
    patch: dict[str, Any] = {}  # what case rules set on the end of a loop


def route(plan: Plan, execution: Execution, run: StepRun, at: float) -> Decision:
    """Write the step's own `set_ctx`, tell its own events, choose arcs, make their tokens, consume this one."""
    boundary = run.ended
    assert boundary is not None, "only a step run that has ended is routed"
    step = plan.step(run.step)
    # A step with wait blocks has two ends: its pipeline's, which arms them, and that of the wait, which is routed.
    if step.waits and comes_to_waits(step, run):
        return arm(plan, execution, run, at)
    draft = Draft(execution, at, boundary.event_id)
    ctx, error = _own_end(plan, draft, execution, run, step, at)
    # Before the arcs are chosen: an arc with `trigger_compensation` undoes this step too.
    register(draft, execution, run, step, ctx)
    if step.ends_execution and boundary.error is None and error is None:
        draft.add(NextSelected(event=boundary.name, mode=Mode.EXCLUSIVE.value, ended="done"), run=run)
        withdraw(draft, execution, all_but(execution, run.token_id), "ended")  # nobody else goes on (beyond.md §1)
    else:
        selection = Selection(error=error) if error else _selected(plan, execution, run, step, ctx, at)
        draft.add(_record(step, boundary, selection), run=run)
        _write(draft, execution, run, selection)
        _follow(plan, draft, execution, run, selection.fired, at)
    # Last, so that the execution is never without a token while it goes on: no token left is its end.
    draft.add(TokenConsumed(token_id=run.token_id), run=run)
    return draft.decision()


def _own_end(
    plan: Plan, draft: Draft, execution: Execution, run: StepRun, step: Transition, at: float
) -> tuple[dict[str, Any], Error | None]:
    """The step's own `set_ctx` and events; the `ctx` its arcs see then, and why they are not asked, if so."""
    assert run.ended is not None
    ctx = execution.ctx
    try:
        if step.set_ctx is not None and run.ended.error is None and not sets_own_vars(step):
            patch = render(step.set_ctx, arc_scope(plan, execution, run, run.ended), now=at, keys=True)
            ctx = patch_ctx(draft, execution, run, patch)
        if step.emit:
            emit(plan, draft, execution, run, step, ctx, at)
    except (TemplateError, ToolError) as problem:
        return ctx, Error(kind=problem.kind, message=f'the end of step "{run.step}": {problem}')
    return ctx, None


def _selected(
    plan: Plan, execution: Execution, run: StepRun, step: Transition, ctx: dict[str, Any], at: float
) -> Selection:
    assert run.ended is not None
    # Where no guard, argument or delay reads anything, the choice depends on the name of the event alone, and is made
    # once for the net.
    found: Selection | None = plan.memo.get((_SELECTED, run.step, run.ended.name))
    if found is not None:
        return found
    if run.ended.name == StepTimeout.event_type:
        return _another_way(step)
    if plan.net.dialect == V2_CASE:
        scope = arc_scope(plan, execution, run, run.ended, ctx=ctx)
        return _by_rules(plan, execution, step, run, scope, ctx, at)
    is_plain = _reads_nothing(step.router)
    scope = Scope({}) if is_plain else arc_scope(plan, execution, run, run.ended, ctx=ctx)
    selection = select(step.router or Router(), run.ended, scope, at)
    tokens = sum(one.tokens for one in selection.fired)
    if tokens > plan.max_step_runs:  # they could not all run, and making them would hold up everybody else (ROUTE-10)
        limit = f"and {plan.max_step_runs} step runs are the limit of this execution"
        error = Error(kind="execution.budget", message=f'the arcs of step "{run.step}" make {tokens} tokens, {limit}')
        return Selection(considered=selection.considered, error=error)
    if is_plain and selection.error is None:
        plan.memo[_SELECTED, run.step, run.ended.name] = selection
    return selection


def _reads_nothing(router: Router | None) -> bool:
    """Whether the arcs that fire follow from the name of the step's end alone."""
    return router is None or not [
        arc
        for arc in router.arcs
        if arc.when or arc.args or arc.set_ctx or arc.delay or arc.priority or arc.dedupe or arc.partition
    ]


def _another_way(step: Transition) -> Selection:
    """A step whose time ran out sends its token to the alternative; its arcs are not asked (TMR-05)."""
    assert step.timeout is not None
    assert step.timeout.alternative is not None
    target, after_all = step.timeout.alternative, len(step.router.arcs) if step.router else 0
    considered = (ArcConsidered(step=target, guard="timeout", fired=True),)
    return Selection(considered=considered, fired=(Fired(arc=after_all, target=target, args={}),))


def _write(draft: Draft, execution: Execution, run: StepRun, selection: Selection) -> None:
    """What the arcs that fire set, in their order: of two writes to one name the later one stays."""
    patch = {name: value for one in selection.fired if one.set_ctx for name, value in one.set_ctx.items()}
    if patch or selection.patch:
        patch_ctx(draft, execution, run, {**selection.patch, **patch})


def _follow(plan: Plan, draft: Draft, execution: Execution, run: StepRun, fired: tuple[Fired, ...], at: float) -> None:
    """Withdraw what the arcs that fire cancel, then make their tokens."""
    cancelled = dict.fromkeys([step for one in fired for step in one.cancel])
    if EXECUTION in cancelled:
        draft.add(PlaybookCancelled(reason=f'an arc of step "{run.step}" cancels the execution'), run=run)
        withdraw(draft, execution, all_but(execution, run.token_id))
        return
    if cancelled:  # those that were there before: a new token may go to the very step that was cleared
        withdraw(draft, execution, others_at(execution, cancelled, run.token_id))
    if [one for one in fired if one.compensates] and not request_compensation(draft, execution, "arc", run=run):
        fired = tuple(msgspec.structs.replace(one, compensates=False) for one in fired)  # there is nothing to wait for
    send(plan, draft, execution, run, fired, at)


def _by_rules(
    plan: Plan,
    execution: Execution,
    step: Transition,
    run: StepRun,
    scope: Scope,
    ctx: dict[str, Any],
    at: float,
) -> Selection:
    """A transition that a rule took, else the `next` shortcut (V2C-04)."""
    boundary = run.ended
    assert boundary is not None

    def scope_with(changed: dict[str, Any]) -> Scope:
        return arc_scope(plan, execution, run, boundary, ctx=changed)

    patch: dict[str, Any] = {}
    try:
        fired = decided_by_rules(plan, run)
        if not fired:
            patch, fired = after_loop(plan, run, ctx, scope_with, at)
        if fired:
            considered = tuple(ArcConsidered(step=one.target, guard=True, fired=True) for one in fired)
            return Selection(considered=considered, fired=fired, patch=patch)
        scope = scope_with(written(ctx, patch)) if patch else scope
        router = shortcut(plan, step, scope, at)
    except BrokenCase as broken:
        return Selection(error=broken.error(step.name))
    except (TemplateError, ToolError) as problem:
        return Selection(error=Error(kind=problem.kind, message=f'next of step "{run.step}": {problem}'))
    return msgspec.structs.replace(select(router, boundary, scope, at), patch=patch)


def select(router: Router, boundary: Boundary, scope: Scope, now: float) -> Selection:
    """The arcs that fire, in YAML order: the first whose guard holds, or all of them (ROUTE-03, ROUTE-04)."""
    considered: list[ArcConsidered] = []
    fired: list[Fired] = []
    for index, arc in enumerate(router.arcs):
        if fired and router.mode is Mode.EXCLUSIVE:
            # Recorded all the same: who reads why a step was not taken sees that its guard was never asked.
            considered.append(ArcConsidered(step=arc.target, guard="not_evaluated"))
            continue
        try:
            guard, takes = _considered(arc, router, boundary, scope, now)
            considered.append(ArcConsidered(step=arc.target, guard=guard, fired=takes))
            if takes:
                fired.append(_fired(index, arc, boundary.step, scope, now))
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


def _fired(index: int, arc: Arc, source: str, scope: Scope, now: float) -> Fired:
    key, window_s = _dedupe(arc, scope, now)
    partition = render(arc.partition, scope, now=now) if arc.partition is not None else None
    return Fired(
        arc=index,
        target=arc.target,
        args=_mapping("args", arc.args, scope, now),
        set_ctx=_mapping("set_ctx", arc.set_ctx, scope, now, keys=True),
        tokens=arc.tokens,
        priority=_priority(arc, scope, now),
        partition=_text(partition) if partition is not None else None,
        dedupe=f"{source}/{index}/{key}" if key is not None else None,
        window_s=window_s,
        cancel=arc.cancel,
        delay_s=length("delay", arc.delay, scope, now) if arc.delay is not None else 0.0,
        compensates=arc.trigger_compensation,
    )


def _mapping(what: str, written: Authored | None, scope: Scope, now: float, *, keys: bool = False) -> dict[str, Any]:
    rendered = render(written, scope, now=now, keys=keys) if written is not None else None
    if rendered is not None and not isinstance(rendered, dict):
        raise TemplateError(f"{what} must be a mapping, this gave {type(rendered).__name__}")
    return rendered or {}


def _priority(arc: Arc, scope: Scope, now: float) -> int:
    value = render(arc.priority, scope, now=now) if arc.priority is not None else 0
    try:
        return int(value)
    except (TypeError, ValueError):
        raise TemplateError(f"priority must be a whole number, this gave {value!r}") from None


def _dedupe(arc: Arc, scope: Scope, now: float) -> tuple[str | None, float | None]:
    """`{key, window}`, or the key alone (ADV-04). A key that is null says nothing."""
    written = render(arc.dedupe, scope, now=now) if arc.dedupe is not None else None
    key, window = (written.get("key"), written.get("window")) if isinstance(written, dict) else (written, None)
    try:
        window_s = seconds(window) if window is not None else None
    except ValueError as problem:
        raise TemplateError(f"dedupe.window: {problem}") from None
    return (None if key is None else _text(key)), window_s


def _text(key: Any) -> str:
    """A rendered key as text, so that equal values are one key and different types are not."""
    return key if isinstance(key, str) else msgspec.json.encode(key, order="sorted").decode()


def _record(step: Transition, boundary: Boundary, selection: Selection) -> NextSelected:
    mode: str = (step.router or Router()).mode._value_  # `value` is a property in Python, two calls
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


# Emission: events that authors name themselves, told at the end of a step (EVT-09). They are never boundary events.


def emit(
    plan: Plan, draft: Draft, execution: Execution, run: StepRun, step: Transition, ctx: dict[str, Any], at: float
) -> None:
    """Tell each event whose condition holds, in the order they are written."""
    assert run.ended is not None
    scope = arc_scope(plan, execution, run, run.ended, ctx=ctx)
    for one in step.emit:
        if one.when is None or holds(one.when, scope, now=at):
            data = render(one.data, scope, now=at) if one.data is not None else None
            draft.add(Emitted(emitted=one.name, data=data), run=run)
