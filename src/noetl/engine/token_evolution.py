"""How the events of tokens change the state, from their creation to their end.

Part of `evolve`, which alone calls these functions (EVT-07). They decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.engine import concurrency_limits
from noetl.engine import step_evolution as steps
from noetl.engine.execution import WITHDRAWN, Due, Execution, StepRun, Token
from noetl.engine.side_runs import evolution as side_runs
from noetl.engine.waits import evolution as waits
from noetl.events.control import JoinFilled, JoinUnfilled, TokenHeld
from noetl.events.envelope import Event
from noetl.events.outcomes import Error, Status, TaskResult
from noetl.events.tokens import NextSelected, TokenConsumed, TokenCreated, TokenDropped, TokenEnqueued
from noetl.events.waits import TokenReleased


def _on_enqueued(execution: Execution, event: Event, payload: TokenEnqueued) -> None:
    execution.agenda[payload.token_id] = Due.ADMIT


def _on_held(execution: Execution, event: Event, payload: TokenHeld) -> None:
    concurrency_limits.hold_token(execution, payload, event.ts)


def _on_released(execution: Execution, event: Event, payload: TokenReleased) -> None:
    concurrency_limits.release_token(execution, payload, event.ts)


def _on_joined(execution: Execution, event: Event, payload: JoinFilled | JoinUnfilled) -> None:
    concurrency_limits.merge_tokens(execution, payload)


def _on_created(execution: Execution, event: Event, payload: TokenCreated) -> None:
    parent = execution.runs.get(payload.parent_step_run_id or "")
    token = execution.tokens[payload.token_id] = Token(
        token_id=payload.token_id,
        step=payload.step,
        args=payload.args,
        event_id=event.event_id,
        source=parent.ended if parent else None,
        fork=payload.fork,
        priority=payload.priority,
        partition=payload.partition,
    )
    if token.fork is not None:
        opened_in = execution.tokens[parent.token.token_id].fork if parent else None
        concurrency_limits.enter_fork(execution, token, token.fork, opened_in=opened_in)
    if payload.dedupe is not None:
        execution.held.deduped[payload.dedupe] = event.ts


def _on_dropped(execution: Execution, event: Event, payload: TokenDropped) -> None:
    """Remove a token, wherever it is: on its way, held, or with a step run."""
    run = execution.runs.pop(steps.run_id_in(event), None)
    if run is not None:
        execution.open_waits.listeners.pop(run.step_run_id, None)
        side_runs.forget_handlers(execution, run.step_run_id)
        execution.agenda.pop(run.step_run_id, None)
        for order_id in (
            run.loop.ranges if run.loop else (run.lease.order_id,) if run.lease.order_id and not run.ended else ()
        ):
            # A worker may still run it. WITHDRAWN distinguishes its report from a late one: the answer is "cancelled".
            steps.close_order(execution, order_id, WITHDRAWN)
        waits.forget_waits(execution, run, event.ts)
    execution.agenda.pop(payload.token_id, None)
    concurrency_limits.remove_token(execution, execution.tokens.pop(payload.token_id))
    note_failure(execution, payload.error)


def note_failure(execution: Execution, error: Error | None) -> None:
    """Remember the error, unless there is one already: an execution fails with its first error (ROUTE-08)."""
    if execution.lifecycle.error is None:
        execution.lifecycle.error = error


def _on_next_selected(execution: Execution, event: Event, payload: NextSelected) -> None:
    if payload.ended == "failed":
        note_failure(execution, payload.error)
    elif payload.ended == "done":
        for step in _result_steps(execution, execution.runs[steps.run_id_in(event)]):
            # Removed first, so that the step that finished last is the last one of the dict (O-08).
            execution.outputs.ends.pop(step, None)
            execution.outputs.ends[step] = execution.outputs.results[step]


def _result_steps(execution: Execution, run: StepRun) -> list[str]:
    """The steps whose results a token leaves at its end: its last step. If that step has no task and no result of its
    own, the steps that led to it, if they have results (DOC-11, C-40)."""
    token = execution.tokens[run.token.token_id]
    if not run.traits.bare or run.step_waits.armed or _has_value(execution.outputs.results[run.step]):
        return [run.step]
    sources = [str(source["from"]) for source in token.inputs] or [token.source.step if token.source else ""]
    return [
        step for step in sources if step in execution.outputs.results and _has_value(execution.outputs.results[step])
    ] or [run.step]


def _has_value(result: TaskResult) -> bool:
    return result.status is Status.SUCCESS and (result.result is not None or result.ref is not None)


def _on_consumed(execution: Execution, event: Event, payload: TokenConsumed) -> None:
    """Remove a token with its step run, or one that was merged into another at a join."""
    concurrency_limits.remove_token(execution, execution.tokens.pop(payload.token_id))
    run_id = steps.run_id_in(event)
    if (run := execution.runs.pop(run_id, None)) is not None:
        waits.forget_waits(execution, run, event.ts)
        if execution.side_work.handlers:
            side_runs.forget_handlers(execution, run_id)
        del execution.agenda[run_id]


# By class, as `STEP_HANDLERS`.
TOKEN_HANDLERS: dict[type, Callable[[Execution, Event, Any], None]] = {
    TokenCreated: _on_created,
    TokenEnqueued: _on_enqueued,
    TokenDropped: _on_dropped,
    TokenConsumed: _on_consumed,
    TokenHeld: _on_held,
    TokenReleased: _on_released,
    JoinFilled: _on_joined,
    JoinUnfilled: _on_joined,
    NextSelected: _on_next_selected,
}
