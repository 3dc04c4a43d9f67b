"""How events change fork groups, joins, slots and rates. Part of `evolve`: it decides nothing.

Every function costs the same for any size of a group or queue. `joins.py` and `limits.py` decide what happens to held
tokens; `held_tokens.py` has the data that both read.
"""

from __future__ import annotations

from noetl.engine.execution import Due, DueTime, Execution, Token
from noetl.engine.held_tokens import Fork, Pace, Slot, StepLimits, around, count
from noetl.events.control import JoinFilled, JoinUnfilled, LimitChanged, RateLimit, TokenHeld
from noetl.events.waits import TokenReleased
from noetl.templates.values import deep_merged

JOIN, PARK, LIMIT = "join", "park", "limit"  # why a token is held
COMPENSATION, DELAY, RATE = "compensation", "delay", "rate"


def enter_fork(execution: Execution, token: Token, fork_id: str, *, opened_in: str | None) -> None:
    """Count a new token in its group. The first token opens the group, inside the group of its parent token."""
    if fork_id not in execution.held.forks:
        execution.held.forks[fork_id] = Fork(fork_id=fork_id, around=opened_in)
    # Every group around it counts it too, since an outer join waits for tokens of inner groups.
    for fork in around(execution.held.forks, fork_id):
        count(fork.out, token.step, 1)


def remove_token(execution: Execution, token: Token) -> None:
    """Remove a token from groups, queues, slots and due times, wherever it was."""
    _stop_waiting(execution, token)
    if token.fork is None:
        return
    chain = list(around(execution.held.forks, token.fork))
    for position, fork in enumerate(chain):
        # A token that waits at a join of its own group is not counted in `out` of that group, but in those around.
        if position == 0 and token.held == JOIN:
            _leave_join(fork, token)
        else:
            count(fork.out, token.step, -1)
    for fork in chain:
        _close_fork_if_empty(execution, fork)


def hold_token(execution: Execution, payload: TokenHeld, now: float) -> None:
    """Hold a token for the reason that the event names."""
    token = execution.tokens[payload.token_id]
    # The token was called to this slot and found no room under its own, tighter limit.
    if payload.slot is not None and payload.slot == token.slot:
        _return_to_front(execution, token)
        return
    _stop_waiting(execution, token)
    # A token that is held for a compensation or a delay was not enqueued yet, so it need not be on the agenda.
    execution.agenda.pop(token.token_id, None)
    token.held = payload.reason
    if payload.reason == JOIN:
        assert token.fork is not None
        fork = execution.held.forks[token.fork]
        count(fork.out, token.step, -1)
        fork.waiting.setdefault(token.step, {})[token.token_id] = None
    elif payload.reason == PARK:
        execution.held.parked[token.token_id] = None
    elif payload.reason == COMPENSATION:
        assert execution.side_work.saga is not None
        execution.side_work.saga.waiting[token.token_id] = None
        token.not_before = payload.until or 0.0
    elif payload.until is not None:
        execution.held.delayed[token.token_id] = None
        execution.open_waits.due_times.set(DueTime.RELEASE, token.token_id, payload.until)
        if payload.rate is not None:
            token.pace = payload.rate.name
            _pace_of(execution, payload.rate, now).give(payload.until)
    elif payload.slot is not None:
        token.slot = payload.slot
        execution.held.slots.setdefault(payload.slot, Slot()).queue[token.token_id] = None


def _return_to_front(execution: Execution, token: Token) -> None:
    """Put a token that was called and found no room before all others that wait.

    If it had to queue again and the next token were called instead, two tokens could call each other forever."""
    assert token.slot is not None
    slot = execution.held.slots[token.slot]
    del slot.called[token.token_id]
    slot.front[token.token_id] = None
    execution.agenda.pop(token.token_id, None)
    token.held = LIMIT


def release_token(execution: Execution, payload: TokenReleased, now: float) -> None:
    """Release a token. A delayed one is enqueued by its next event. One under a rate or a changed limit was enqueued
    before, and is judged again by admission."""
    token = execution.tokens[payload.token_id]
    if token.held == LIMIT and token.slot is not None:
        execution.held.slots[token.slot].call(token.token_id)
        token.held = None
        execution.agenda[token.token_id] = Due.ADMIT
        return
    was_enqueued = token.held == RATE
    _stop_waiting(execution, token)
    if was_enqueued:
        execution.agenda[token.token_id] = Due.ADMIT
        if token.pace is not None:
            execution.held.paces.setdefault(token.pace, Pace()).begin(now)


def change_limits(execution: Execution, step: str, payload: LimitChanged) -> None:
    """Change the limits of a step. Events of their own release the tokens that may go on."""
    if payload.limit is None and payload.rate is None:
        execution.held.limits.pop(step, None)
    else:
        execution.held.limits[step] = StepLimits(limit=payload.limit, rate=payload.rate)
    for name, moments in payload.begun.items():
        execution.held.paces[name].begun = list(moments)


def begin_under_rate(execution: Execution, rate: RateLimit, now: float) -> None:
    """Count the start of a run under its rate."""
    _pace_of(execution, rate, now).begin(now)


def _pace_of(execution: Execution, rate: RateLimit, now: float) -> Pace:
    """The start times under a rate, created on first use. Also forgets the oldest rate if nothing of it counts."""
    pace = execution.held.paces.pop(rate.name, None) or Pace()
    pace.counted_s = max(pace.counted_s, rate.per_s, rate.counted_s)
    execution.held.paces[rate.name] = pace
    name, oldest = next(iter(execution.held.paces.items()))
    # At most one entry is forgotten per call: constant cost, and as many as a call can add.
    if oldest is not pace and oldest.is_over(now):
        del execution.held.paces[name]
    return pace


def merge_tokens(execution: Execution, payload: JoinFilled | JoinUnfilled) -> None:
    """Merge the tokens that met at a join: one continues, in the group around, which counts it already."""
    arrived = [execution.tokens[token_id] for token_id in payload.tokens]
    token, fork = execution.tokens[payload.token_id], execution.held.forks[payload.fork]
    token.inputs = [other.as_input() for other in arrived]
    args = arrived[0].args
    # In the order of arrival: of two values for one name the later token's stays.
    for other in arrived[1:]:
        args = deep_merged(args, other.args)
    _leave_join(fork, token)
    token.args, token.held, token.fork = args, None, fork.around
    blocks = isinstance(payload, JoinFilled) and payload.blocks
    fork.joined[token.step] = blocks
    if blocks:
        count(execution.held.blocked, token.step, 1)
    if isinstance(payload, JoinUnfilled):
        token.failure = payload.error
    _close_fork_if_empty(execution, fork)
    execution.agenda[token.token_id] = Due.ADMIT


def take_slots(execution: Execution, token: Token, slots: tuple[str, ...]) -> None:
    """Give the token its slots, which it holds until it is removed."""
    _stop_waiting(execution, token, keeping=slots)
    token.slots = slots
    for name in slots:
        execution.held.slots.setdefault(name, Slot()).held[token.token_id] = None


def _stop_waiting(execution: Execution, token: Token, *, keeping: tuple[str, ...] = ()) -> None:
    """Remove the token from every queue and slot. A place that becomes free goes to the next token that waits."""
    if execution.held.parked:
        execution.held.parked.pop(token.token_id, None)
    if execution.held.delayed and token.token_id in execution.held.delayed:
        del execution.held.delayed[token.token_id]
        if (
            token.pace in execution.held.paces
            and (DueTime.RELEASE, token.token_id) in execution.open_waits.due_times.due
        ):
            moment, _ = execution.open_waits.due_times.due[DueTime.RELEASE, token.token_id]
            # The token never ran, so its start time under the rate is free for another token.
            execution.held.paces[token.pace].take_back(moment)
        execution.open_waits.due_times.cancel(DueTime.RELEASE, token.token_id)
    if token.held == COMPENSATION and execution.side_work.saga is not None:
        execution.side_work.saga.waiting.pop(token.token_id, None)
    if token.slot is not None:
        slot = execution.held.slots[token.slot]
        slot.queue.pop(token.token_id, None)
        slot.front.pop(token.token_id, None)
        if token.token_id in slot.called:
            del slot.called[token.token_id]
            # A token that takes this very slot (`keeping`) uses the place it was called to, so no other token is
            # called.
            if token.slot not in keeping:
                _call_next(execution, token.slot)
        _drop_slot_if_empty(execution, token.slot)
        token.slot = None
    if token.slots:
        for name in token.slots:
            del execution.held.slots[name].held[token.token_id]
            _call_next(execution, name)
            _drop_slot_if_empty(execution, name)
        token.slots = ()
    if token.held != JOIN:
        token.held = None


def _call_next(execution: Execution, name: str) -> None:
    waiting = execution.held.slots[name].call_next()
    if waiting is None:
        return
    execution.tokens[waiting].held = None
    execution.agenda[waiting] = Due.ADMIT


def _drop_slot_if_empty(execution: Execution, name: str) -> None:
    if execution.held.slots[name].is_empty:
        del execution.held.slots[name]


def _leave_join(fork: Fork, token: Token) -> None:
    waiting = fork.waiting[token.step]
    del waiting[token.token_id]
    if not waiting:
        del fork.waiting[token.step]


def _close_fork_if_empty(execution: Execution, fork: Fork) -> None:
    if fork.is_empty and execution.held.forks.pop(fork.fork_id, None) is not None:
        for step, blocks in fork.joined.items():
            if blocks:
                count(execution.held.blocked, step, -1)
