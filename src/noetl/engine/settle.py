"""Settling: what each event may have set free among the tokens that are held, judged before anything else moves.

A note of what to look at, made while events are applied. It is no part of the state: when a decision is committed,
everything in it has been looked at.
"""

from __future__ import annotations

from collections.abc import Iterable

from noetl.base.ids import derived
from noetl.engine.admission import admit, denied
from noetl.engine.decision import NOTHING, Decision, Draft
from noetl.engine.event_rules import heard_as, hears
from noetl.engine.evolve import evolve
from noetl.engine.execution import Execution
from noetl.engine.held_tokens import Fork, around
from noetl.engine.joins import give_up, settle
from noetl.engine.plan import Plan
from noetl.engine.v2_case.evolution import is_free
from noetl.engine.v2_case.listeners import deliver_events
from noetl.events.control import JoinFilled, JoinUnfilled, PlaybookResumed, TokenHeld
from noetl.events.envelope import Event
from noetl.events.steps import CtxPatched
from noetl.events.tokens import TokenConsumed, TokenCreated, TokenDropped
from noetl.events.v2_case_positions import OwnEvent

_UNPARKING = (CtxPatched, PlaybookResumed)  # parked tokens are judged again after these
_MOVING = (TokenConsumed, TokenDropped, TokenHeld, JoinFilled, JoinUnfilled)
# Every event comes by here and few are one of these, so they are told apart by one look at their class.
_NOTED = frozenset({*_UNPARKING, *_MOVING, TokenCreated})


class Unsettled:
    """Groups to look at, innermost first, and whether parked tokens must be judged again."""

    def __init__(self) -> None:
        # An ordered set: groups in the order they were touched, each one once.
        self._forks: dict[str, None] = {}
        self._parked = False
        # By listening step run, the events of this decision that it has not been told of.
        self._heard: dict[str, list[OwnEvent]] = {}

    def apply(self, execution: Execution, events: Iterable[Event]) -> None:
        """Let the events change the state, and note what they may have set free."""
        for event in events:
            # Asked anew for each: an event before it may have made somebody listen.
            if execution.open_waits.listeners:
                self._note_listeners(execution, event)
            if type(event.payload) in _NOTED:
                self._apply_noted(execution, event)
            else:
                evolve(execution, event)

    def _apply_noted(self, execution: Execution, event: Event) -> None:
        payload = event.payload
        if type(payload) is TokenCreated:
            evolve(execution, event)  # first, since its group may be opened by this very event
            if payload.fork is None:
                return  # most tokens belong to no group
            touched = list(around(execution.held.forks, payload.fork))
        elif isinstance(payload, _MOVING):
            # Before the event is applied: afterwards the token may be gone, and its groups with it.
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
            # The group has closed. Joins of other groups may have waited for that.
            if fork.fork_id not in execution.held.forks:
                self._unblock(execution, fork)

    def _unblock(self, execution: Execution, closed: Fork) -> None:
        """Whoever was kept from meeting by a group that is gone now."""
        freed = [step for step, blocks in closed.joined.items() if blocks]
        if freed:
            waiting = (fork for fork in execution.held.forks.values() if any(step in fork.waiting for step in freed))
            self._forks.update((fork.fork_id, None) for fork in waiting)

    def _note_listeners(self, execution: Execution, event: Event) -> None:
        """Step runs that wait for events hear this one; for those that are busy the state keeps it (V2C-13)."""
        heard = heard_as(event) if not execution.lifecycle.paused else None
        for run_id in execution.open_waits.listeners if heard is not None else ():
            if heard is not None and hears(run_id, event) and is_free(execution.runs[run_id]):
                self._heard.setdefault(run_id, []).append(heard)

    def next(self, plan: Plan, execution: Execution, at: float) -> Decision:
        """The first thing that can be decided among what was noted; nothing when all of it rests."""
        if not (self._forks or self._parked or self._heard):
            return NOTHING
        # Joins before parked tokens before listeners: a join that can fire does so before anything else moves, as the
        # proofs of `noetl check` assume.
        while self._forks:
            fork_id = next(iter(self._forks))
            fork = execution.held.forks.get(fork_id)
            decision = settle(plan, execution, fork, at) if fork is not None and fork.waiting else NOTHING
            if decision.events:
                return decision
            del self._forks[fork_id]
        # A change of ctx or a resumption may let any parked token in. They are judged again in the order they came.
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
        return NOTHING


def unstuck(plan: Plan, execution: Execution, at: float) -> Decision:
    """Tokens are held and nothing else is live, so nothing can come that they wait for: parked ones are denied
    (O-03), first where that lets others of their group meet; joins that still hold tokens cannot fill (O-01)."""
    if execution.held.parked:
        tokens = [execution.tokens[token_id] for token_id in execution.held.parked]
        token = next(
            (one for one in tokens if any(fork.waiting for fork in around(execution.held.forks, one.fork))), tokens[0]
        )
        return denied(Draft(execution, at, derived(token.event_id, "unstuck")), token, None)
    # The innermost group first: what its failure sets free may fill the join of the group around it.
    fork = next(fork for fork in reversed(execution.held.forks.values()) if fork.waiting)
    return give_up(plan, execution, fork, list(fork.waiting)[:1], at)
