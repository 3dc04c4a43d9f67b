"""Sending: the tokens that a firing makes. Two or more of them open a fork group (O-01, ADV-03 to ADV-05).

Where its target joins and the token belongs to a group, it is held there at once; a group that was joined there
already has no use for it any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.engine.decision import Draft
from noetl.engine.execution import Execution, StepRun
from noetl.engine.holding import JOIN
from noetl.engine.identity import fork_id_of, run_id_of, token_id_of
from noetl.engine.plan import Plan
from noetl.records.control import TokenHeld
from noetl.records.events import NextEnqueued, TokenCreated, TokenDropped, TokenEnqueued


class Fired(msgspec.Struct, frozen=True, kw_only=True):
    """An arc that fires, rendered. `dedupe` names what may be enqueued once within `window_s`, or once for ever."""

    arc: int
    target: str
    args: dict[str, Any]
    tokens: int = 1
    priority: int = 0
    partition: str | None = None
    dedupe: str | None = None
    window_s: float | None = None
    cancel: tuple[str, ...] = ()


def send(plan: Plan, draft: Draft, execution: Execution, run: StepRun, fired: Sequence[Fired], at: float) -> None:
    """Make the tokens of all arcs that fire together."""
    assert run.ended is not None
    own = execution.tokens[run.token_id].fork
    several = sum(one.tokens for one in fired) > 1
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
        draft.add(TokenDropped(token_id=token_id, reason="duplicate"), **about)
        return
    draft.add(TokenEnqueued(token_id=token_id), **about)
    if fork is not None and plan.step(fired.target).join is not None:
        known = execution.forks.get(fork)  # none: the group is opened by this very firing
        if known is not None and fired.target in known.joined:
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
    before = execution.deduped.get(fired.dedupe)
    return before is not None and (fired.window_s is None or at - before < fired.window_s)
