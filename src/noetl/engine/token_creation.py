"""The tokens that a firing makes. Two or more of them open a fork group (O-01, ADV-03 to ADV-05).

Where its target joins and the token belongs to a group, it is held there at once; a group that was joined there
already has no use for it any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.engine.concurrency_limits import COMPENSATION, DELAY, JOIN, RATE
from noetl.engine.decision import Decision, Draft
from noetl.engine.execution import Execution, StepRun, Token
from noetl.engine.identity import fork_id_of, run_id_of, token_id_of
from noetl.engine.limits import paced_anew
from noetl.engine.plan import Plan
from noetl.events.control import TokenHeld
from noetl.events.tokens import NextEnqueued, TokenCreated, TokenDropped, TokenEnqueued
from noetl.events.waits import TokenReleased


class Fired(msgspec.Struct, frozen=True, kw_only=True):
    """An arc that fires, rendered."""

    arc: int  # its index in the step; an alternative after a timeout has the one behind all arcs
    target: str
    args: dict[str, Any]
    set_ctx: dict[str, Any] = {}
    tokens: int = 1
    priority: int = 0
    partition: str | None = None
    # What may be enqueued once within `window_s`, or once for ever where that is None.
    dedupe: str | None = None
    window_s: float | None = None
    cancel: tuple[str, ...] = ()  # steps whose tokens are withdrawn first; "*": the execution
    compensates: bool = False  # its tokens wait until everything registered is undone
    delay_s: float = 0.0


def send(plan: Plan, draft: Draft, execution: Execution, run: StepRun, fired: Sequence[Fired], at: float) -> None:
    """Make the tokens of all arcs that fire together."""
    assert run.ended is not None
    own = execution.tokens[run.token_id].fork
    several = sum([one.tokens for one in fired]) > 1
    fork = fork_id_of(execution.execution_id, run.ended.event_id) if several else own
    seen: set[str] = set()
    for one in fired:
        for ordinal in range(one.tokens):
            _send_one(plan, draft, execution, run, one, ordinal, fork, seen, at)


def _send_one(
    plan: Plan,
    draft: Draft,
    execution: Execution,
    run: StepRun,
    fired: Fired,
    ordinal: int,
    fork: str | None,
    seen: set[str],
    at: float,
) -> None:
    assert run.ended is not None
    source = run.ended.event_id
    # Derived from the boundary event: a decision that is made again makes the same tokens (docs/decisions/0013).
    token_id = token_id_of(execution.execution_id, source, fired.arc, ordinal)
    is_repeat = _is_repeat(execution, fired, seen, at)
    draft.add(NextEnqueued(token_id=token_id, step=fired.target, arc=fired.arc), run=run)
    about: dict[str, Any] = {"step": fired.target, "step_run_id": run_id_of(token_id)}
    draft.add(
        TokenCreated(
            token_id=token_id,
            step=fired.target,
            path=plan.net.path,
            version=plan.net.version,
            args=fired.args,
            source_event_id=source,
            parent_step_run_id=run.step_run_id,
            arc=fired.arc,
            fork=fork,
            priority=fired.priority,
            partition=fired.partition,
            dedupe=None if is_repeat else fired.dedupe,
        ),
        **about,
    )
    if is_repeat:
        # It is created and dropped, instead of never made: the log says why a token is missing.
        draft.add(TokenDropped(token_id=token_id, reason="duplicate"), **about)
        return
    until = at + fired.delay_s if fired.delay_s else None
    if fired.compensates:  # until everything is undone (SAGA-02)
        draft.add(TokenHeld(token_id=token_id, reason=COMPENSATION, until=until), **about)
    elif until is not None:
        draft.add(TokenHeld(token_id=token_id, reason=DELAY, until=until), **about)  # V2C-12, ADV-05
    else:
        _enqueue(plan, draft, execution, token_id, fired.target, fork, **about)


def enqueue(plan: Plan, execution: Execution, token: Token, at: float) -> Decision:
    """Everything has been undone that the token waited for."""
    draft = Draft(execution, at, execution.last_event_id)
    about: dict[str, Any] = {
        "step": token.step,
        "step_run_id": run_id_of(token.token_id),
        "parent_id": execution.last_event_id,
    }
    if token.not_before > at:
        draft.add(TokenHeld(token_id=token.token_id, reason=DELAY, until=token.not_before), **about)
    else:
        _enqueue(plan, draft, execution, token.token_id, token.step, token.fork, **about)
    return draft.decision()


def release(plan: Plan, execution: Execution, token: Token, at: float) -> Decision:
    """The moment has come until which the token was held. Under a rate it may have come too late for all who wait."""
    if token.held == RATE and (late := paced_anew(plan, execution, token, at)) is not None:
        return late.decision()
    draft = Draft(execution, at, token.event_id)
    about: dict[str, Any] = {"step": token.step, "step_run_id": run_id_of(token.token_id), "parent_id": token.event_id}
    draft.add(TokenReleased(token_id=token.token_id), **about)
    if token.held == DELAY:
        _enqueue(plan, draft, execution, token.token_id, token.step, token.fork, **about)
    return draft.decision()


def _enqueue(
    plan: Plan, draft: Draft, execution: Execution, token_id: str, target: str, fork: str | None, **about: Any
) -> None:
    draft.add(TokenEnqueued(token_id=token_id), **about)
    if fork is not None and plan.step(target).join is not None:
        known = execution.held.forks.get(fork)  # none: the group is opened by this very firing
        if known is not None and target in known.joined:
            draft.add(TokenDropped(token_id=token_id, reason="late"), **about)
        else:
            draft.add(TokenHeld(token_id=token_id, reason=JOIN), **about)


def _is_repeat(execution: Execution, fired: Fired, seen: set[str], at: float) -> bool:
    """Whether this arc enqueued the same key before, within the window (ADV-04)."""
    if fired.dedupe is None:
        return False
    if fired.dedupe in seen:
        return True
    seen.add(fired.dedupe)
    before = execution.held.deduped.get(fired.dedupe)
    return before is not None and (fired.window_s is None or at - before < fired.window_s)
