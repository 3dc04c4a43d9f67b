"""Creation of the tokens of fired arcs. Two or more tokens of one event open a fork group (O-01, ADV-03 to ADV-05).

A token of a group whose target is a join is held there at once. If that join has already fired for the group, the token
is late and dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.engine.concurrency_limits import COMPENSATION, DELAY, JOIN, RATE
from noetl.engine.decision import Decision, Draft
from noetl.engine.execution import Execution, StepRun, Token
from noetl.engine.identity import fork_id_of, run_id_of, token_id_of
from noetl.engine.limits import rescheduled_tokens
from noetl.engine.plan import Plan
from noetl.events.control import TokenHeld
from noetl.events.tokens import NextEnqueued, TokenCreated, TokenDropped, TokenEnqueued
from noetl.events.waits import TokenReleased


class FiredArc(msgspec.Struct, frozen=True, kw_only=True):
    """An arc that fires, rendered."""

    arc: int  # its index in the step; the alternative of a timeout has the index after all arcs
    target: str
    args: dict[str, Any]
    set_ctx: dict[str, Any] = {}
    tokens: int = 1
    priority: int = 0
    partition: str | None = None
    # A token with this key is enqueued once within `window_s`, or once in the execution where that is None.
    dedupe: str | None = None
    window_s: float | None = None
    cancel: tuple[str, ...] = ()  # steps whose tokens are withdrawn first; "*" cancels the execution
    compensates: bool = False  # its tokens wait until everything registered is undone
    delay_s: float = 0.0


def create_tokens(
    plan: Plan, draft: Draft, execution: Execution, run: StepRun, fired: Sequence[FiredArc], at: float
) -> None:
    """Create the tokens of all arcs that fire for the same event."""
    assert run.ended is not None
    # A single token stays in the group of its parent; only several tokens can meet at a join again.
    own = execution.tokens[run.token.token_id].fork
    several = sum([arc.tokens for arc in fired]) > 1
    fork = fork_id_of(execution.execution_id, run.ended.event_id) if several else own
    seen: set[str] = set()
    for arc in fired:
        for ordinal in range(arc.tokens):
            _create_token(plan, draft, execution, run, arc, ordinal, fork, seen, at)


def _create_token(
    plan: Plan,
    draft: Draft,
    execution: Execution,
    run: StepRun,
    fired: FiredArc,
    ordinal: int,
    fork: str | None,
    seen: set[str],
    at: float,
) -> None:
    assert run.ended is not None
    source = run.ended.event_id
    # Derived from the boundary event: a repeated decision creates the same tokens (docs/decisions/0013).
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
        # Created and dropped instead of not created, so that the log explains why a token is missing.
        draft.add(TokenDropped(token_id=token_id, reason="duplicate"), **about)
        return
    until = at + fired.delay_s if fired.delay_s else None
    # A compensation holds the token first (SAGA-02); its delay follows, unless it is over by then.
    if fired.compensates:
        draft.add(TokenHeld(token_id=token_id, reason=COMPENSATION, until=until), **about)
    elif until is not None:
        draft.add(TokenHeld(token_id=token_id, reason=DELAY, until=until), **about)  # V2C-12, ADV-05
    else:
        _enqueue(plan, draft, execution, token_id, fired.target, fork, **about)


def enqueue_compensated(plan: Plan, execution: Execution, token: Token, at: float) -> Decision:
    """Enqueue a token after the compensation that it waited for, or hold it for the rest of its delay."""
    draft = Draft(execution, at, execution.log.last_event_id)
    about: dict[str, Any] = {
        "step": token.step,
        "step_run_id": run_id_of(token.token_id),
        "parent_id": execution.log.last_event_id,
    }
    if token.not_before > at:
        draft.add(TokenHeld(token_id=token.token_id, reason=DELAY, until=token.not_before), **about)
    else:
        _enqueue(plan, draft, execution, token.token_id, token.step, token.fork, **about)
    return draft.decision()


def release_due_token(plan: Plan, execution: Execution, token: Token, at: float) -> Decision:
    """Release a token whose due time has come. Under a rate that time may be too late, so that all waiting tokens get
    new start times."""
    if token.held == RATE and (late := rescheduled_tokens(plan, execution, token, at)) is not None:
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
        known = execution.held.forks.get(fork)  # None: this very decision opens the group
        if known is not None and target in known.joined:
            draft.add(TokenDropped(token_id=token_id, reason="late"), **about)
        else:
            draft.add(TokenHeld(token_id=token_id, reason=JOIN), **about)


def _is_repeat(execution: Execution, fired: FiredArc, seen: set[str], at: float) -> bool:
    """Whether this arc enqueued the same key before, within the window (ADV-04)."""
    if fired.dedupe is None:
        return False
    if fired.dedupe in seen:
        return True
    seen.add(fired.dedupe)
    before = execution.held.deduped.get(fired.dedupe)
    return before is not None and (fired.window_s is None or at - before < fired.window_s)
