"""Gives tokens that wait under a rate limit new start times, in the order in which they wait.

Needed when the rate was changed, and when time was lost: start times pass also while an execution is paused or no
server runs. Tokens whose time came meanwhile must not all begin at once, or the rate would be broken.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.base.errors import TemplateError, ToolError
from noetl.base.ids import derived
from noetl.engine.concurrency_limits import RATE
from noetl.engine.decision import Draft
from noetl.engine.due_times import DueTime
from noetl.engine.execution import Execution, Token
from noetl.engine.held_tokens import Pace, StepLimits
from noetl.engine.identity import run_id_of
from noetl.engine.plan import Plan
from noetl.engine.rates import moment_after, rate_under
from noetl.engine.scopes import admission_scope
from noetl.events.control import RateLimit, TokenHeld

_LATE_S = 0.25  # so late is time itself now and then; to give all who wait new moments each time would cost too much


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
