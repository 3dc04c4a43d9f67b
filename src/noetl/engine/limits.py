"""Limits: how many runs of a step may go on at once, and how many there may be (ADV-05, ADV-07, beyond.md §1). Also
rates: how many may begin in a stretch of time.

A limit is a slot with so many places. A slot belongs to its step, or, where the limit has a key, to all steps of the
execution with that key: a critical section. Whoever finds no place waits, in the order they came, unless the author
said otherwise. All of it within one execution.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.base.errors import TemplateError, ToolError
from noetl.base.ids import derived
from noetl.engine.concurrency_limits import LIMIT, RATE
from noetl.engine.decision import Decision, Draft
from noetl.engine.due_times import DueTime
from noetl.engine.execution import Execution, Token
from noetl.engine.held_tokens import Pace, Slot, StepLimits
from noetl.engine.identity import run_id_of
from noetl.engine.plan import Plan
from noetl.engine.scopes import admission_scope
from noetl.engine.waits.times import length
from noetl.engine.withdrawal import withdraw
from noetl.events.control import RateLimit, TokenHeld
from noetl.events.outcomes import Error
from noetl.events.tokens import TokenDropped
from noetl.net.net import Rate, Transition
from noetl.templates.render import render
from noetl.templates.scope import Scope

_LATE_S = 0.25  # so late is time itself now and then; to give all who wait new moments each time would cost too much


class LimitSlot(msgspec.Struct, frozen=True):
    """One place that a run needs. `on_limit`: queue | drop | cancel_oldest."""

    slot: str
    limit: int
    on_limit: str = "queue"


def places_of(
    step: Transition, token: Token, scope: Scope, now: float, wanted: StepLimits | None = None
) -> tuple[LimitSlot, ...]:
    """What a run of `step` needs before it may begin. `wanted` is what an operator has set: it stands for the limit of
    the step's concurrency, else for that of its quota; a step with neither is given one."""
    if token.partition is None and step.concurrency is None and not step.quotas and wanted is None:
        return ()
    own = wanted.limit if wanted is not None else None
    places = []
    if token.partition is not None:
        places.append(LimitSlot(f"partition/{step.name}/{token.partition}", 1))
    if (most := step.quotas.get("max_concurrent")) is not None:
        most = own if own is not None and step.concurrency is None else most
        places.append(LimitSlot(f"quota/{step.name}", limit_value("quotas.max_concurrent", most)))
    elif own is not None and step.concurrency is None:
        places.append(LimitSlot(f"concurrency/{step.name}", own))
    if (limited := step.concurrency) is not None:
        key = render(limited.key, scope, now=now) if limited.key is not None else None
        limit = own or limit_value("concurrency.limit", render(limited.limit, scope, now=now))
        name = f"concurrency/{step.name}" if key is None else f"key/{msgspec.json.encode(key).decode()}"
        places.append(LimitSlot(name, limit, limited.on_limit))
    return tuple(places)


def limit_value(what: str, value: Any) -> int:
    """A limit as a number; TemplateError for what is none."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if number < 1:
        raise TemplateError(f"{what} must be a whole number from 1 on, this gave {value!r}")
    return number


def over_quota(execution: Execution, step: Transition) -> Error | None:
    """Why this step may not run again, if it may not."""
    most = step.quotas.get("max_runs")
    if most is None or execution.runs_by_step.get(step.name, 0) < limit_value("quotas.max_runs", most):
        return None
    return Error(kind="execution.budget", message=f'step "{step.name}" has had {most} runs, which is its quota')


def turned_away(
    draft: Draft, execution: Execution, token: Token, places: tuple[LimitSlot, ...], about: dict[str, Any]
) -> Decision | None:
    """What becomes of a token that finds no place; None when it has them all."""
    for place in places:
        slot = execution.held.slots.get(place.slot) or Slot()
        if slot.has_room(token.token_id, place.limit):
            continue
        match place.on_limit:
            case "drop":
                draft.add(TokenDropped(token_id=token.token_id, reason="limit"), **about)
            case "cancel_oldest" if slot.held:
                withdraw(draft, execution, [execution.tokens[next(iter(slot.held))]])
                continue
            case _:
                event_id = derived(token.event_id, TokenHeld.event_type, execution.seq)  # it may be held again
                held = TokenHeld(token_id=token.token_id, reason=LIMIT, slot=place.slot)
                draft.add(held, event_id=event_id, **about)
        return draft.decision()
    return None


# Rates: how many runs of a step may begin in a stretch of time, within one execution (`spec.rate`, beyond.md §1).
#
# Exact over every stretch, not over fixed windows. Whoever comes when none is left is given the next free moment for
# itself and held until then, so that nobody is judged twice and all go on in the order they came. A key is shared by
# all steps that have it, as that of a concurrency is.


def rate_of(
    step: Transition, token: Token, scope: Scope, now: float, wanted: StepLimits | None = None
) -> RateLimit | None:
    """The limit a run of `step` begins under; none once its token has been given a moment. `wanted` is what an operator
    has set."""
    return None if token.pace is not None else rate_under(step, scope, now, wanted)


def rate_under(step: Transition, scope: Scope, now: float, wanted: StepLimits | None) -> RateLimit | None:
    """The limit a run of `step` would begin under, had it no moment yet."""
    rate, own = step.rate, wanted.rate if wanted is not None else None
    if rate is None and own is None:
        return None
    key = render(rate.key, scope, now=now) if rate is not None and rate.key is not None else None
    # Two name spaces, so that a key that is called like a step is not that step's own rate.
    name = f"step/{step.name}" if key is None else f"key/{msgspec.json.encode(key).decode()}"
    if own is not None:
        return RateLimit(name=name, limit=own.limit, per_s=own.per_s, counted_s=_written_s(rate, scope, now))
    assert rate is not None
    per_s = length("rate.per", rate.per, scope, now)
    if per_s <= 0:
        raise TemplateError("rate.per must be longer than nothing")
    return RateLimit(name=name, limit=limit_value("rate.limit", render(rate.limit, scope, now=now)), per_s=per_s)


def _written_s(rate: Rate | None, scope: Scope, now: float) -> float:
    """The stretch of the playbook's own rate, which does not hold now; 0 where it has none that could."""
    try:
        return max(0.0, length("rate.per", rate.per, scope, now)) if rate is not None else 0.0
    except TemplateError:
        return 0.0


def moment_after(given: Pace | None, rate: RateLimit, now: float) -> float:
    """The next free moment, when these have been given away."""
    last = given.last(rate.limit) if given is not None else None
    return now if last is None else max(now, last + rate.per_s)


def slowed_down(
    draft: Draft, execution: Execution, token: Token, rate: RateLimit | None, about: dict[str, Any]
) -> Decision | None:
    """The token held until its moment; None when it may go on now."""
    if rate is None:
        return None
    moment = moment_after(execution.held.paces.get(rate.name), rate, draft.at)
    if moment <= draft.at:
        return None
    event_id = derived(token.event_id, TokenHeld.event_type, execution.seq)
    held = TokenHeld(token_id=token.token_id, reason=RATE, until=moment, rate=rate)
    draft.add(held, event_id=event_id, **about)
    return draft.decision()


# Gives tokens that wait under a rate limit new start times, in the order in which they wait.
#
# Needed when the rate was changed, and when time was lost: start times pass also while an execution is paused or no
# server runs. Tokens whose time came meanwhile must not all begin at once, or the rate would be broken.


def paced_anew(plan: Plan, execution: Execution, token: Token, at: float) -> Draft | None:
    """New moments for all who wait under the rate of `token`, which is among them; None when it may begin now."""
    rate = _rate(plan, execution, token, execution.held.limits, at)
    given = execution.held.paces.get(token.pace or "")
    if rate is None or given is None:
        return None
    # By what has begun alone: the moments ahead were computed before time was lost, and are what is to be corrected.
    early_s = moment_after(Pace(begun=given.begun), rate, at) - at
    if early_s <= min(rate.per_s / 2, max(_LATE_S, rate.per_s / 10)):
        return None
    draft = Draft(execution, at, derived(token.event_id, "paced", execution.seq))
    pace_all(draft, plan, execution, token.pace or "", given.begun, execution.held.limits)
    return draft


def pace_all(
    draft: Draft,
    plan: Plan,
    execution: Execution,
    name: str,
    begun: list[float],
    limits: Mapping[str, StepLimits],
) -> None:
    """New moments for all who wait under a rate, after those that have `begun`. Those whose moment is now are let go by
    time itself, as always."""
    given = Pace(begun=begun)
    for _, token in waiting(execution, name):
        rate = _rate(plan, execution, token, limits, draft.at)
        moment = draft.at if rate is None else moment_after(given, rate, draft.at)
        if rate is not None:
            rate = msgspec.structs.replace(rate, name=name)
            given.give(moment)
        held = TokenHeld(token_id=token.token_id, reason=RATE, until=moment, rate=rate)
        event_id = derived(token.event_id, TokenHeld.event_type, execution.seq)
        draft.add(held, event_id=event_id, step=token.step, step_run_id=run_id_of(token.token_id))


def waiting(execution: Execution, name: str) -> list[tuple[float, Token]]:
    """Who waits under a rate, and until when, the first one first."""
    found = [
        (*execution.open_waits.due_times.due[DueTime.RELEASE, one.token_id], one)
        for one in execution.tokens.values()
        if one.held == RATE and one.pace == name
    ]
    return [(moment, token) for moment, _, token in sorted(found, key=lambda one: one[:2])]


def _rate(
    plan: Plan, execution: Execution, token: Token, limits: Mapping[str, StepLimits], at: float
) -> RateLimit | None:
    """None where there is none any more, or it cannot be told: then its admission says why."""
    try:
        scope = admission_scope(plan, execution, token)
        return rate_under(plan.step(token.step), scope, at, limits.get(token.step))
    except (TemplateError, ToolError):
        return None
