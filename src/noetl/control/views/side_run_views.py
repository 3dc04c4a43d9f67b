"""Side runs in sight: what runs beside the tokens of an execution, and what it waits for, in words people can act on.

Compensations, handlers of events, and tasks that their pipeline did not wait for; and what is to be undone next. Told
from the state and its orders, as tokens are (`standing`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from noetl.base.clock import rfc3339
from noetl.engine.execution import Execution, StepRun
from noetl.engine.side_runs.state import SideRun, SideRunKind
from noetl.store.contract import OrderRow, OrderState

_FIRST = 20  # told one by one


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
    """All that run, the oldest first, then what is to be undone after that; the orders are those of this execution."""
    rows = {order.order_id: order for order in orders}
    found = []
    for run_id in execution.side_work.step_runs:
        run = execution.runs[run_id]
        if run.side_run is not None:
            found.append(_side_run_view(run, run.side_run, rows.get(run.lease.order_id or ""), now))
    saga = execution.side_work.saga
    for one in saga.todo.values() if saga is not None else ():
        waits_for = "those before it to be undone"
        found.append(
            SideRunView(kind="compensation", step=one.step, state="pending", waits_for=waits_for, task=one.task)
        )
    return found


def _side_run_view(run: StepRun, side_run: SideRun, order: OrderRow | None, now: float) -> SideRunView:
    state, waits_for = _state_and_wait(run, order, now)
    about: dict[str, Any] = {}
    if side_run.kind is not SideRunKind.COMPENSATION:
        about["owner"] = side_run.of
    if side_run.event is not None:
        about |= {"event": side_run.event.name, "interrupting": side_run.interrupting}
    leased = order is not None and order.state is OrderState.LEASED
    return SideRunView(
        kind=side_run.kind.value,
        step=run.step,
        state=state,
        waits_for=waits_for,
        task=run.position.task or side_run.task or None,
        attempt=run.position.attempt,
        step_run_id=run.step_run_id,
        pool=order.pool if order is not None else run.lease.pool,
        worker_id=run.lease.worker_id if leased else None,
        started_at=rfc3339(run.timing.started_at) if run.timing.started_at is not None else None,
        lease_until=_time_text(order.lease_until) if order is not None and leased else None,
        retry_at=rfc3339(run.position.not_before) if state == "retrying" else None,
        **about,
    )


def _state_and_wait(run: StepRun, order: OrderRow | None, now: float) -> tuple[str, str]:
    if order is None or order.state is not OrderState.LEASED:
        return (
            "queued",
            f'a worker of the pool "{order.pool if order is not None else run.lease.pool or "default"}" to take it',
        )
    held = f"lease {order.lease_epoch}, which ends at {_time_text(order.lease_until)}" if order.lease_until else ""
    if not run.in_task and run.position.attempt > 1 and run.position.not_before > now:
        return "retrying", f"its next attempt, due at {rfc3339(run.position.not_before)}"
    return "running", f"worker {order.lease_owner} to report" + (f" ({held})" if held else "")


def _time_text(moment: float | None) -> str | None:
    return rfc3339(moment) if moment is not None else None


def sentences_of(side_runs: Collection[SideRunView]) -> list[str]:
    """One sentence for each that runs, and one for all that are to be undone."""
    running = [one for one in side_runs if one.state != "pending"]
    told = [f"{_side_run_text(one)}{_at(one)} is {one.state}: it waits for {one.waits_for}" for one in running[:_FIRST]]
    if len(running) > _FIRST:
        told.append(f"{len(running) - _FIRST} more run beside the tokens")
    if pending := [one.step for one in side_runs if one.state == "pending"]:
        more = f" and {len(pending) - _FIRST} more" if len(pending) > _FIRST else ""
        told.append(f"to be undone after that, in this order: {', '.join(pending[:_FIRST])}{more}")
    return told


def _side_run_text(one: SideRunView) -> str:
    match one.kind:
        case "compensation":
            return f"the compensation of step {one.step}"
        case "handler":
            return f'the handler of step {one.step} for "{one.event}"'
        case _:
            return f"a task of step {one.step} that nobody waits for"


def _at(one: SideRunView) -> str:
    task = f", task {one.task}" if one.task else ""
    return task + (f", attempt {one.attempt}" if one.attempt > 1 else "")
