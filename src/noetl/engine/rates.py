"""Rates: how many runs of a step may begin in a stretch of time, within one execution (`spec.rate`, beyond.md §1).

Exact over every stretch, not over fixed windows. Whoever comes when none is left is given the next free moment for
itself and held until then, so that nobody is judged twice and all go on in the order they came. A key is shared by all
steps that have it, as that of a concurrency is.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.errors import TemplateError
from noetl.base.ids import derived
from noetl.engine.concurrency_limits import RATE
from noetl.engine.decision import Decision, Draft
from noetl.engine.execution import Execution, Token
from noetl.engine.held_tokens import Pace, StepLimits
from noetl.engine.limits import limit_value
from noetl.engine.waits.times import length
from noetl.events.control import RateLimit, TokenHeld
from noetl.net.net import Rate, Transition
from noetl.templates.render import render
from noetl.templates.scope import Scope


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
