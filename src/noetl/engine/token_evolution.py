"""How the events of tokens change the state, from their appearance to their end, and what their end leaves behind.

Called by `engine.evolve`, which is the only door (EVT-07).
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


def _enqueued(execution: Execution, event: Event, payload: TokenEnqueued) -> None:
    execution.agenda[payload.token_id] = Due.ADMIT


def _held(execution: Execution, event: Event, payload: TokenHeld) -> None:
    concurrency_limits.hold(execution, payload, event.ts)


def _released(execution: Execution, event: Event, payload: TokenReleased) -> None:
    concurrency_limits.release(execution, payload, event.ts)


def _joined(execution: Execution, event: Event, payload: JoinFilled | JoinUnfilled) -> None:
    concurrency_limits.merge_tokens(execution, payload)


def _created(execution: Execution, event: Event, payload: TokenCreated) -> None:
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
        opened_in = execution.tokens[parent.token_id].fork if parent else None
        concurrency_limits.enter(execution, token, token.fork, opened_in=opened_in)
    if payload.dedupe is not None:
        execution.held.deduped[payload.dedupe] = event.ts


def _dropped(execution: Execution, event: Event, payload: TokenDropped) -> None:
    """From wherever it was: on its way, held, or with a step run that nobody wants any more."""
    run = execution.runs.pop(steps.run_id_in(event), None)
    if run is not None:
        execution.open_waits.listeners.pop(run.step_run_id, None)
        side_runs.forget_handlers(execution, run.step_run_id)
        execution.agenda.pop(run.step_run_id, None)
        for order_id in (
            run.loop.ranges if run.loop else (run.lease.order_id,) if run.lease.order_id and not run.ended else ()
        ):
            # A worker may still run it. Its report is told from a late one by this mark, and answered as cancelled.
            steps.close(execution, order_id, WITHDRAWN)
        waits.forget(execution, run, event.ts)
    execution.agenda.pop(payload.token_id, None)
    concurrency_limits.leave(execution, execution.tokens.pop(payload.token_id))
    note_failure(execution, payload.error)


def note_failure(execution: Execution, error: Error | None) -> None:
    if execution.lifecycle.error is None:  # the execution ends with the first one (ROUTE-08)
        execution.lifecycle.error = error


def _selected(execution: Execution, event: Event, payload: NextSelected) -> None:
    if payload.ended == "failed":
        note_failure(execution, payload.error)
    elif payload.ended == "done":
        for step in _result_steps(execution, execution.runs[steps.run_id_in(event)]):
            execution.outputs.ends.pop(step, None)  # the last finished one comes last (O-08)
            execution.outputs.ends[step] = execution.outputs.results[step]


def _result_steps(execution: Execution, run: StepRun) -> list[str]:
    """Whose results the end of a token leaves: its last step's. A terminal place has none of its own (DOC-11, C-40),
    so whatever led to it speaks, if that had something to say."""
    token = execution.tokens[run.token_id]
    if not run.bare or run.step_waits.armed or _has_value(execution.outputs.results[run.step]):
        return [run.step]
    sources = [str(one["from"]) for one in token.inputs] or [token.source.step if token.source else ""]
    return [
        step for step in sources if step in execution.outputs.results and _has_value(execution.outputs.results[step])
    ] or [run.step]


def _has_value(result: TaskResult) -> bool:
    return result.status is Status.SUCCESS and (result.result is not None or result.ref is not None)


def _consumed(execution: Execution, event: Event, payload: TokenConsumed) -> None:
    """With its step run, or in a join, where another token went on."""
    concurrency_limits.leave(execution, execution.tokens.pop(payload.token_id))
    run_id = steps.run_id_in(event)
    if (run := execution.runs.pop(run_id, None)) is not None:
        waits.forget(execution, run, event.ts)
        if execution.side_work.handlers:
            side_runs.forget_handlers(execution, run_id)
        del execution.agenda[run_id]


# By class, as those of step runs are.
FOLLOWERS: dict[type, Callable[[Execution, Event, Any], None]] = {
    TokenCreated: _created,
    TokenEnqueued: _enqueued,
    TokenDropped: _dropped,
    TokenConsumed: _consumed,
    TokenHeld: _held,
    TokenReleased: _released,
    JoinFilled: _joined,
    JoinUnfilled: _joined,
    NextSelected: _selected,
}
