"""Where each token of an execution is and what it waits for, in words people can act on (TOK-01, beyond.md).

Told from the state and the rows that belong to it; who asks, and where the rows come from, is not known here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from noetl.base.clock import rfc3339
from noetl.control.views import side_run_views
from noetl.control.views.side_run_views import SideRunView
from noetl.engine.execution import Execution, StepRun, Token
from noetl.engine.waits.state import WaitKind
from noetl.store.contract import OrderRow, OrderState
from noetl.store.human_tasks import TaskRow
from noetl.store.waits import WaitRow

_FIRST = 20  # tokens told one by one
_HELD = {
    "join": "the other tokens of its fork",
    "park": "a change of ctx that lets it in",
    "delay": "its time to come",
    "compensation": "everything to be undone that was done",
    "rate": "the next moment that its rate allows",
}


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """`state`: ready | held | queued | running | looping | waiting. `waits_for` says it in words."""

    token_id: str
    step: str
    state: str
    waits_for: str
    args: dict[str, Any]
    priority: int = 0
    step_run_id: str | None = None
    started_at: str | None = None
    task: str | None = None
    attempt: int | None = None
    order_ids: list[str] = []
    worker_ids: list[str] = []
    pool: str | None = None
    loop: dict[str, int] | None = None


class _Surrounding(msgspec.Struct):
    """Rows that belong to an execution, and when the timers of its step runs fire."""

    orders: dict[str, OrderRow]
    waits: dict[str, list[WaitRow]]
    tasks: dict[str, list[TaskRow]]
    timers: dict[str, float]


def tokens_of(
    execution: Execution, orders: Iterable[OrderRow], waits: Iterable[WaitRow], tasks: Iterable[TaskRow]
) -> list[TokenView]:
    """All live tokens, the oldest first; the rows are those of this execution, tasks that are open or claimed."""
    around = _Surrounding({order.order_id: order for order in orders}, {}, {}, {})
    for wait in waits:
        around.waits.setdefault(wait.step_run_id, []).append(wait)
    for task in tasks:
        around.tasks.setdefault(task.step_run_id, []).append(task)
    runs = {run.token_id: run for run in execution.runs.values() if run.side_run is None}
    around.timers.update(
        (wait.step_run_id, wait.due_at)
        for wait in execution.open_waits.waits.values()
        if wait.kind is WaitKind.TIMER and wait.due_at is not None
    )
    return [_token_view(token, runs.get(token.token_id), around) for token in execution.tokens.values()]


def sentences_of(
    execution: Execution,
    tokens: Collection[TokenView],
    side_runs: Collection[SideRunView] = (),
    *,
    failed_at: str | None = None,
) -> list[str]:
    """Why it is where it is, one sentence for each token and for what runs beside them, or how it ended: `failed_at` is
    the step that ended it."""
    if not execution.is_open:
        return _ended_text(execution, failed_at)
    told = [_waiting_line(token) for token in list(tokens)[:_FIRST]]
    if len(tokens) > _FIRST:
        told.append(f"{len(tokens) - _FIRST} more tokens are alive")
    told += side_run_views.sentences_of(side_runs)
    if execution.lifecycle.paused:
        told.insert(0, f"it is paused: noetl resume {execution.execution_id}")
    if execution.wake_at is not None:
        told.append(f"time moves it next at {_time_text(execution.wake_at)}")
    return told


def _ended_text(execution: Execution, failed_at: str | None) -> list[str]:
    if execution.lifecycle.status is None:
        return []
    told = [f"it is over: {execution.lifecycle.status.value}"]
    if (error := execution.lifecycle.error) is not None:
        told.append(f"it failed{f' at step {failed_at}' if failed_at else ''} with {error.kind}: {error.message}")
        cause = error.cause
        while cause is not None:
            told.append(f"because of {cause.kind}: {cause.message}")
            cause = cause.cause
    return told


def _waiting_line(token: TokenView) -> str:
    task = f", task {token.task}" if token.task and token.state == "running" else ""
    attempt = f", attempt {token.attempt}" if token.attempt and token.attempt > 1 else ""
    return f"step {token.step}{task}{attempt} is {token.state}: it waits for {token.waits_for}"


def loop_of(run: Any) -> dict[str, int] | None:
    """How far a looped step run is: its outermost level."""
    if run.loop is None:
        return None
    frame = run.loop.frames.get(())
    total = frame.total if frame is not None else 0
    return {
        "total": total,
        "done": frame.done if frame is not None else run.loop.done,
        "failed": frame.failed if frame is not None else run.loop.failed,
        "running": len(run.loop.begun),
    }


def _token_view(token: Token, run: StepRun | None, around: _Surrounding) -> TokenView:
    common: dict[str, Any] = {
        "token_id": token.token_id,
        "step": token.step,
        "args": token.args,
        "priority": token.priority,
    }
    if run is None:
        if token.held is None:
            return TokenView(**common, state="ready", waits_for="nothing: it is about to be admitted")
        return TokenView(**common, state="held", waits_for=_held(token))
    orders = [around.orders[one] for one in _order_ids(run) if one in around.orders]
    state, waits_for = _state_and_wait(run, orders, around)
    return TokenView(
        **common,
        state=state,
        waits_for=waits_for,
        step_run_id=run.step_run_id,
        started_at=rfc3339(run.timing.started_at) if run.timing.started_at is not None else None,
        task=run.position.task,
        attempt=run.position.attempt,
        order_ids=[order.order_id for order in orders],
        worker_ids=sorted({order.lease_owner for order in orders if order.lease_owner}),
        pool=orders[0].pool if orders else None,
        loop=loop_of(run),
    )


def _order_ids(run: StepRun) -> list[str]:
    if run.loop is not None:
        return list(run.loop.ranges)
    return [run.lease.order_id] if run.lease.order_id is not None else []


def _held(token: Token) -> str:
    if token.held == "limit":
        return f"a free place under the limit of {token.slot}"
    return _HELD.get(token.held or "", token.held or "")


def _state_and_wait(run: StepRun, orders: list[OrderRow], around: _Surrounding) -> tuple[str, str]:
    if told := _outside(run.step_run_id, around):
        return "waiting", told
    leased = [order for order in orders if order.state is OrderState.LEASED]
    ready = [order for order in orders if order.state is OrderState.READY]
    if run.loop is not None:
        how = loop_of(run) or {}
        ended = how.get("done", 0) + how.get("failed", 0)
        return "looping", f"its iterations: {ended} of {how.get('total', 0)} have ended"
    if leased:
        owners = ", ".join(sorted({order.lease_owner or "" for order in leased}))
        return "running", f"worker {owners} to report"
    if ready:
        return "queued", f'a worker of the pool "{ready[0].pool}" to take it'
    return "waiting", "an event, or a moment that has not come"


def _outside(step_run_id: str, around: _Surrounding) -> str:
    fires_at = around.timers.get(step_run_id)
    words = [f"its timer, at {_time_text(fires_at)}"] if fires_at is not None else []
    words += [
        f'{wait.kind} "{wait.name}"' + (f" with {wait.correlation}" if wait.correlation != "{}" else "")
        for wait in around.waits.get(step_run_id, [])
    ]
    words += [
        f'human task "{task.title}" ({task.state.value}, {task.claimed_by or task.role or task.user or "anybody"})'
        for task in around.tasks.get(step_run_id, [])
    ]
    return ", or ".join(words)


def _time_text(at: float) -> str:
    """A moment as people read it: to the second."""
    return rfc3339(at)[:19] + "Z"
