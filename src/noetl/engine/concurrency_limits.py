"""How the state follows tokens into and out of fork groups, joins and slots. Part of `evolve`: it decides nothing."""

from __future__ import annotations

from noetl.engine.due_times import DueTime
from noetl.engine.execution import Due, Execution, Token
from noetl.engine.held_tokens import Fork, Pace, Slot, StepLimits, around, count
from noetl.engine.pipeline.patches import overlaid
from noetl.events.control import JoinFilled, JoinUnfilled, LimitChanged, RateLimit, TokenHeld
from noetl.events.waits import TokenReleased

JOIN, PARK, LIMIT = "join", "park", "limit"  # why a token is held
COMPENSATION, DELAY, RATE = "compensation", "delay", "rate"


def enter(execution: Execution, token: Token, fork_id: str, *, opened_in: str | None) -> None:
    """A token of a group appears. The group is opened with the first of them, inside that of the token it comes
    from."""
    if fork_id not in execution.held.forks:
        execution.held.forks[fork_id] = Fork(fork_id=fork_id, around=opened_in)
    # Counted in every group around it: an outer join waits for tokens of inner groups too.
    for fork in around(execution.held.forks, fork_id):
        count(fork.out, token.step, 1)


def leave(execution: Execution, token: Token) -> None:
    """A token is gone, from wherever it was."""
    _let_go(execution, token)
    if token.fork is None:
        return
    chain = list(around(execution.held.forks, token.fork))
    for position, fork in enumerate(chain):
        # A token that waits at a join of its own group is not among those on their way there.
        if position == 0 and token.held == JOIN:
            _arrived_no_more(fork, token)
        else:
            count(fork.out, token.step, -1)
    for fork in chain:
        _close_if_empty(execution, fork)


def hold(execution: Execution, payload: TokenHeld, now: float) -> None:
    token = execution.tokens[payload.token_id]
    # It was called up for this very slot.
    if payload.slot is not None and payload.slot == token.slot:
        _turn_back(execution, token)
        return
    _let_go(execution, token)
    execution.agenda.pop(
        token.token_id, None
    )  # one that waits for a compensation, or for its time, was not enqueued yet
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
            _pace(execution, payload.rate, now).give(payload.until)
    elif payload.slot is not None:
        token.slot = payload.slot
        execution.held.slots.setdefault(payload.slot, Slot()).queue[token.token_id] = None


def _turn_back(execution: Execution, token: Token) -> None:
    """It was called up and found no room. It waits on, before all others: had it to queue again, and the next one been
    called instead, two of them could call each other for ever."""
    assert token.slot is not None
    slot = execution.held.slots[token.slot]
    del slot.called[token.token_id]
    slot.front[token.token_id] = None
    execution.agenda.pop(token.token_id, None)
    token.held = LIMIT


def release(execution: Execution, payload: TokenReleased, now: float) -> None:
    """Its moment has come. One that was delayed is enqueued next; the other was, and is judged again, as is one that is
    called up because its limit was changed."""
    token = execution.tokens[payload.token_id]
    if token.held == LIMIT and token.slot is not None:
        execution.held.slots[token.slot].call(token.token_id)
        token.held = None
        execution.agenda[token.token_id] = Due.ADMIT
        return
    was_enqueued = token.held == RATE
    _let_go(execution, token)
    if was_enqueued:
        execution.agenda[token.token_id] = Due.ADMIT
        if token.pace is not None:
            execution.held.paces.setdefault(token.pace, Pace()).begin(now)


def change(execution: Execution, step: str, payload: LimitChanged) -> None:
    """The limits of a step are others from now on; who waits for them is told by events of its own."""
    if payload.limit is None and payload.rate is None:
        execution.held.limits.pop(step, None)
    else:
        execution.held.limits[step] = StepLimits(limit=payload.limit, rate=payload.rate)
    for name, moments in payload.begun.items():
        execution.held.paces[name].begun = list(moments)


def begin(execution: Execution, rate: RateLimit, now: float) -> None:
    """A run begins under a rate."""
    _pace(execution, rate, now).begin(now)


def _pace(execution: Execution, rate: RateLimit, now: float) -> Pace:
    """The moments of a rate. Those of which nothing counts any more are forgotten, the oldest first."""
    given = execution.held.paces.pop(rate.name, None) or Pace()
    given.counted_s = max(given.counted_s, rate.per_s, rate.counted_s)
    execution.held.paces[rate.name] = given
    name, oldest = next(iter(execution.held.paces.items()))
    # One per call keeps this constant in cost, and still faster than entries can be added.
    if oldest is not given and oldest.is_over(now):
        del execution.held.paces[name]
    return given


def merge_tokens(execution: Execution, payload: JoinFilled | JoinUnfilled) -> None:
    """One token goes on for all that came; it belongs to the group around, which counts it already."""
    came = [execution.tokens[token_id] for token_id in payload.tokens]
    token, fork = execution.tokens[payload.token_id], execution.held.forks[payload.fork]
    token.inputs = [one.as_input() for one in came]
    args = came[0].args
    for one in came[1:]:
        args = overlaid(args, one.args)
    _arrived_no_more(fork, token)
    token.args, token.held, token.fork = args, None, fork.around
    blocks = isinstance(payload, JoinFilled) and payload.blocks
    fork.joined[token.step] = blocks
    if blocks:
        count(execution.held.blocked, token.step, 1)
    if isinstance(payload, JoinUnfilled):
        token.failure = payload.error
    _close_if_empty(execution, fork)
    execution.agenda[token.token_id] = Due.ADMIT


def take(execution: Execution, token: Token, slots: tuple[str, ...]) -> None:
    """The token's step is scheduled: it holds its slots until it is gone."""
    _let_go(execution, token, keeping=slots)
    token.slots = slots
    for name in slots:
        execution.held.slots.setdefault(name, Slot()).held[token.token_id] = None


def _let_go(execution: Execution, token: Token, *, keeping: tuple[str, ...] = ()) -> None:
    """Wherever the token waited or was called to, it does so no more; what it held goes to the next."""
    if execution.held.parked:
        execution.held.parked.pop(token.token_id, None)
    if execution.held.delayed and token.token_id in execution.held.delayed:
        del execution.held.delayed[token.token_id]
        if (
            token.pace in execution.held.paces
            and (DueTime.RELEASE, token.token_id) in execution.open_waits.due_times.due
        ):
            moment, _ = execution.open_waits.due_times.due[DueTime.RELEASE, token.token_id]
            # It never ran: the moment it was given under the rate is free for another token.
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
            # It goes from called to held in the same slot, so nobody else may be called for it.
            if token.slot not in keeping:
                _call_next(execution, token.slot)
        _forget_if_empty(execution, token.slot)
        token.slot = None
    if token.slots:
        for name in token.slots:
            del execution.held.slots[name].held[token.token_id]
            _call_next(execution, name)
            _forget_if_empty(execution, name)
        token.slots = ()
    if token.held != JOIN:
        token.held = None


def _call_next(execution: Execution, name: str) -> None:
    waiting = execution.held.slots[name].call_next()
    if waiting is None:
        return
    execution.tokens[waiting].held = None
    execution.agenda[waiting] = Due.ADMIT


def _forget_if_empty(execution: Execution, name: str) -> None:
    if execution.held.slots[name].is_empty:
        del execution.held.slots[name]


def _arrived_no_more(fork: Fork, token: Token) -> None:
    waiting = fork.waiting[token.step]
    del waiting[token.token_id]
    if not waiting:
        del fork.waiting[token.step]


def _close_if_empty(execution: Execution, fork: Fork) -> None:
    if fork.is_empty and execution.held.forks.pop(fork.fork_id, None) is not None:
        for step, blocks in fork.joined.items():
            if blocks:
                count(execution.held.blocked, step, -1)
