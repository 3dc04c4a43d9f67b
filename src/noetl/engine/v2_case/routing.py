"""Routing of v2-case: transitions that rules decided, else the `next` shortcut (V2C-04, V2C-15, V2C-23 to V2C-25). Also
the targets and args of transitions, rendered when they are taken.

A worker reports which transition its rules took; the tokens are made here, and only here (C-19).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from noetl.base.durations import seconds
from noetl.base.errors import TemplateError, ToolError
from noetl.engine.execution import StepRun
from noetl.engine.pipeline.patches import patched
from noetl.engine.plan import Plan
from noetl.engine.token_creation import FiredArc
from noetl.engine.v2_case.parts import BrokenCase, has_rules
from noetl.engine.v2_case.rules import event_names_in
from noetl.events.v2_case_positions import Chosen, OwnEvent, Taken
from noetl.net.net import Transition
from noetl.net.routing import Action, Arc, Case, Router
from noetl.templates.render import holds, render
from noetl.templates.scope import Scope
from noetl.templates.values import Authored

__all__ = ["BrokenCase", "after_loop", "decided_by_rules", "sets_own_vars", "shortcut"]
_DONE = OwnEvent(name="loop.done")
NO_TARGET = "route.target"


def sets_own_vars(step: Transition) -> bool:
    """Whether `vars` were written before the end: rules on `step.exit` read them (O-29). Those of a loop are of its
    whole result, so they wait for it."""
    return has_rules(step) and step.loop is None


def decided_by_rules(plan: Plan, run: StepRun) -> tuple[FiredArc, ...]:
    """The tokens of the transitions that rules took; those of several iterations once each, in their order (V2C-23)."""
    once: dict[tuple[int, int, str], Taken] = {}
    for one in run.dialect.taken:
        # Iterations that take the same transition make one token together, not one each.
        once.setdefault((one.rule, one.action, one.step), one)
    for one in once.values():
        # Checked here although the worker rendered it: tokens are made by the server alone, and a report may name
        # anything.
        if not plan.has_step(one.step):
            raise ToolError(NO_TARGET, f'the target is "{one.step}", which is not a step of this playbook')
    rules = case.rules if (case := plan.step(run.step).case) is not None else ()
    return tuple(
        FiredArc(
            arc=at,
            target=one.step,
            args=one.args,
            delay_s=one.delay_s,
            compensates=rules[one.rule].actions[one.action].trigger_compensation,
        )
        for at, one in enumerate(once.values())
    )


def after_loop(
    plan: Plan, run: StepRun, ctx: dict[str, Any], scope_with: Callable[[dict[str, Any]], Scope], now: float
) -> tuple[dict[str, Any], tuple[FiredArc, ...]]:
    """The values set and the steps reached by the rules on `loop.done`, once, when all iterations have ended. The
    other rules were evaluated in each iteration. BrokenCase where one cannot be rendered."""
    case = plan.step(run.step).case
    if case is None or run.ended is None or run.ended.loop is None or run.ended.error is not None:
        return {}, ()
    patch: dict[str, Any] = {}
    for index in _matching(case, scope_with(ctx), now):
        for at, action in enumerate(case.rules[index].actions):
            scope = scope_with(patched(ctx, patch))
            if action.set_ctx is not None:
                patch = {**patch, **render(action.set_ctx, scope, now=now, keys=True)}
            elif action.transition and (action.guard is None or holds(action.guard, scope, now=now)):
                return patch, _led_on(plan, action, Chosen(rule=index, action=at, event=_DONE), scope, now)
    return patch, ()


def _matching(case: Case, scope: Scope, now: float) -> list[int]:
    found = []
    for index, rule in enumerate(case.rules):
        if (
            rule.when is not None
            and _DONE.name in event_names_in(rule)
            and holds(rule.when, scope, now=now, strict=rule.strict)
        ):
            found.append(index)
    return found if case.inclusive else found[:1]


def _led_on(plan: Plan, action: Action, chosen: Chosen, scope: Scope, now: float) -> tuple[FiredArc, ...]:
    steps = frozenset(step.name for step in plan.net.transitions)
    ways = taken_transitions(action, chosen, scope, steps=steps, now=now)
    return tuple(
        FiredArc(arc=at, target=one.step, args=one.args, delay_s=one.delay_s, compensates=action.trigger_compensation)
        for at, one in enumerate(ways)
    )


def shortcut(plan: Plan, step: Transition, scope: Scope, now: float) -> Router:
    """The step's own `next`: computed targets rendered; a failure takes it only with `on_error: continue`."""
    router = step.router or Router()
    if any(arc.computed is not None for arc in router.arcs):
        router = msgspec.structs.replace(
            router, arcs=tuple(_resolved_arc(plan, arc, scope, now) for arc in router.arcs)
        )
    if step.on_error_continue:
        router = msgspec.structs.replace(router, unguarded_always=True)
    return router


def _resolved_arc(plan: Plan, arc: Arc, scope: Scope, now: float) -> Arc:
    if arc.computed is None:
        return arc
    target = target_of(arc, scope, plan.has_step, now)
    return msgspec.structs.replace(arc, target=target, computed=None, candidates=())


# Transitions of case rules: their targets and args, rendered once, when they are taken (V2C-12, V2C-25, V2C-26).


def taken_transitions(
    action: Action, chosen: Chosen, scope: Scope, *, steps: frozenset[str], now: float
) -> tuple[Taken, ...]:
    """Where the transition leads. Several targets fork (C-09)."""
    where = f"next of case rule {chosen.rule}"
    try:
        return tuple(
            Taken(
                rule=chosen.rule,
                action=chosen.action,
                step=target_of(arc, scope, steps.__contains__, now),
                args=_args(arc, scope, now),
                delay_s=_delay(arc.delay or action.delay, scope, now),
            )
            for arc in action.transition
        )
    except (TemplateError, ToolError) as problem:
        raise BrokenCase(where, problem) from None


def target_of(arc: Arc, scope: Scope, is_step: Callable[[str], bool], now: float) -> str:
    """The step an arc leads to. ToolError when a computed one is none (V2C-25)."""
    if arc.computed is None:
        return arc.target
    target = render(arc.computed, scope, now=now)
    if not isinstance(target, str) or not is_step(target):
        shown = f'"{target}"' if isinstance(target, str) else "no name"
        raise ToolError(NO_TARGET, f"the target is {shown}, which is not a step of this playbook")
    return target


def _delay(written: Authored | None, scope: Scope, now: float) -> float:
    """How long the token is held back (V2C-12)."""
    if written is None:
        return 0.0
    try:
        return seconds(render(written, scope, now=now))
    except ValueError as problem:
        raise TemplateError(f"delay: {problem}") from None


def _args(arc: Arc, scope: Scope, now: float) -> dict[str, Any]:
    args = render(arc.args, scope, now=now) if arc.args is not None else None
    if args is not None and not isinstance(args, dict):
        raise TemplateError(f"args must be a mapping, this gave {type(args).__name__}")
    return args or {}
