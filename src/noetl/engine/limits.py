"""Limits of a step within one execution: concurrency, quotas and rates (ADV-05, ADV-07, beyond.md §1).

A concurrency limit is a slot with a number of places. A slot belongs to its step. If the limit has a key, it belongs to
all steps of the execution with that key, as a critical section. A token without a place waits in the order of arrival,
unless `on_limit` says otherwise. A rate limits how many runs may start within a period.

An operator may change the limits of a running execution (beyond.md §5). The change is an event and holds for this
execution only. Waiting tokens are judged again at once: a raised limit releases as many as there is room for, and a new
rate gives every waiting token a new start time. Running work is not stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, islice
from typing import Any

import msgspec

from noetl.base.errors import TemplateError, ToolError
from noetl.base.ids import derived
from noetl.engine.commands import ChangeLimit
from noetl.engine.concurrency_limits import LIMIT, RATE
from noetl.engine.decision import Decision, Draft, Refusal
from noetl.engine.execution import DueTime, Execution, Token
from noetl.engine.held_tokens import Pace, Slot, StepLimits
from noetl.engine.identity import run_id_of
from noetl.engine.plan import Plan
from noetl.engine.scopes import admission_scope
from noetl.engine.waits.times import duration_s
from noetl.engine.withdrawal import withdraw
from noetl.events.control import LimitChanged, RateLimit, TokenHeld
from noetl.events.orders import ReportResult
from noetl.events.outcomes import Error
from noetl.events.tokens import TokenDropped
from noetl.events.waits import TokenReleased
from noetl.net.net import Rate, Transition
from noetl.templates.render import render
from noetl.templates.scope import Scope

# Timers fire this much late on a busy machine. Rescheduling all waiting tokens each time would cost too much.
_TOLERATED_DELAY_S = 0.25


class LimitSlot(msgspec.Struct, frozen=True):
    """One place that a run needs. `on_limit`: queue | drop | cancel_oldest."""

    slot: str
    limit: int
    on_limit: str = "queue"


def needed_slots(
    step: Transition, token: Token, scope: Scope, now: float, override: StepLimits | None = None
) -> tuple[LimitSlot, ...]:
    """The places that a run of `step` needs before it may begin. A limit in `override`, set by an operator, replaces
    that of the step's concurrency, else that of its quota; a step with neither gets a slot of its own."""
    if token.partition is None and step.concurrency is None and not step.quotas and override is None:
        return ()
    own = override.limit if override is not None else None
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
    """A limit as a number. TemplateError if `value` is not a whole number from 1 on."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if number < 1:
        raise TemplateError(f"{what} must be a whole number from 1 on, this gave {value!r}")
    return number


def over_quota(execution: Execution, step: Transition) -> Error | None:
    """The error of a step that has used up its `max_runs`; None while it may run."""
    most = step.quotas.get("max_runs")
    if most is None or execution.counts.step_runs_by_step.get(step.name, 0) < limit_value("quotas.max_runs", most):
        return None
    return Error(kind="execution.budget", message=f'step "{step.name}" has had {most} runs, which is its quota')


def without_slot(
    draft: Draft, execution: Execution, token: Token, places: tuple[LimitSlot, ...], about: dict[str, Any]
) -> Decision | None:
    """Hold or drop a token that finds no place, as `on_limit` says; None when it has all places."""
    for place in places:
        slot = execution.held.slots.get(place.slot) or Slot()
        if slot.has_room(token.token_id, place.limit):
            continue
        match place.on_limit:
            case "drop":
                draft.add(TokenDropped(token_id=token.token_id, reason="limit"), **about)
            case "cancel_oldest" if slot.held:
                # The place of the withdrawn run becomes free in this same decision, so this token may take it.
                withdraw(draft, execution, [execution.tokens[next(iter(slot.held))]])
                continue
            case _:
                # The id contains the position, since a token may be held several times.
                event_id = derived(token.event_id, TokenHeld.event_type, execution.log.seq)
                held = TokenHeld(token_id=token.token_id, reason=LIMIT, slot=place.slot)
                draft.add(held, event_id=event_id, **about)
        return draft.decision()
    return None


# Rates: how many runs of a step may start within a period, in one execution (`spec.rate`, beyond.md §1).
#
# The limit holds for every sliding window, not for fixed ones. A token that comes too early gets the next free start
# time for itself and is held until then. So no token is judged twice, and all start in the order of arrival. Steps with
# the same key share a rate, as they share a concurrency limit.


def rate_of(
    step: Transition, token: Token, scope: Scope, now: float, override: StepLimits | None = None
) -> RateLimit | None:
    """The rate that a run of `step` starts under; None once its token has a start time."""
    return None if token.pace is not None else rate_limit(step, scope, now, override)


def rate_limit(step: Transition, scope: Scope, now: float, override: StepLimits | None) -> RateLimit | None:
    """The rate of a step, with the operator's `override` if there is one; None for a step without a rate."""
    rate, own = step.rate, override.rate if override is not None else None
    if rate is None and own is None:
        return None
    key = render(rate.key, scope, now=now) if rate is not None and rate.key is not None else None
    # Two prefixes, so that a key that equals the name of a step is not that step's own rate.
    name = f"step/{step.name}" if key is None else f"key/{msgspec.json.encode(key).decode()}"
    if own is not None:
        return RateLimit(name=name, limit=own.limit, per_s=own.per_s, counted_s=_playbook_period_s(rate, scope, now))
    assert rate is not None
    per_s = duration_s("rate.per", rate.per, scope, now)
    if per_s <= 0:
        raise TemplateError("rate.per must be longer than zero")
    return RateLimit(name=name, limit=limit_value("rate.limit", render(rate.limit, scope, now=now)), per_s=per_s)


def _playbook_period_s(rate: Rate | None, scope: Scope, now: float) -> float:
    """The period of the playbook's own rate while an override replaces it; 0 without one that can be rendered."""
    try:
        return max(0.0, duration_s("rate.per", rate.per, scope, now)) if rate is not None else 0.0
    except TemplateError:
        return 0.0


def next_free_time(pace: Pace | None, rate: RateLimit, now: float) -> float:
    """The next free start time under `rate`, after those in `pace`."""
    last = pace.last(rate.limit) if pace is not None else None
    return now if last is None else max(now, last + rate.per_s)


def held_by_rate(
    draft: Draft, execution: Execution, token: Token, rate: RateLimit | None, about: dict[str, Any]
) -> Decision | None:
    """Hold a token until its start time under `rate`; None when it may start now."""
    if rate is None:
        return None
    start_at = next_free_time(execution.held.paces.get(rate.name), rate, draft.at)
    if start_at <= draft.at:
        return None
    event_id = derived(token.event_id, TokenHeld.event_type, execution.log.seq)
    held = TokenHeld(token_id=token.token_id, reason=RATE, until=start_at, rate=rate)
    draft.add(held, event_id=event_id, **about)
    return draft.decision()


# Rescheduling: tokens that wait under a rate get new start times, in the order in which they wait. That is necessary
# when the rate was changed, and when time was lost: start times also pass while an execution is paused or no server
# runs. Tokens whose time has passed must not all start at once, or the rate would be exceeded.


def rescheduled_tokens(plan: Plan, execution: Execution, token: Token, at: float) -> Draft | None:
    """New start times for all tokens that wait under the rate of `token`; None when `token` may start now."""
    rate = _rate_limit_of(plan, execution, token, execution.held.limits, at)
    pace = execution.held.paces.get(token.pace or "")
    if rate is None or pace is None:
        return None
    # Only starts that happened count here: the reserved times are the ones to be corrected.
    early_s = next_free_time(Pace(begun=pace.begun), rate, at) - at
    if early_s <= min(rate.per_s / 2, max(_TOLERATED_DELAY_S, rate.per_s / 10)):
        return None
    draft = Draft(execution, at, derived(token.event_id, "paced", execution.log.seq))
    reschedule_all(draft, plan, execution, token.pace or "", pace.begun, execution.held.limits)
    return draft


def reschedule_all(
    draft: Draft,
    plan: Plan,
    execution: Execution,
    name: str,
    begun: list[float],
    limits: Mapping[str, StepLimits],
) -> None:
    """Give every token that waits under a rate a new start time, after the starts in `begun`. A token whose new time is
    now is released by the timer, as always."""
    pace = Pace(begun=begun)
    for _, token in waiting_under_rate(execution, name):
        rate = _rate_limit_of(plan, execution, token, limits, draft.at)
        start_at = draft.at if rate is None else next_free_time(pace, rate, draft.at)
        if rate is not None:
            rate = msgspec.structs.replace(rate, name=name)
            pace.give(start_at)
        held = TokenHeld(token_id=token.token_id, reason=RATE, until=start_at, rate=rate)
        event_id = derived(token.event_id, TokenHeld.event_type, execution.log.seq)
        draft.add(held, event_id=event_id, step=token.step, step_run_id=run_id_of(token.token_id))


def waiting_under_rate(execution: Execution, name: str) -> list[tuple[float, Token]]:
    """The tokens that wait under a rate with their start times, the earliest first."""
    entries = [
        (*execution.open_waits.due_times.due[DueTime.RELEASE, token.token_id], token)
        for token in execution.tokens.values()
        if token.held == RATE and token.pace == name
    ]
    # By time and number: tokens themselves cannot be compared.
    return [(start_at, token) for start_at, _, token in sorted(entries, key=lambda entry: entry[:2])]


def _rate_limit_of(
    plan: Plan, execution: Execution, token: Token, limits: Mapping[str, StepLimits], at: float
) -> RateLimit | None:
    """The rate of a waiting token; None if it has none any more or cannot be rendered. Admission reports the error."""
    try:
        scope = admission_scope(plan, execution, token)
        return rate_limit(plan.step(token.step), scope, at, limits.get(token.step))
    except (TemplateError, ToolError):
        return None


def change_limit(plan: Plan, execution: Execution, command: ChangeLimit) -> Decision:
    """Record the new limits of a step and release the tokens that may go on."""
    if not execution.is_open:
        return Decision(verdict=ReportResult.TERMINAL, detail="this execution has ended")
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
    draft = Draft(execution, command.at, derived("limit", execution.execution_id, execution.log.seq))
    begun = _counted_starts(execution, command.step, command.at) if after.rate != before.rate else {}
    changed = LimitChanged(limit=after.limit, rate=after.rate, actor=command.actor, reason=command.reason, begun=begun)
    draft.add(changed, step=command.step, parent_id=execution.log.last_event_id)
    if after.limit != before.limit:
        _release_waiting(draft, plan, execution, command.step, after)
    for name, moments in begun.items():
        reschedule_all(draft, plan, execution, name, list(moments), {**execution.held.limits, command.step: after})
    return draft.decision()


def _problems(override: StepLimits) -> list[Refusal]:
    problems = []
    if override.limit is not None and override.limit < 1:
        problems.append(Refusal(field="limit", found=str(override.limit), allowed="a whole number from 1 on"))
    if override.rate is not None and override.rate.limit < 1:
        problems.append(Refusal(field="rate.limit", found=str(override.rate.limit), allowed="a whole number from 1 on"))
    if override.rate is not None and not 0 < override.rate.per_s < float("inf"):
        problems.append(
            Refusal(field="rate.per", found=f"{override.rate.per_s:g} s", allowed="a time longer than nothing")
        )
    return problems


def _release_waiting(draft: Draft, plan: Plan, execution: Execution, step: str, override: StepLimits) -> None:
    """Release as many tokens of each slot as there is room for now, those that have waited longest first."""
    waiting = [token for token in execution.tokens.values() if token.step == step and token.held == LIMIT]
    # One token per slot is enough to compute the slot's limit; reversed, so that the first one stays.
    firsts = {token.slot: token for token in reversed(waiting) if token.slot}
    for name, first in firsts.items():
        slot = execution.held.slots[name]
        room = _slot_limit(plan, execution, first, name, override, draft.at)
        free = None if room is None else max(0, room - len(slot.held) - len(slot.called))
        for token_id in islice(chain(slot.front, slot.queue), free):
            token = execution.tokens[token_id]
            draft.add(TokenReleased(token_id=token_id), event_id=_release_id(execution, token), **_token_fields(token))


def _slot_limit(
    plan: Plan, execution: Execution, token: Token, slot: str, override: StepLimits, at: float
) -> int | None:
    """The number of places of a slot under this token's limit. None if the token needs no place there, or its limit
    cannot be rendered; admission reports that error."""
    try:
        scope = admission_scope(plan, execution, token)
        places = needed_slots(plan.step(token.step), token, scope, at, override)
    except (TemplateError, ToolError):
        return None
    return next((place.limit for place in places if place.slot == slot), None)


def _counted_starts(execution: Execution, step: str, at: float) -> dict[str, tuple[float, ...]]:
    """By rate under which tokens of the step wait: the past starts that still count."""
    names = {token.pace for token in execution.tokens.values() if token.step == step and token.held == RATE}
    starts: dict[str, tuple[float, ...]] = {}
    for name in sorted(name for name in names if name):
        pace = execution.held.paces.get(name)
        if pace is not None:
            starts[name] = tuple(start for start in pace.begun if at < start + pace.counted_s)
    return starts


def _release_id(execution: Execution, token: Token) -> str:
    return derived(token.event_id, TokenReleased.event_type, execution.log.seq)


def _token_fields(token: Token) -> dict[str, Any]:
    return {"step": token.step, "step_run_id": run_id_of(token.token_id)}
