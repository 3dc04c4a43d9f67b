"""Token views: where each token of an execution is and what it waits for, in words for people (TOK-01, beyond.md). Also
side runs: compensations, event handlers and asynchronous tasks, which run beside the tokens.

Both are made from the state of the execution and its rows in the store, which the caller reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from noetl.base.clock import rfc3339
from noetl.engine.execution import Execution, StepRun, Token
from noetl.engine.side_runs.state import SideRun, SideRunKind
from noetl.engine.waits.state import WaitKind
from noetl.events.executions import Final
from noetl.store.contract import OrderRow, OrderState
from noetl.store.human_tasks import TaskRow
from noetl.store.waits import WaitRow

_FIRST = 20  # tokens or side runs with a sentence of their own; the others are counted
_HELD = {
    "join": "the other tokens of its fork",
    "park": "a change of ctx that lets it in",
    "delay": "its time to come",
    "compensation": "everything to be undone that was done",
    "rate": "the next moment that its rate allows",
}


class OutsideWait(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody outside can end: a `message` or `signal` to send, or a `human` task. `task_id` is that of a human
    task, whose title is `name`."""

    kind: str
    name: str
    correlation: dict[str, Any] = {}
    task_id: str | None = None


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """`state`: ready | held | queued | running | looping | waiting. `waits_for` says it in words. `task_starts` is how
    often this attempt of its task was begun: more than once after a lease was lost. `outside` is what a message, a
    signal or a person can end."""

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
    task_starts: int = 0
    order_ids: list[str] = []
    worker_ids: list[str] = []
    pool: str | None = None
    loop: dict[str, int] | None = None
    outside: list[OutsideWait] = []


class _Surrounding(msgspec.Struct):
    """The rows of an execution, by order or step run, and the times at which timers of its step runs fire. `now` tells
    which leases have run out."""

    now: float
    orders: dict[str, OrderRow]
    waits: dict[str, list[WaitRow]]
    tasks: dict[str, list[TaskRow]]
    timers: dict[str, float]


def tokens_of(
    execution: Execution, orders: Iterable[OrderRow], waits: Iterable[WaitRow], tasks: Iterable[TaskRow], now: float
) -> list[TokenView]:
    """All live tokens, the oldest first. The rows are those of this execution; tasks are open or claimed ones."""
    around = _Surrounding(now, {order.order_id: order for order in orders}, {}, {}, {})
    for wait in waits:
        around.waits.setdefault(wait.step_run_id, []).append(wait)
    for task in tasks:
        around.tasks.setdefault(task.step_run_id, []).append(task)
    # A side run has no token; `side_runs_of` lists it.
    runs = {run.token.token_id: run for run in execution.runs.values() if run.side_run is None}
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
    """The state of an execution: one sentence for each token and side run, or how it ended. `failed_at` is the step
    that ended it."""
    if not execution.is_open:
        return _end_sentences(execution, failed_at)
    sentences = [_token_sentence(token) for token in list(tokens)[:_FIRST]]
    if len(tokens) > _FIRST:
        sentences.append(f"{len(tokens) - _FIRST} more tokens are alive")
    sentences += side_run_sentences(side_runs)
    if execution.wake_at is not None:
        sentences.append(f"the next timer is due at {_time_text(execution.wake_at)}")
    return sentences


def _end_sentences(execution: Execution, failed_at: str | None) -> list[str]:
    status, error = execution.lifecycle.status, execution.lifecycle.error
    if status is None:
        return []
    if error is None:
        return [f"the execution has ended: {status.value}"]
    if status is Final.CANCELLED:
        return [f"the execution was cancelled: {error.message}"]
    sentences = [f"the execution failed{f' in step {failed_at}' if failed_at else ''}: {error.kind}: {error.message}"]
    cause = error.cause
    while cause is not None:
        sentences.append(f"because of {cause.kind}: {cause.message}")
        cause = cause.cause
    return sentences


def _token_sentence(token: TokenView) -> str:
    task = f", task {token.task}" if token.task and token.state == "running" else ""
    attempt = f", attempt {token.attempt}" if token.attempt and token.attempt > 1 else ""
    sentence = f"step {token.step}{task}{attempt} is {token.state}: it waits for {token.waits_for}"
    if token.task_starts > 1 and token.state == "running":
        # A remark for authors about a task that is not idempotent.
        sentence += f"; it was begun {token.task_starts} times, since its worker was lost or cut off before"
    return sentence


def loop_of(run: Any) -> dict[str, int] | None:
    """The progress of a looped step run: the counts of its outermost level."""
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
        return TokenView(**common, state="held", waits_for=_held_text(token))
    orders = [around.orders[order_id] for order_id in _order_ids(run) if order_id in around.orders]
    state, waits_for = _state_and_wait(run, orders, around)
    return TokenView(
        **common,
        state=state,
        waits_for=waits_for,
        step_run_id=run.step_run_id,
        started_at=rfc3339(run.timing.started_at) if run.timing.started_at is not None else None,
        task=run.progress.position.task,
        attempt=run.progress.position.attempt,
        task_starts=run.progress.task_starts,
        order_ids=[order.order_id for order in orders],
        worker_ids=sorted(
            {order.lease_owner for order in orders if order.lease_owner and not order.is_claimable(around.now)}
        ),
        pool=orders[0].pool if orders else None,
        loop=loop_of(run),
        outside=_outside_waits(run.step_run_id, around),
    )


def _order_ids(run: StepRun) -> list[str]:
    if run.loop is not None:
        return list(run.loop.ranges)
    return [run.lease.order_id] if run.lease.order_id is not None else []


def _held_text(token: Token) -> str:
    if token.held == "limit":
        return f"a free place under the limit of {token.slot}"
    return _HELD.get(token.held or "", token.held or "")


def _state_and_wait(run: StepRun, orders: list[OrderRow], around: _Surrounding) -> tuple[str, str]:
    # Told before its orders: this is what people outside can act on.
    if outside := _outside_text(run.step_run_id, around):
        return "waiting", outside
    ready = [order for order in orders if order.is_claimable(around.now)]
    leased = [order for order in orders if order.state is OrderState.LEASED and order not in ready]
    if run.loop is not None:
        progress = loop_of(run) or {}
        ended = progress.get("done", 0) + progress.get("failed", 0)
        return "looping", f"its iterations: {ended} of {progress.get('total', 0)} have ended"
    if leased:
        owners = ", ".join(sorted({order.lease_owner or "" for order in leased}))
        return "running", f"worker {owners} to report"
    if ready:
        return "queued", _queued_text(ready[0])
    return "waiting", "an event, or a moment that has not come"


def _queued_text(order: OrderRow) -> str:
    if order.state is OrderState.READY:
        return f'a worker of the pool "{order.pool}" to take it'
    what = "is lost" if order.lease_until else "has given it back"
    return f'a worker of the pool "{order.pool}" to take it again: worker {order.lease_owner}, which held it, {what}'


def _outside_text(step_run_id: str, around: _Surrounding) -> str:
    """The timers, messages, signals and people that a step run waits for; empty when there are none."""
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


def _outside_waits(step_run_id: str, around: _Surrounding) -> list[OutsideWait]:
    return [
        *(
            OutsideWait(kind=wait.kind, name=wait.name, correlation=msgspec.json.decode(wait.correlation))
            for wait in around.waits.get(step_run_id, [])
        ),
        *(
            OutsideWait(kind="human", name=task.title, task_id=task.task_id)
            for task in around.tasks.get(step_run_id, [])
        ),
    ]


def _time_text(at: float) -> str:
    """A time for people to read: to the second."""
    return rfc3339(at)[:19] + "Z"


class SideRunView(msgspec.Struct, frozen=True, kw_only=True):
    """`kind`: compensation | handler | async; `state`: pending (others are undone first) | queued | running | retrying.
    `waits_for` says it in words. `event` is what a handler handles, `owner` the step run it belongs to. The times are
    when it was begun, until when its worker holds it, and when its task is run again."""

    kind: str
    step: str
    state: str
    waits_for: str
    task: str | None = None
    attempt: int = 1
    step_run_id: str | None = None
    owner: str | None = None
    event: str | None = None
    interrupting: bool = False
    pool: str | None = None
    worker_id: str | None = None
    started_at: str | None = None
    lease_until: str | None = None
    retry_at: str | None = None


def side_runs_of(execution: Execution, orders: Iterable[OrderRow], now: float) -> list[SideRunView]:
    """All side runs, the oldest first, then the compensations that are to follow. The orders are those of this
    execution."""
    rows = {order.order_id: order for order in orders}
    views = []
    for run_id in execution.side_work.step_runs:
        run = execution.runs[run_id]
        if run.side_run is not None:
            views.append(_side_run_view(run, run.side_run, rows.get(run.lease.order_id or ""), now))
    saga = execution.side_work.saga
    for registered in saga.todo.values() if saga is not None else ():
        waits_for = "those before it to be undone"
        step, task = registered.step, registered.task
        views.append(SideRunView(kind="compensation", step=step, state="pending", waits_for=waits_for, task=task))
    return views


def _side_run_view(run: StepRun, side_run: SideRun, order: OrderRow | None, now: float) -> SideRunView:
    state, waits_for = _side_run_state_and_wait(run, order, now)
    about: dict[str, Any] = {}
    if side_run.kind is not SideRunKind.COMPENSATION:
        about["owner"] = side_run.of
    if side_run.event is not None:
        about |= {"event": side_run.event.name, "interrupting": side_run.interrupting}
    leased = order if order is not None and not order.is_claimable(now) else None
    return SideRunView(
        kind=side_run.kind.value,
        step=run.step,
        state=state,
        waits_for=waits_for,
        task=run.progress.position.task or side_run.task or None,
        attempt=run.progress.position.attempt,
        step_run_id=run.step_run_id,
        pool=order.pool if order is not None else run.lease.pool,
        worker_id=run.lease.worker_id if leased is not None else None,
        started_at=rfc3339(run.timing.started_at) if run.timing.started_at is not None else None,
        lease_until=rfc3339(leased.lease_until) if leased is not None and leased.lease_until is not None else None,
        retry_at=rfc3339(run.progress.position.not_before) if state == "retrying" else None,
        **about,
    )


def _side_run_state_and_wait(run: StepRun, order: OrderRow | None, now: float) -> tuple[str, str]:
    if order is None:
        return "queued", f'a worker of the pool "{run.lease.pool or "default"}" to take it'
    if order.is_claimable(now):
        return "queued", _queued_text(order)
    lease = f"lease {order.lease_epoch}, which ends at {rfc3339(order.lease_until)}" if order.lease_until else ""
    position = run.progress.position
    if not run.progress.in_task and position.attempt > 1 and position.not_before > now:
        return "retrying", f"its next attempt, due at {rfc3339(position.not_before)}"
    return "running", f"worker {order.lease_owner} to report" + (f" ({lease})" if lease else "")


def side_run_sentences(side_runs: Collection[SideRunView]) -> list[str]:
    """One sentence for each running side run, and one for all compensations that are to follow."""
    running = [view for view in side_runs if view.state != "pending"]
    sentences = [
        f"{_side_run_text(view)}{_task_text(view)} is {view.state}: it waits for {view.waits_for}"
        for view in running[:_FIRST]
    ]
    if len(running) > _FIRST:
        sentences.append(f"{len(running) - _FIRST} more run beside the tokens")
    if pending := [view.step for view in side_runs if view.state == "pending"]:
        more = f" and {len(pending) - _FIRST} more" if len(pending) > _FIRST else ""
        sentences.append(f"to be undone after that, in this order: {', '.join(pending[:_FIRST])}{more}")
    return sentences


def _side_run_text(view: SideRunView) -> str:
    match view.kind:
        case "compensation":
            return f"the compensation of step {view.step}"
        case "handler":
            return f'the handler of step {view.step} for "{view.event}"'
        case _:
            return f"an asynchronous task of step {view.step}"


def _task_text(view: SideRunView) -> str:
    task = f", task {view.task}" if view.task else ""
    return task + (f", attempt {view.attempt}" if view.attempt > 1 else "")
