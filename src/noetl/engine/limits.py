"""Limits: how many runs of a step may go on at once, and how many there may be (ADV-05, ADV-07, beyond.md §1).

A limit is a slot with so many places. A slot belongs to its step, or, where the limit has a key, to all steps of the
execution with that key: a critical section. Whoever finds no place waits, in the order they came, unless the author
said otherwise. All of it within one execution.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.errors import TemplateError
from noetl.base.ids import derived
from noetl.engine.concurrency_limits import LIMIT
from noetl.engine.decision import Decision, Draft
from noetl.engine.execution import Execution, Token
from noetl.engine.held_tokens import Slot, StepLimits
from noetl.engine.withdrawal import withdraw
from noetl.events.control import TokenHeld
from noetl.events.outcomes import Error
from noetl.events.tokens import TokenDropped
from noetl.net.net import Transition
from noetl.templates.render import render
from noetl.templates.scope import Scope


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
