"""Settling: after each event, the held tokens that it may have released are judged before anything else moves.

`Unsettled` collects the groups, parked tokens and listeners to judge while events are applied. It is not part of the
state: `advance` empties it before a decision is committed.
"""

from __future__ import annotations

from collections.abc import Iterable

from noetl.base.ids import derived
from noetl.engine.admission import admit, denied
from noetl.engine.decision import NO_CHANGE, Decision, Draft
from noetl.engine.evolve import evolve
from noetl.engine.execution import Execution
from noetl.engine.held_tokens import Fork, around
from noetl.engine.joins import fail_joins, settle_joins
from noetl.engine.plan import Plan
from noetl.engine.v2_case.evolution import as_own_event, is_free, reaches_run
from noetl.engine.v2_case.listeners import deliver_events
from noetl.events.control import JoinFilled, JoinUnfilled, PlaybookResumed, TokenHeld
from noetl.events.envelope import Event
from noetl.events.steps import CtxPatched
from noetl.events.tokens import TokenConsumed, TokenCreated, TokenDropped
from noetl.events.v2_case_positions import OwnEvent

_UNPARKING = (CtxPatched, PlaybookResumed)  # parked tokens are judged again after these
_MOVING = (TokenConsumed, TokenDropped, TokenHeld, JoinFilled, JoinUnfilled)
# All events pass through here and few are in this set, so one lookup by class sorts them out.
_WATCHED = frozenset({*_UNPARKING, *_MOVING, TokenCreated})


class Unsettled:
    """The fork groups and listeners to judge, and whether parked tokens must be judged again."""

    def __init__(self) -> None:
        # An ordered set: groups in the order they were touched, each one once.
        self._forks: dict[str, None] = {}
        self._parked = False
        # By listening step run: the events of this decision that its rules have not seen.
        self._heard: dict[str, list[OwnEvent]] = {}

    def apply(self, execution: Execution, events: Iterable[Event]) -> None:
        """Apply the events, and note which held tokens they may have released."""
        for event in events:
            # Tested for every event: an earlier one of this decision may have added a listener.
            if execution.open_waits.listeners:
                self._note_listeners(execution, event)
            if type(event.payload) in _WATCHED:
                self._apply_noted(execution, event)
            else:
                evolve(execution, event)

    def _apply_noted(self, execution: Execution, event: Event) -> None:
        payload = event.payload
        if type(payload) is TokenCreated:
            evolve(execution, event)  # applied first, since this event may open the group
            if payload.fork is None:
                return  # most tokens belong to no group
            touched = list(around(execution.held.forks, payload.fork))
        elif isinstance(payload, _MOVING):
            # Read before the event is applied: afterwards the token may be gone, and its groups with it.
            token = execution.tokens.get(payload.token_id)
            touched = (
                list(around(execution.held.forks, token.fork)) if token is not None and token.fork is not None else []
            )
            evolve(execution, event)
        else:
            self._parked, touched = True, []
            evolve(execution, event)
        for fork in touched:
            self._forks[fork.fork_id] = None
            # The group has closed. A join with `rest: block` may have kept other groups waiting for that.
            if fork.fork_id not in execution.held.forks:
                self._unblock(execution, fork)

    def _unblock(self, execution: Execution, closed: Fork) -> None:
        """Note the groups that wait at a join which the closed group had blocked."""
        freed = [step for step, blocks in closed.joined.items() if blocks]
        if freed:
            waiting = (fork for fork in execution.held.forks.values() if any(step in fork.waiting for step in freed))
            self._forks.update((fork.fork_id, None) for fork in waiting)

    def _note_listeners(self, execution: Execution, event: Event) -> None:
        """Note the event for listening step runs that are free. The state keeps it for busy ones (V2C-13)."""
        own_event = as_own_event(event) if not execution.lifecycle.paused else None
        for run_id in execution.open_waits.listeners if own_event is not None else ():
            if own_event is not None and reaches_run(run_id, event) and is_free(execution.runs[run_id]):
                self._heard.setdefault(run_id, []).append(own_event)

    def next(self, plan: Plan, execution: Execution, at: float) -> Decision:
        """The next decision about what was noted; NO_CHANGE when nothing more can move."""
        if not (self._forks or self._parked or self._heard):
            return NO_CHANGE
        # Joins first, then parked tokens, then listeners: the proofs of `noetl check` assume that a join that can fire
        # does so before anything else moves.
        while self._forks:
            fork_id = next(iter(self._forks))
            fork = execution.held.forks.get(fork_id)
            decision = settle_joins(plan, execution, fork, at) if fork is not None and fork.waiting else NO_CHANGE
            if decision.events:
                return decision
            del self._forks[fork_id]
        # A change of `ctx` or a resume may admit any parked token. They are judged again in the order of arrival.
        if self._parked and not execution.lifecycle.paused:
            for token_id in list(execution.held.parked):
                decision = admit(plan, execution, execution.tokens[token_id], at)
                if decision.events:
                    return decision
            self._parked = False
        while self._heard:
            run_id, events = self._heard.popitem()
            run = execution.runs.get(run_id)
            if (
                run is not None
                and run.ended is None
                and (decision := deliver_events(plan, execution, run, events, at)).events
            ):
                return decision
        return NO_CHANGE


def resolve_deadlock(plan: Plan, execution: Execution, at: float) -> Decision:
    """Deny a parked token (O-03) or fail a join (O-01) when all tokens are held and nothing can release them."""
    if execution.held.parked:
        tokens = [execution.tokens[token_id] for token_id in execution.held.parked]
        # A parked token whose group has tokens at a join goes first: its end may let the others meet.
        token = next(
            (parked for parked in tokens if any(fork.waiting for fork in around(execution.held.forks, parked.fork))),
            tokens[0],
        )
        return denied(Draft(execution, at, derived(token.event_id, "unstuck")), token, None)
    # The innermost group first: the token of its failed join may fill the join of the group around it.
    fork = next(fork for fork in reversed(execution.held.forks.values()) if fork.waiting)
    return fail_joins(plan, execution, fork, list(fork.waiting)[:1], at)
