"""Withdrawal: tokens are dropped together with the step runs and waits that belong to them (beyond.md §1, O-02).

A withdrawn step run has no boundary event, so no arcs fire. Its orders are closed; a worker that still reports on one
is answered "cancelled".
"""

from __future__ import annotations

from collections.abc import Iterable

from noetl.engine.decision import ChangeTask, CloseOrder, CloseWait, Draft
from noetl.engine.execution import Execution, StepRun, Token
from noetl.engine.held_tokens import around
from noetl.engine.identity import run_id_of
from noetl.engine.side_runs.orders import stop_handlers
from noetl.engine.waits.state import WaitKind, withdrawn_task
from noetl.events.tokens import TokenDropped
from noetl.events.waits import TimerCancelled


def withdraw(draft: Draft, execution: Execution, tokens: Iterable[Token], reason: str = "cancelled") -> None:
    """Drop these tokens, and close the waits, orders and handlers of their step runs."""
    for token in tokens:
        step_run_id = run_id_of(token.token_id)
        if (run := execution.runs.get(step_run_id)) is not None and run.step_waits.open:
            close_waits(draft, execution, run)
        draft.add(TokenDropped(token_id=token.token_id, reason=reason), step=token.step, step_run_id=step_run_id)
        if run is not None and run.ended is None:
            close_orders(draft, run)
        if execution.side_work.step_runs:
            stop_handlers(draft, execution, step_run_id)


def close_orders(draft: Draft, run: StepRun) -> None:
    """Close the orders of a step run: its lease, or those of all ranges of its loop."""
    for lease in run.loop.ranges.values() if run.loop else (run.lease,):
        if lease.order_id is not None:
            draft.add_effect(CloseOrder(lease.order_id, run.step_run_id, lease.lease_epoch))


def other_tokens_at(execution: Execution, steps: Iterable[str], but: str) -> list[Token]:
    """The tokens at these steps, except the token `but`."""
    wanted = frozenset(steps)
    return [token for token in execution.tokens.values() if token.step in wanted and token.token_id != but]


def tokens_except(execution: Execution, token_id: str | None = None) -> list[Token]:
    """All tokens of the execution, except `token_id`."""
    return [token for token in execution.tokens.values() if token.token_id != token_id]


def remaining_tokens(execution: Execution, fork_id: str, met: Iterable[str]) -> list[Token]:
    """The tokens of a group and of the groups inside it, except those in `met`."""
    gone = frozenset(met)
    return [
        token
        for token in execution.tokens.values()
        if token.token_id not in gone
        and any(fork.fork_id == fork_id for fork in around(execution.held.forks, token.fork))
    ]


def close_waits(
    draft: Draft, execution: Execution, run: StepRun, *, parent_id: str | None = None, came: str | None = None
) -> None:
    """Withdraw the open waits of `run` and notify the stores that hold them (TMR-04). `came` is the wait that has
    ended by itself."""
    for kind, wait_id in run.step_waits.open.items():
        wait = execution.open_waits.waits[wait_id]
        if kind in (WaitKind.MESSAGE, WaitKind.SIGNAL):
            draft.add_effect(CloseWait(wait_id))
        elif wait_id == came:
            continue
        elif kind is WaitKind.TIMER:
            cancelled = TimerCancelled(wait_id=wait_id, timer_id=wait.name, withdrawn=True)
            draft.add(cancelled, run=run, parent_id=parent_id or wait.event_id)
        else:
            draft.add_effect(ChangeTask(withdrawn_task(execution.open_waits.human_tasks[wait_id], draft.at)))
