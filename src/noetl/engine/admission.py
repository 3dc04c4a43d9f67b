"""Admission: whether a token may run its step (ADM-01 to ADM-07).

Decided by the server before anything is scheduled, so that a worker never sees a denied token.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.durations import seconds
from noetl.engine.decision import Decision, DispatchStep, Draft
from noetl.engine.execution import Execution, Token
from noetl.engine.identity import order_id_of, run_id_of
from noetl.engine.plan import Plan
from noetl.engine.scopes import admission_scope
from noetl.errors import TemplateError, ToolError
from noetl.net.net import Transition
from noetl.net.routing import Admission, AdmitRule, Mode
from noetl.records.events import StepDenied, StepScheduled, StepStarted, TokenClaimed, TokenDropped
from noetl.records.outcomes import Error
from noetl.templates.render import holds, render
from noetl.templates.scope import Scope

SERVER = "server"  # the worker id of what is decided in place


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """`rule` is the index of the rule that decided, None for the default."""

    allowed: bool
    rule: int | None = None
    meta: dict[str, Any] = {}


def admit(plan: Plan, execution: Execution, token: Token, at: float) -> Decision:
    """Schedule the token's step, or drop the token: denied, broken, or past the budget (ROUTE-10)."""
    draft = Draft(execution, at, token.event_id)
    about: dict[str, Any] = {"step": token.step, "step_run_id": run_id_of(token.token_id)}
    step = plan.step(token.step)
    if execution.step_runs >= plan.max_step_runs:
        message = f"this execution has had {plan.max_step_runs} step runs, which is its limit"
        return _dropped(draft, token, about, "budget", Error(kind="execution.budget", message=message))
    scope = admission_scope(plan, execution, token)
    try:
        ruling = rule_on(step.admission, scope, at)
        if not ruling.allowed:
            draft.add(StepDenied(token_id=token.token_id, rule=ruling.rule), **about)
            return _dropped(draft, token, about, "denied", None)
        args = _args(step, token, scope, at)
        limits = _limits(step, scope, at)
    except (TemplateError, ToolError) as problem:
        error = Error(kind=problem.kind, message=f'admission of step "{token.step}": {problem}')
        return _dropped(draft, token, about, "failed", error)
    tasks = step.tasks
    scheduled = StepScheduled(
        token_id=token.token_id,
        order_id=None if plan.in_place(token.step) else order_id_of(about["step_run_id"]),
        task=tasks[0].name if tasks else None,
        args=args,
        token_meta=ruling.meta,
        **limits,
    )
    return _scheduled(draft, scheduled, about)


def rule_on(admission: Admission | None, scope: Scope, now: float) -> Ruling:
    """No admission: allow. Rules of which none matches: deny (ADM-04)."""
    if admission is None:
        return Ruling(allowed=True)
    matching = (
        (index, rule)
        for index, rule in enumerate(admission.rules)
        if rule.when is None or holds(rule.when, scope, now=now)
    )
    if admission.mode is Mode.INCLUSIVE:
        return _all_of(_guarded_or_else(list(matching)), scope, now)
    index, rule = next(matching, (None, None))
    if rule is None:
        return Ruling(allowed=False)
    return Ruling(allowed=rule.allow, rule=index, meta=_meta([rule], scope, now))


def _guarded_or_else(matching: list[tuple[int, AdmitRule]]) -> list[tuple[int, AdmitRule]]:
    """`else` speaks only where no rule with a guard matched."""
    return [(index, rule) for index, rule in matching if rule.when is not None] or matching


def _all_of(matching: list[tuple[int, AdmitRule]], scope: Scope, now: float) -> Ruling:
    """Inclusive: one must allow and none deny (ADM-07)."""
    denying = next((index for index, rule in matching if not rule.allow), None)
    if denying is not None or not matching:
        return Ruling(allowed=False, rule=denying)
    return Ruling(allowed=True, rule=matching[0][0], meta=_meta([rule for _, rule in matching], scope, now))


def _meta(rules: list[AdmitRule], scope: Scope, now: float) -> dict[str, Any]:
    meta: dict[str, Any] = {}
    for rule in rules:
        if rule.set_token is not None:
            meta.update(render(rule.set_token, scope, now=now))
    return meta


def _args(step: Transition, token: Token, scope: Scope, now: float) -> dict[str, Any]:
    """The token's args over the step's own defaults (DESIGN §5)."""
    if step.args is None:
        return token.args
    return {**render(step.args, scope, now=now), **token.args}


def _dropped(draft: Draft, token: Token, about: dict[str, Any], reason: str, error: Error | None) -> Decision:
    draft.add(TokenDropped(token_id=token.token_id, reason=reason, error=error), **about)
    return draft.decision()


def _limits(step: Transition, scope: Scope, now: float) -> dict[str, float]:
    """How long the step run may take, rendered once and recorded (WRK-07)."""
    limits = {}
    for name in ("timeout_s", "deadline_s"):
        written = getattr(step.lifecycle, name) if step.lifecycle else None
        if written is not None:
            try:
                limits[name] = seconds(render(written, scope, now=now))
            except ValueError as problem:
                raise TemplateError(f"{name}: {problem}") from None
    return limits


def _scheduled(draft: Draft, scheduled: StepScheduled, about: dict[str, Any]) -> Decision:
    draft.add(scheduled, **about)
    if scheduled.order_id is not None:
        draft.owe(DispatchStep(scheduled.order_id, about["step_run_id"]))
    else:
        draft.add(TokenClaimed(token_id=scheduled.token_id, worker_id=SERVER), **about)
        draft.add(StepStarted(worker_id=SERVER), **about)
    return draft.decision()
