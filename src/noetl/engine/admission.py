"""Admission: whether a token may run its step (ADM-01 to ADM-07).

Decided by the server before anything is scheduled, so that a worker never sees a denied token.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.errors import TemplateError, ToolError
from noetl.base.ids import derived
from noetl.engine.concurrency_limits import PARK
from noetl.engine.decision import Decision, DispatchStep, Draft
from noetl.engine.execution import Execution, Token
from noetl.engine.handlers import handled_events
from noetl.engine.identity import SERVER, order_id_of, run_id_of
from noetl.engine.limits import held_by_rate, needed_slots, over_quota, rate_of, without_slot
from noetl.engine.loops.next_action import begin_loop
from noetl.engine.pipeline.preparation import split_args
from noetl.engine.plan import Plan
from noetl.engine.scopes import admission_names, admission_scope
from noetl.engine.waits.times import duration_s
from noetl.events.control import RateLimit, TokenHeld
from noetl.events.outcomes import Error
from noetl.events.steps import StepDenied, StepFailed, StepScheduled, StepStarted
from noetl.events.tokens import TokenClaimed, TokenDropped
from noetl.events.waits import MAX_NAME
from noetl.net.net import Transition
from noetl.net.routing import Admission, AdmitRule, Mode
from noetl.templates.render import holds, render
from noetl.templates.scope import Scope
from noetl.templates.values import Authored


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a token may run its step."""

    allowed: bool
    park: bool = False  # undecided: the token is held and judged again when `ctx` changes (O-03)
    rule: int | None = None  # the index of the rule that decided, None for the default
    meta: dict[str, Any] = {}  # metadata that the rules attach to the token


class Admitted(msgspec.Struct, frozen=True):
    """A token that may run, with the slots it takes and the rate it starts under."""

    step_run_id: str
    ruling: Ruling
    slots: tuple[str, ...]
    rate: RateLimit | None


def admit(plan: Plan, execution: Execution, token: Token, at: float) -> Decision:
    """Schedule the token's step, hold the token, or drop it: denied, failed, or over a budget (ROUTE-10)."""
    draft = Draft(execution, at, token.event_id)
    step_run_id = run_id_of(token.token_id)
    about: dict[str, Any] = {"step": token.step, "step_run_id": step_run_id}
    step = plan.step(token.step)
    # Before joins that failed: an arc may lead one back to itself, and such a round has no task that would end it.
    if execution.counts.step_runs >= plan.max_step_runs:
        message = (
            f"this execution has had {plan.max_step_runs} step runs, the limit that "
            "executor.spec.policy.limits.max_step_runs sets"
        )
        return _drop_token(draft, token, about, "budget", Error(kind="execution.budget", message=message))
    if token.failure is not None:
        return _failed_join(draft, token, token.failure, about)
    # Most steps have neither rules nor limits. For them, building the scope would be most of the cost of a step. An
    # operator's limit (`held.limits`) and a partition are known only at run time, so they are tested here.
    if plan.admits_plainly(token.step) and token.partition is None and token.step not in execution.held.limits:
        return _schedule_step(draft, _plainly_scheduled(plan, step, token, step_run_id), about, token.priority)
    return _admit_by_rules(plan, execution, draft, token, about, at)


def _admit_by_rules(
    plan: Plan, execution: Execution, draft: Draft, token: Token, about: dict[str, Any], at: float
) -> Decision:
    """`admit` for a step whose rules, quota, limits or rate may hold or drop the token."""
    step = plan.step(token.step)
    scope = admission_scope(plan, execution, token)
    try:
        ruling = rule_on(step.admission, scope, at)
        if ruling.park:
            return _parked(draft, execution, token, about)
        if not ruling.allowed:
            return denied(draft, token, ruling.rule)
        # Quotas before slots: a token that will be dropped must not queue for a slot first.
        if error := over_quota(execution, step):
            return _drop_token(draft, token, about, "quota", error)
        override = execution.held.limits.get(token.step)
        places = needed_slots(step, token, scope, at, override)
        if (decision := without_slot(draft, execution, token, places, about)) is not None:
            return decision
        rate = rate_of(step, token, scope, at, override)
        if (decision := held_by_rate(draft, execution, token, rate, about)) is not None:
            return decision
        admitted = Admitted(run_id_of(token.token_id), ruling, tuple([place.slot for place in places]), rate)
        scheduled = _schedule(plan, step, token, admitted, scope, at)
    except (TemplateError, ToolError) as problem:
        error = Error(kind=problem.kind, message=f'admission of step "{token.step}": {problem}')
        return _drop_token(draft, token, about, "failed", error)
    if step.loop is not None:
        looped = msgspec.structs.replace(scheduled, order_id=None, looped=True)
        names = admission_names(plan, execution, token)
        return begin_loop(plan, execution, draft, step, looped, names=names, about=about, at=at)
    return _schedule_step(draft, scheduled, about, token.priority)


def _schedule(plan: Plan, step: Transition, token: Token, admitted: Admitted, scope: Scope, at: float) -> StepScheduled:
    timeout_s, deadline_s = _limits(step, scope, at)
    return StepScheduled(
        token_id=token.token_id,
        order_id=None if plan.in_place(token.step) else order_id_of(admitted.step_run_id),
        task=step.tasks[0].name if step.tasks else None,
        args=_args(step, token, scope, at),
        token_meta=admitted.ruling.meta,
        timeout_s=timeout_s,
        deadline_s=deadline_s,
        boundary_s=duration_s("timeout.duration", step.timeout.duration, scope, at)
        if step.timeout is not None
        else None,
        joins=step.join is not None,
        handles=handled_events(step),
        keeps_tasks=plan.keeps_tasks(token.step),
        pool=pool_of(plan, step, scope, at),
        slots=admitted.slots,
        rate=admitted.rate,
    )


def _plainly_scheduled(plan: Plan, step: Transition, token: Token, step_run_id: str) -> StepScheduled:
    """The event for a step whose admission evaluates nothing (`Plan.admits_plainly`)."""
    return StepScheduled(
        token_id=token.token_id,
        order_id=None if plan.in_place(token.step) else order_id_of(step_run_id),
        task=step.tasks[0].name if step.tasks else None,
        args=token.args,
        joins=step.join is not None,
        handles=handled_events(step),
        keeps_tasks=plan.keeps_tasks(token.step),
    )


def denied(draft: Draft, token: Token, rule: int | None) -> Decision:
    about: dict[str, Any] = {"step": token.step, "step_run_id": run_id_of(token.token_id)}
    draft.add(StepDenied(token_id=token.token_id, rule=rule), **about)
    return _drop_token(draft, token, about, "denied", None)


def _parked(draft: Draft, execution: Execution, token: Token, about: dict[str, Any]) -> Decision:
    if token.held == PARK:
        return Decision()  # judged again, and still undecided
    # The id contains the position: a token may be parked several times, and ids are unique in an execution.
    event_id = derived(token.event_id, TokenHeld.event_type, execution.log.seq)
    draft.add(TokenHeld(token_id=token.token_id, reason=PARK), event_id=event_id, **about)
    return draft.decision()


def _failed_join(draft: Draft, token: Token, failure: Error, about: dict[str, Any]) -> Decision:
    """Fail the step run of a join that cannot fill. Its arcs may handle the failure (O-01)."""
    draft.add(StepScheduled(token_id=token.token_id, args=token.args, joins=True), **about)
    draft.add(TokenClaimed(token_id=token.token_id, worker_id=SERVER), **about)
    draft.add(StepStarted(worker_id=SERVER), **about)
    draft.add(StepFailed(error=failure), on_behalf=True, **about)
    return draft.decision()


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
    return Ruling(allowed=rule.allow and not rule.park, park=rule.park, rule=index, meta=_meta([rule], scope, now))


def _guarded_or_else(matching: list[tuple[int, AdmitRule]]) -> list[tuple[int, AdmitRule]]:
    """The matching rules. An `else` counts only where no rule with a guard matched."""
    return [(index, rule) for index, rule in matching if rule.when is not None] or matching


def _all_of(matching: list[tuple[int, AdmitRule]], scope: Scope, now: float) -> Ruling:
    """Inclusive mode: at least one rule must allow and none deny (ADM-07). If all that match park, the token parks."""
    denying = next((index for index, rule in matching if not rule.allow and not rule.park), None)
    if denying is not None or not matching:
        return Ruling(allowed=False, rule=denying)
    if all(rule.park for _, rule in matching):
        return Ruling(allowed=False, park=True, rule=matching[0][0])
    allowing = [(index, rule) for index, rule in matching if not rule.park]
    return Ruling(allowed=True, rule=allowing[0][0], meta=_meta([rule for _, rule in allowing], scope, now))


def _meta(rules: list[AdmitRule], scope: Scope, now: float) -> dict[str, Any]:
    meta: dict[str, Any] = {}
    for rule in rules:
        if rule.set_token is not None:
            meta.update(render(rule.set_token, scope, now=now))
    return meta


def _args(step: Transition, token: Token, scope: Scope, now: float) -> dict[str, Any]:
    """The step's default args with the token's args merged over them. Args that read an iteration are rendered later,
    in each iteration (design.md §5)."""
    if step.args is None:
        return token.args
    once, _ = split_args(step)
    return {**render(Authored(once), scope, now=now), **token.args}


def _drop_token(draft: Draft, token: Token, about: dict[str, Any], reason: str, error: Error | None) -> Decision:
    draft.add(TokenDropped(token_id=token.token_id, reason=reason, error=error), **about)
    return draft.decision()


def _limits(step: Transition, scope: Scope, now: float) -> tuple[float | None, float | None]:
    """`timeout_s` and `deadline_s` of the step run, rendered once and recorded (WRK-07)."""
    if step.lifecycle is None:
        return None, None

    def limit(name: str) -> float | None:
        written = getattr(step.lifecycle, name)
        return duration_s(name, written, scope, now) if written is not None else None

    return limit("timeout_s"), limit("deadline_s")


def _schedule_step(draft: Draft, scheduled: StepScheduled, about: dict[str, Any], priority: int) -> Decision:
    draft.add(scheduled, **about)
    if scheduled.order_id is not None:
        draft.add_effect(DispatchStep(scheduled.order_id, about["step_run_id"], priority, scheduled.pool))
    else:
        # No order: the server runs the step itself, so the token is claimed at once, by the server.
        draft.add(TokenClaimed(token_id=scheduled.token_id, worker_id=SERVER), **about)
        draft.add(StepStarted(worker_id=SERVER), **about)
    return draft.decision()


def pool_of(plan: Plan, step: Transition, scope: Scope, now: float) -> str | None:
    """The pool whose workers run the step: the step's own, else the playbook's, else None for the default (SRV-08)."""
    written = step.pool if step.pool is not None else plan.net.executor.pool
    if written is None:
        return None
    pool = render(written, scope, now=now)
    if not isinstance(pool, str) or not pool or len(pool) > MAX_NAME or "\0" in pool:
        raise TemplateError(f"pool: expected the name of a pool, found {pool!r}")
    return pool
