"""How the state follows tokens into and out of fork groups, joins and slots. Part of `evolve`: it decides nothing."""

from __future__ import annotations

from noetl.engine.execution import Due, Execution, Token
from noetl.engine.marking import Fork, Slot, around, count
from noetl.pipeline.patches import overlaid
from noetl.records.control import JoinFilled, JoinUnfilled, TokenHeld

JOIN, PARK, LIMIT = "join", "park", "limit"  # why a token is held


def enter(execution: Execution, token: Token, *, opened_in: str | None) -> None:
    """A token appears. Its group is opened with the first of them, inside the group of the token it comes from."""
    if token.fork is None:
        return
    if token.fork not in execution.forks:
        execution.forks[token.fork] = Fork(fork_id=token.fork, around=opened_in)
    for fork in around(execution.forks, token.fork):
        count(fork.out, token.step, 1)


def leave(execution: Execution, token: Token) -> None:
    """A token is gone, from wherever it was."""
    _let_go(execution, token)
    chain = list(around(execution.forks, token.fork))
    for position, fork in enumerate(chain):
        if position == 0 and token.held == JOIN:
            _arrived_no_more(fork, token)
        else:
            count(fork.out, token.step, -1)
    for fork in chain:
        _close_if_empty(execution, fork)


def hold(execution: Execution, payload: TokenHeld) -> None:
    token = execution.tokens[payload.token_id]
    _let_go(execution, token)
    del execution.agenda[token.token_id]
    token.held = payload.reason
    if payload.reason == JOIN:
        assert token.fork is not None
        fork = execution.forks[token.fork]
        count(fork.out, token.step, -1)
        fork.waiting.setdefault(token.step, {})[token.token_id] = None
    elif payload.reason == PARK:
        execution.parked[token.token_id] = None
    elif payload.slot is not None:
        token.slot = payload.slot
        execution.slots.setdefault(payload.slot, Slot()).queue[token.token_id] = None


def meet(execution: Execution, payload: JoinFilled | JoinUnfilled) -> None:
    """One token goes on for all that came; it belongs to the group around, which counts it already."""
    came = [execution.tokens[token_id] for token_id in payload.tokens]
    token, fork = execution.tokens[payload.token_id], execution.forks[payload.fork]
    token.inputs = [one.as_input() for one in came]
    args = came[0].args
    for one in came[1:]:
        args = overlaid(args, one.args)
    _arrived_no_more(fork, token)
    token.args, token.held, token.fork = args, None, fork.around
    blocks = isinstance(payload, JoinFilled) and payload.blocks
    fork.joined[token.step] = blocks
    if blocks:
        count(execution.blocked, token.step, 1)
    if isinstance(payload, JoinUnfilled):
        token.failure = payload.error
    _close_if_empty(execution, fork)
    execution.agenda[token.token_id] = Due.ADMIT


def take(execution: Execution, token: Token, slots: tuple[str, ...]) -> None:
    """The token's step is scheduled: it holds its slots until it is gone."""
    _let_go(execution, token, keeping=slots)
    token.slots = slots
    for name in slots:
        execution.slots.setdefault(name, Slot()).held[token.token_id] = None


def _let_go(execution: Execution, token: Token, *, keeping: tuple[str, ...] = ()) -> None:
    """Wherever the token waited or was called to, it does so no more; what it held goes to the next."""
    execution.parked.pop(token.token_id, None)
    if token.slot is not None:
        slot = execution.slots[token.slot]
        slot.queue.pop(token.token_id, None)
        if token.token_id in slot.called:
            del slot.called[token.token_id]
            if token.slot not in keeping:
                _call_next(execution, token.slot)
        _forget_if_empty(execution, token.slot)
        token.slot = None
    for name in token.slots:
        del execution.slots[name].held[token.token_id]
        _call_next(execution, name)
        _forget_if_empty(execution, name)
    token.slots = ()
    if token.held != JOIN:
        token.held = None


def _call_next(execution: Execution, name: str) -> None:
    slot = execution.slots[name]
    waiting = next(iter(slot.queue), None)
    if waiting is None:
        return
    del slot.queue[waiting]
    slot.called[waiting] = None
    execution.tokens[waiting].held = None
    execution.agenda[waiting] = Due.ADMIT


def _forget_if_empty(execution: Execution, name: str) -> None:
    if execution.slots[name].is_empty:
        del execution.slots[name]


def _arrived_no_more(fork: Fork, token: Token) -> None:
    waiting = fork.waiting[token.step]
    del waiting[token.token_id]
    if not waiting:
        del fork.waiting[token.step]


def _close_if_empty(execution: Execution, fork: Fork) -> None:
    if fork.is_empty and execution.forks.pop(fork.fork_id, None) is not None:
        for step, blocks in fork.joined.items():
            if blocks:
                count(execution.blocked, step, -1)
