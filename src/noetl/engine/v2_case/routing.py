"""Routing of v2-case: transitions that rules decided, else the `next` shortcut (V2C-04, V2C-15, V2C-23 to V2C-25).

A worker reports which transition its rules took; the tokens are made here, and only here (C-19).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.engine.execution import StepRun
from noetl.engine.pipeline.patches import written
from noetl.engine.plan import Plan
from noetl.engine.token_creation import Fired
from noetl.engine.v2_case.parts import BrokenCase, has_rules
from noetl.engine.v2_case.rules import named
from noetl.engine.v2_case.transitions import NO_TARGET, taken_transitions, target_of
from noetl.events.cases import Chosen, OwnEvent, Taken
from noetl.net.case import Action, Case
from noetl.net.net import Transition
from noetl.net.routing import Arc, Router
from noetl.templates.render import holds, render
from noetl.templates.scope import Scope

__all__ = ["BrokenCase", "after_loop", "decided_by_rules", "sets_own_vars", "shortcut"]

_DONE = OwnEvent(name="loop.done")


def sets_own_vars(step: Transition) -> bool:
    """Whether `vars` were written before the end: rules on `step.exit` read them (O-29). Those of a loop are of its
    whole result, so they wait for it."""
    return has_rules(step) and step.loop is None


def decided_by_rules(plan: Plan, run: StepRun) -> tuple[Fired, ...]:
    """The tokens of the transitions that rules took; those of several iterations once each, in their order (V2C-23)."""
    once: dict[tuple[int, int, str], Taken] = {}
    for one in run.case.taken:
        # Iterations that take the same transition make one token together, not one each.
        once.setdefault((one.rule, one.action, one.step), one)
    for one in once.values():
        # Checked here although the worker rendered it: tokens are made by the server alone, and a report may name
        # anything.
        if not plan.has_step(one.step):
            raise ToolError(NO_TARGET, f'the target is "{one.step}", which is not a step of this playbook')
    rules = case.rules if (case := plan.step(run.step).case) is not None else ()
    return tuple(
        Fired(
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
) -> tuple[dict[str, Any], tuple[Fired, ...]]:
    """What the rules on `loop.done` set and where they lead, once, when all iterations have ended. The other rules were
    judged in each of them. BrokenCase where one cannot be rendered."""
    case = plan.step(run.step).case
    if case is None or run.ended is None or run.ended.loop is None or run.ended.error is not None:
        return {}, ()
    patch: dict[str, Any] = {}
    for index in _matching(case, scope_with(ctx), now):
        for at, action in enumerate(case.rules[index].actions):
            scope = scope_with(written(ctx, patch))
            if action.set_ctx is not None:
                patch = {**patch, **render(action.set_ctx, scope, now=now, keys=True)}
            elif action.transition and (action.guard is None or holds(action.guard, scope, now=now)):
                return patch, _led_on(plan, action, Chosen(rule=index, action=at, event=_DONE), scope, now)
    return patch, ()


def _matching(case: Case, scope: Scope, now: float) -> list[int]:
    found = []
    for index, rule in enumerate(case.rules):
        if rule.when is not None and _DONE.name in named(rule) and holds(rule.when, scope, now=now, strict=rule.strict):
            found.append(index)
    return found if case.inclusive else found[:1]


def _led_on(plan: Plan, action: Action, chosen: Chosen, scope: Scope, now: float) -> tuple[Fired, ...]:
    steps = frozenset(step.name for step in plan.net.transitions)
    ways = taken_transitions(action, chosen, scope, steps=steps, now=now)
    return tuple(
        Fired(arc=at, target=one.step, args=one.args, delay_s=one.delay_s, compensates=action.trigger_compensation)
        for at, one in enumerate(ways)
    )


def shortcut(plan: Plan, step: Transition, scope: Scope, now: float) -> Router:
    """The step's own `next`: computed targets rendered; a failure takes it only with `on_error: continue`."""
    router = step.router or Router()
    if any(arc.computed is not None for arc in router.arcs):
        router = msgspec.structs.replace(router, arcs=tuple(_resolved(plan, arc, scope, now) for arc in router.arcs))
    if step.on_error_continue:
        router = msgspec.structs.replace(router, unguarded_always=True)
    return router


def _resolved(plan: Plan, arc: Arc, scope: Scope, now: float) -> Arc:
    if arc.computed is None:
        return arc
    target = target_of(arc, scope, plan.has_step, now)
    return msgspec.structs.replace(arc, target=target, computed=None, candidates=())
