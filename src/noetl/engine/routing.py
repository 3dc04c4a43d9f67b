"""Routing: which arcs fire when a step run has ended, and the tokens they make (ROUTE-02 to ROUTE-12).

Arcs are evaluated once per step run, on its boundary event. A failure takes only an arc that asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from noetl.base.durations import seconds
from noetl.base.errors import TemplateError, ToolError
from noetl.engine.compensation import register_compensation, request_compensation
from noetl.engine.decision import Decision, Draft, patch_ctx
from noetl.engine.execution import Boundary, Execution, StepRun
from noetl.engine.pipeline.patches import patched
from noetl.engine.plan import Plan
from noetl.engine.scopes import arc_scope
from noetl.engine.token_creation import FiredArc, create_tokens
from noetl.engine.v2_case.routing import BrokenCase, after_loop, decided_by_rules, sets_own_vars, shortcut
from noetl.engine.waits.times import duration_s
from noetl.engine.waits.wait_start import arm_waits, has_waits_next
from noetl.engine.withdrawal import other_tokens_at, tokens_except, withdraw
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
_SELECTED = "selected"  # the prefix of selected arcs in the memo of a plan
WHOLE_EXECUTION = "*"  # the target of an arc that cancels the whole execution


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The arcs of an ended step run: those that were considered, and those that fire."""

    considered: tuple[ArcConsidered, ...] = ()
    fired: tuple[FiredArc, ...] = ()
    error: Error | None = None
    patch: dict[str, Any] = {}  # set by case rules on the end of a loop


def route(plan: Plan, execution: Execution, run: StepRun, at: float) -> Decision:
    """Route an ended step run: write its `set_ctx`, emit its events, select arcs, create their tokens, consume its own
    token."""
    boundary = run.ended
    assert boundary is not None, "only a step run that has ended is routed"
    step = plan.step(run.step)
    # A step with wait blocks ends twice: the end of its pipeline arms the waits, and the end of a wait is routed.
    if step.waits and has_waits_next(step, run):
        return arm_waits(plan, execution, run, at)
    draft = Draft(execution, at, boundary.event_id)
    ctx, error = _apply_step_end(plan, draft, execution, run, step, at)
    # Before the arcs are chosen: an arc with `trigger_compensation` undoes this step too.
    register_compensation(draft, execution, run, step, ctx)
    if step.ends_execution and boundary.error is None and error is None:
        draft.add(NextSelected(event=boundary.name, mode=Mode.EXCLUSIVE.value, ended="done"), run=run)
        # `ends_execution`: no other token continues (beyond.md §1).
        withdraw(draft, execution, tokens_except(execution, run.token.token_id), "ended")
    else:
        selection = Selection(error=error) if error else _select_arcs(plan, execution, run, step, ctx, at)
        draft.add(_selection_event(step, boundary, selection), run=run)
        _write_arc_patches(draft, execution, run, selection)
        _follow_arcs(plan, draft, execution, run, selection.fired, at)
    # Last: an execution without a token is over, so its own token must not go before the new ones exist.
    draft.add(TokenConsumed(token_id=run.token.token_id), run=run)
    return draft.decision()


def _apply_step_end(
    plan: Plan, draft: Draft, execution: Execution, run: StepRun, step: Transition, at: float
) -> tuple[dict[str, Any], Error | None]:
    """Write the step's `set_ctx` and emit its events. Returns the `ctx` that its arcs see, and the error of a template
    that failed; then no arc is evaluated."""
    assert run.ended is not None
    ctx = execution.variables.ctx
    try:
        if step.set_ctx is not None and run.ended.error is None and not sets_own_vars(step):
            patch = render(step.set_ctx, arc_scope(plan, execution, run, run.ended), now=at, keys=True)
            ctx = patch_ctx(draft, execution, run, patch)
        if step.emit:
            emit_events(plan, draft, execution, run, step, ctx, at)
    except (TemplateError, ToolError) as problem:
        return ctx, Error(kind=problem.kind, message=f'the end of step "{run.step}": {problem}')
    return ctx, None


def _select_arcs(
    plan: Plan, execution: Execution, run: StepRun, step: Transition, ctx: dict[str, Any], at: float
) -> Selection:
    assert run.ended is not None
    # Where no guard, argument or delay is a template, the arcs depend on the name of the event alone. They are selected
    # once per net.
    known: Selection | None = plan.memo.get((_SELECTED, run.step, run.ended.name))
    if known is not None:
        return known
    if run.ended.name == StepTimeout.event_type:
        return _timeout_selection(step)
    if plan.net.dialect == V2_CASE:
        scope = arc_scope(plan, execution, run, run.ended, ctx=ctx)
        return _select_by_rules(plan, execution, step, run, scope, ctx, at)
    is_plain = _reads_nothing(step.router)
    boundary = run.ended

    def scope_with(changed: dict[str, Any]) -> Scope:
        return arc_scope(plan, execution, run, boundary, ctx=changed)

    scope = Scope({}) if is_plain else scope_with(ctx)
    selection = select(step.router or Router(), boundary, scope, at, lambda written: scope_with(patched(ctx, written)))
    tokens = sum(arc.tokens for arc in selection.fired)
    # They could not all run, and creating them would block all other executions of this server (ROUTE-10).
    if tokens > plan.max_step_runs:
        limit = f"and executor.spec.policy.limits.max_step_runs is {plan.max_step_runs}"
        error = Error(kind="execution.budget", message=f'the arcs of step "{run.step}" make {tokens} tokens, {limit}')
        return Selection(considered=selection.considered, error=error)
    if is_plain and selection.error is None:
        plan.memo[_SELECTED, run.step, run.ended.name] = selection
    return selection


def _reads_nothing(router: Router | None) -> bool:
    """Whether the name of the boundary event alone determines which arcs fire."""
    return router is None or not [
        arc
        for arc in router.arcs
        if arc.when or arc.args or arc.set_ctx or arc.delay or arc.priority or arc.dedupe or arc.partition
    ]


def _timeout_selection(step: Transition) -> Selection:
    """The selection after a timeout: the token goes to the alternative, and no arc is evaluated (TMR-05)."""
    assert step.timeout is not None
    assert step.timeout.alternative is not None
    target, after_all = step.timeout.alternative, len(step.router.arcs) if step.router else 0
    considered = (ArcConsidered(step=target, guard="timeout", fired=True),)
    return Selection(considered=considered, fired=(FiredArc(arc=after_all, target=target, args={}),))


def _write_arc_patches(draft: Draft, execution: Execution, run: StepRun, selection: Selection) -> None:
    """Write the `set_ctx` of all arcs that fire, in their order: of two writes to one name the later one stays."""
    patch = {name: value for arc in selection.fired if arc.set_ctx for name, value in arc.set_ctx.items()}
    if patch or selection.patch:
        patch_ctx(draft, execution, run, {**selection.patch, **patch})


def _follow_arcs(
    plan: Plan, draft: Draft, execution: Execution, run: StepRun, fired: tuple[FiredArc, ...], at: float
) -> None:
    """Withdraw the tokens that the arcs cancel, then create the new ones."""
    cancelled = dict.fromkeys([step for arc in fired for step in arc.cancel])
    if WHOLE_EXECUTION in cancelled:
        draft.add(PlaybookCancelled(reason=f'an arc of step "{run.step}" cancels the execution'), run=run)
        withdraw(draft, execution, tokens_except(execution, run.token.token_id))
        return
    # Before the new tokens are created: one of them may go to the very step that is cleared.
    if cancelled:
        withdraw(draft, execution, other_tokens_at(execution, cancelled, run.token.token_id))
    if [arc for arc in fired if arc.compensates] and not request_compensation(draft, execution, "arc", run=run):
        # Nothing is registered, so the tokens need not wait for a compensation.
        fired = tuple(msgspec.structs.replace(arc, compensates=False) for arc in fired)
    create_tokens(plan, draft, execution, run, fired, at)


def _select_by_rules(
    plan: Plan,
    execution: Execution,
    step: Transition,
    run: StepRun,
    scope: Scope,
    ctx: dict[str, Any],
    at: float,
) -> Selection:
    """v2-case: the transitions that rules took, else the `next` shortcut (V2C-04)."""
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
            considered = tuple(ArcConsidered(step=arc.target, guard=True, fired=True) for arc in fired)
            return Selection(considered=considered, fired=fired, patch=patch)
        ctx = patched(ctx, patch) if patch else ctx
        scope = scope_with(ctx) if patch else scope
        router = shortcut(plan, step, scope, at)
    except BrokenCase as broken:
        return Selection(error=broken.error(step.name))
    except (TemplateError, ToolError) as problem:
        return Selection(error=Error(kind=problem.kind, message=f'next of step "{run.step}": {problem}'))
    selection = select(router, boundary, scope, at, lambda written: scope_with(patched(ctx, written)))
    return msgspec.structs.replace(selection, patch=patch)


def select(
    router: Router, boundary: Boundary, scope: Scope, now: float, scope_after: Callable[[dict[str, Any]], Scope]
) -> Selection:
    """The arcs that fire, in YAML order: the first whose guard holds, or in inclusive mode all of them (ROUTE-03,
    ROUTE-04). `scope_after` has the `ctx` with what an arc writes."""
    considered: list[ArcConsidered] = []
    fired: list[FiredArc] = []
    for index, arc in enumerate(router.arcs):
        if fired and router.mode is Mode.EXCLUSIVE:
            # Recorded too: a reader of the log sees that this guard was never evaluated.
            considered.append(ArcConsidered(step=arc.target, guard="not_evaluated"))
            continue
        action = "decided"
        try:
            guard, fires = _guard_result(arc, router, boundary, scope, now)
            considered.append(ArcConsidered(step=arc.target, guard=guard, fired=fires))
            action = "followed"
            if fires:
                fired.append(_rendered_arc(index, arc, boundary.step, scope, now, scope_after))
        except (TemplateError, ToolError) as problem:
            message = f"{_arc_name(router, index, boundary.step)} could not be {action}: {problem}"
            return Selection(considered=tuple(considered), error=Error(kind=problem.kind, message=message))
    return Selection(considered=tuple(considered), fired=tuple(fired))


def _arc_name(router: Router, index: int, step: str) -> str:
    """An arc by its ends, and by its place among those with the same ends."""
    target = router.arcs[index].target
    equal = [place for place, arc in enumerate(router.arcs) if arc.target == target]
    place = f" ({equal.index(index) + 1} of {len(equal)})" if len(equal) > 1 else ""
    return f'the arc of step "{step}" to "{target}"{place}'


def _guard_result(arc: Arc, router: Router, boundary: Boundary, scope: Scope, now: float) -> tuple[bool | str, bool]:
    """The guard's value as it is recorded, and whether the arc fires."""
    if arc.when is not None:
        is_true = holds(arc.when, scope, now=now)
        return is_true, is_true
    # A failure takes only an arc that asks for it with a guard (ROUTE-05).
    return "unguarded", boundary.name != FAILED or router.unguarded_always


def _rendered_arc(
    index: int, arc: Arc, source: str, scope: Scope, now: float, scope_after: Callable[[dict[str, Any]], Scope]
) -> FiredArc:
    written = _mapping("set_ctx", arc.set_ctx, scope, now, keys=True)
    key, window_s = _dedupe(arc, scope, now)
    partition = render(arc.partition, scope, now=now) if arc.partition is not None else None
    return FiredArc(
        arc=index,
        target=arc.target,
        # What an arc writes is in `ctx` before its token is made, and the arguments are the token's (ROUTE-14).
        args=_mapping("args", arc.args, scope_after(written) if written and arc.args is not None else scope, now),
        set_ctx=written,
        tokens=arc.tokens,
        priority=_priority(arc, scope, now),
        partition=_text(partition) if partition is not None else None,
        dedupe=f"{source}/{index}/{key}" if key is not None else None,
        window_s=window_s,
        cancel=arc.cancel,
        delay_s=duration_s("delay", arc.delay, scope, now) if arc.delay is not None else 0.0,
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
    """Key and window of `dedupe`, written as `{key, window}` or as the key alone (ADV-04). No dedupe for a null key."""
    written = render(arc.dedupe, scope, now=now) if arc.dedupe is not None else None
    key, window = (written.get("key"), written.get("window")) if isinstance(written, dict) else (written, None)
    try:
        window_s = seconds(window) if window is not None else None
    except ValueError as problem:
        raise TemplateError(f"dedupe.window: {problem}") from None
    return (None if key is None else _text(key)), window_s


def _text(key: Any) -> str:
    """A rendered key as text. Equal values give equal text; values of different types do not."""
    return key if isinstance(key, str) else msgspec.json.encode(key, order="sorted").decode()


def _selection_event(step: Transition, boundary: Boundary, selection: Selection) -> NextSelected:
    mode: str = (step.router or Router()).mode._value_  # `value` is a Python property, which costs two calls per step
    ended, error = None, selection.error
    if error is not None:
        ended, error = "failed", _with_failure(error, boundary.error)
    elif not selection.fired:
        ended, error = _end_of_token(step, boundary)
    return NextSelected(event=boundary.name, mode=mode, arcs=selection.considered, ended=ended, error=error)


def _with_failure(error: Error, failure: Error | None) -> Error:
    """The error of a routing that failed. The failure of the step comes first: most often the guard reads a result that
    is missing because of it."""
    if failure is None:
        return error
    return msgspec.structs.replace(failure, message=f"{failure.message}; and so {error.message}")


def _end_of_token(step: Transition, boundary: Boundary) -> tuple[str, Error | None]:
    """How a token ends that no arc takes on. A failure fails the execution, unless the step is best-effort
    (ROUTE-08)."""
    if boundary.error is None:
        return "done", None
    return ("tolerated", None) if step.best_effort else ("failed", boundary.error)


# Events that authors name themselves, emitted at the end of a step (EVT-09). They are never boundary events.


def emit_events(
    plan: Plan, draft: Draft, execution: Execution, run: StepRun, step: Transition, ctx: dict[str, Any], at: float
) -> None:
    """Emit each event whose condition holds, in YAML order."""
    assert run.ended is not None
    scope = arc_scope(plan, execution, run, run.ended, ctx=ctx)
    for emit in step.emit:
        if emit.when is None or holds(emit.when, scope, now=at):
            data = render(emit.data, scope, now=at) if emit.data is not None else None
            draft.add(Emitted(emitted=emit.name, data=data), run=run)
