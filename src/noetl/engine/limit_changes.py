"""Changes of limits: an operator lets more or fewer runs of a step go on, or begin, in a running execution (beyond.md
§5).

What was set stands in the log and holds for this execution alone. Whoever waits is judged again at once: under a raised
limit as many are called up as there is room for; under another rate everybody who waits is given a new moment. Nothing
that runs is stopped.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import Any

import msgspec

from noetl.base.errors import TemplateError, ToolError
from noetl.base.ids import derived
from noetl.engine.commands import ChangeLimit
from noetl.engine.concurrency_limits import LIMIT, RATE
from noetl.engine.decision import Decision, Draft, Refusal
from noetl.engine.execution import Execution, Token
from noetl.engine.held_tokens import StepLimits
from noetl.engine.identity import run_id_of
from noetl.engine.limits import pace_all, places_of
from noetl.engine.plan import Plan
from noetl.engine.scopes import admission_scope
from noetl.events.control import LimitChanged
from noetl.events.orders import ReportResult
from noetl.events.waits import TokenReleased


def change_limit(plan: Plan, execution: Execution, command: ChangeLimit) -> Decision:
    """Record the change, and let those go on who may."""
    if not execution.is_open:
        return Decision(verdict=ReportResult.TERMINAL, detail="this execution is over")
    if not plan.has_step(command.step):
        return Decision(verdict=ReportResult.NOT_FOUND, detail=f'its playbook has no step "{command.step}"')
    before = execution.held.limits.get(command.step) or StepLimits()
    after = StepLimits(
        limit=before.limit if command.limit is msgspec.UNSET else command.limit,
        rate=before.rate if command.rate is msgspec.UNSET else command.rate,
    )
    if problems := tuple(_problems(after)):
        return Decision(verdict=ReportResult.INVALID, problems=problems)
    if after == before:
        return Decision(verdict=ReportResult.DUPLICATE)
    draft = Draft(execution, command.at, derived("limit", execution.execution_id, execution.seq))
    begun = _begun(execution, command.step, command.at) if after.rate != before.rate else {}
    changed = LimitChanged(limit=after.limit, rate=after.rate, actor=command.actor, reason=command.reason, begun=begun)
    draft.add(changed, step=command.step, parent_id=execution.last_event_id)
    if after.limit != before.limit:
        _call_up(draft, plan, execution, command.step, after)
    for name, moments in begun.items():
        pace_all(draft, plan, execution, name, list(moments), {**execution.held.limits, command.step: after})
    return draft.decision()


def _problems(wanted: StepLimits) -> list[Refusal]:
    found = []
    if wanted.limit is not None and wanted.limit < 1:
        found.append(Refusal(field="limit", found=str(wanted.limit), allowed="a whole number from 1 on"))
    if wanted.rate is not None and wanted.rate.limit < 1:
        found.append(Refusal(field="rate.limit", found=str(wanted.rate.limit), allowed="a whole number from 1 on"))
    if wanted.rate is not None and not 0 < wanted.rate.per_s < float("inf"):
        found.append(Refusal(field="rate.per", found=f"{wanted.rate.per_s:g} s", allowed="a time longer than nothing"))
    return found


def _call_up(draft: Draft, plan: Plan, execution: Execution, step: str, wanted: StepLimits) -> None:
    """As many of each slot as there is room for now, those that wait longest first."""
    waiting = [one for one in execution.tokens.values() if one.step == step and one.held == LIMIT and one.slot]
    firsts = {one.slot: one for one in reversed(waiting) if one.slot is not None}
    for name, first in firsts.items():
        slot = execution.held.slots[name]
        room = _room(plan, execution, first, name, wanted, draft.at)
        free = None if room is None else max(0, room - len(slot.held) - len(slot.called))
        for token_id in islice(chain(slot.front, slot.queue), free):
            token = execution.tokens[token_id]
            draft.add(TokenReleased(token_id=token_id), event_id=_id(execution, token), **_token_fields(token))


def _room(plan: Plan, execution: Execution, token: Token, slot: str, wanted: StepLimits, at: float) -> int | None:
    """How many places the slot has for this token; None when it needs none there, or it cannot be told: then its
    admission says why."""
    try:
        scope = admission_scope(plan, execution, token)
        places = places_of(plan.step(token.step), token, scope, at, wanted)
    except (TemplateError, ToolError):
        return None
    return next((place.limit for place in places if place.slot == slot), None)


def _begun(execution: Execution, step: str, at: float) -> dict[str, tuple[float, ...]]:
    """Of the rates under which tokens of the step wait: the moments that have been used and still count."""
    names = {one.pace for one in execution.tokens.values() if one.step == step and one.held == RATE and one.pace}
    found: dict[str, tuple[float, ...]] = {}
    for name in sorted(names):
        given = execution.held.paces.get(name)
        if given is not None:
            found[name] = tuple(one for one in given.begun if at < one + given.counted_s)
    return found


def _id(execution: Execution, token: Token) -> str:
    return derived(token.event_id, TokenReleased.event_type, execution.seq)


def _token_fields(token: Token) -> dict[str, Any]:
    return {"step": token.step, "step_run_id": run_id_of(token.token_id)}
