"""Rates: how many runs of a step may begin in a stretch of time, within one execution (`spec.rate`, BEYOND §1).

Exact over every stretch, not over fixed windows. Whoever comes when none is left is given the next free moment for
itself and held until then, so that nobody is judged twice and all go on in the order they came. A key is shared by all
steps that have it, as that of a concurrency is.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.engine.decision import Decision, Draft
from noetl.engine.execution import Execution, Token
from noetl.engine.holding import RATE
from noetl.engine.limits import whole
from noetl.engine.waits.times import length
from noetl.errors import TemplateError
from noetl.ids import derived
from noetl.net.net import Transition
from noetl.records.control import RateLimit, TokenHeld
from noetl.templates.render import render
from noetl.templates.scope import Scope


def rate_of(step: Transition, token: Token, scope: Scope, now: float) -> RateLimit | None:
    """The limit a run of `step` begins under; none once its token has been given a moment."""
    rate = step.rate
    if rate is None or token.paced:
        return None
    per_s = length("rate.per", rate.per, scope, now)
    if per_s <= 0:
        raise TemplateError("rate.per must be longer than nothing")
    key = render(rate.key, scope, now=now) if rate.key is not None else None
    name = f"step/{step.name}" if key is None else f"key/{msgspec.json.encode(key).decode()}"
    return RateLimit(name=name, limit=whole("rate.limit", render(rate.limit, scope, now=now)), per_s=per_s)


def slowed_down(
    draft: Draft, execution: Execution, token: Token, rate: RateLimit | None, about: dict[str, Any]
) -> Decision | None:
    """The token held until its moment; None when it may go on now."""
    if rate is None:
        return None
    given = execution.paces.get(rate.name)
    if given is None or len(given.moments) < rate.limit:
        return None
    moment = given.moments[-rate.limit] + rate.per_s
    if moment <= draft.at:
        return None
    event_id = derived(token.event_id, TokenHeld.event_type, execution.seq)
    held = TokenHeld(token_id=token.token_id, reason=RATE, until=moment, rate=rate)
    draft.add(held, event_id=event_id, **about)
    return draft.decision()
