"""Orders: as the outbox keeps them, and as a worker receives them. Also the terms of their leases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, assert_never

import msgspec

from noetl.base.durations import seconds
from noetl.control.results.order_reads import results_for
from noetl.engine.decision import (
    CancelCalled,
    CancelChildren,
    ChangeTask,
    CloseOrder,
    CloseWait,
    DispatchStep,
    Effect,
    EndExecution,
    LeaseOrder,
    OpenWait,
    PauseChildren,
    ResumeChildren,
)
from noetl.engine.execution import Execution, lease_under
from noetl.engine.loops.scopes import ctx_for, iterations_of
from noetl.engine.loops.state import Range
from noetl.engine.plan import Plan
from noetl.engine.scopes import token_of
from noetl.engine.side_runs.orders import side_run_of
from noetl.engine.waits.times import expiries_of
from noetl.events.orders import LeaseTerms, Order
from noetl.store.contract import DEFAULT_POOL, OrderRow, OrderState

_USUAL = LeaseTerms()
TtlOf = Callable[[str], float]  # of a lease on an order of this step run
# Bounds of what a playbook may ask for, and of what a worker may ask for when it renews: neither may lock an order for
# ever, nor have leases so short that every heartbeat comes late.
LEAST_S, MOST_S = 0.5, 86_400.0
_BEATS = 6  # in the time of one lease, where nobody says how many


def order_rows(
    execution_id: str, effects: Iterable[Effect], *, now: float, ttl_of: TtlOf = lambda _: _USUAL.ttl_s
) -> tuple[OrderRow, ...]:
    """One row per order that the effects touch, as the last of them leaves it."""
    # By order: a batch may dispatch, lease and close one order, and the store takes one row of each.
    rows: dict[str, OrderRow] = {}
    # Orders that the store has never had.
    fresh: set[str] = set()
    for effect in effects:
        match effect:
            case DispatchStep():
                fresh.add(effect.order_id)
                row = OrderRow(
                    order_id=effect.order_id,
                    execution_id=execution_id,
                    step_run_id=effect.step_run_id,
                    pool=effect.pool or DEFAULT_POOL,
                    priority=effect.priority,
                )
            case LeaseOrder():
                row = OrderRow(
                    order_id=effect.order_id,
                    execution_id=execution_id,
                    step_run_id=effect.step_run_id,
                    state=OrderState.LEASED,
                    pool=effect.pool or DEFAULT_POOL,
                    priority=effect.priority,
                    lease_owner=effect.worker_id,
                    lease_epoch=effect.lease_epoch,
                    lease_until=now + ttl_of(effect.step_run_id),
                )
            case CloseOrder() if effect.order_id in fresh:
                del rows[effect.order_id]  # made and withdrawn in one commit: nobody has seen it
                continue
            case CloseOrder():
                row = OrderRow(
                    order_id=effect.order_id,
                    execution_id=execution_id,
                    step_run_id=effect.step_run_id,
                    state=OrderState.CLOSED,
                    lease_epoch=effect.lease_epoch,
                )
            case EndExecution() | OpenWait() | CloseWait() | ChangeTask():
                continue
            case PauseChildren() | ResumeChildren() | CancelChildren() | CancelCalled():
                continue
            case _:
                assert_never(effect)
        rows[effect.order_id] = row
    return tuple(rows.values())


def order_for(
    plan: Plan, execution: Execution, order_id: str, usual: LeaseTerms = _USUAL, *, at: float | None = None
) -> Order:
    """The order a worker runs: the scopes as of now, as far as the step can read them, and where its pipeline stands
    (WRK-04). Its lease begins `at` that moment, where one is given.

    Mappings that events change in place are copied one level deep; below it, changes copy what they change.
    """
    run = execution.run_of(order_id)
    assert run is not None, "an order that was just claimed has its step run"
    lease = lease_under(run, order_id)
    assert lease is not None
    span = lease if isinstance(lease, Range) else None
    terms = terms_of(plan, run.step, usual)
    order = Order(
        order_id=order_id,
        execution_id=execution.execution_id,
        step_run_id=run.step_run_id,
        step=run.step,
        net_hash=execution.origin.net_hash,
        lease_epoch=lease.lease_epoch,
        trace_id=execution.trace_id,
        args=run.args,
        workload=execution.origin.workload,
        ctx=dict(execution.ctx) if span is None else ctx_for(execution, run, span),
        token=token_of(execution, run),
        results=results_for(plan, run.step, execution.outputs.results),
        position=run.position,
        # A task was under way when the last holder was lost. One with `on_lost: fail` must not be run a second time.
        interrupted=run.in_task,
        expiries=expiries_of(execution, run),
        vars=dict(run.eval_vars.own),
        iterations=None if span is None else iterations_of(plan, run, span),
        terms=terms,
        # By the clock of the server. The worker only uses it to tell how much of the lease is left on arrival.
        lease_until=at + terms.ttl_s if at is not None else 0.0,
    )
    return order if run.side_run is None else msgspec.structs.replace(order, **side_run_of(execution, run))


# Terms of leases: those of the server, unless a playbook or a step of it asks for its own (WRK-03).


def terms_of(plan: Plan, step: str, usual: LeaseTerms) -> LeaseTerms:
    """`usual`, or those of `step.spec.lease: {ttl, heartbeat}`, else of the executor's spec, else of its limits (O-33).
    The heartbeat leaves room for two that are lost."""
    written = plan.lease(step)
    if written is None:
        return usual
    ttl_s = bounded(_seconds(written.get("ttl")) or usual.ttl_s)
    every_s = _seconds(written.get("heartbeat")) or ttl_s / _BEATS
    # A third: a lease must survive two heartbeats that are lost.
    return LeaseTerms(ttl_s=ttl_s, heartbeat_s=min(every_s, ttl_s / 3))


def bounded(ttl_s: float) -> float:
    return min(max(ttl_s, LEAST_S), MOST_S)


def _seconds(written: Any) -> float | None:
    # The checker refuses what is no duration. What comes here all the same, as from a net that an older program
    # compiled, has the usual terms: a claim must not fail over a setting.
    with suppress(ValueError, TypeError):
        return seconds(written) if written is not None else None
    return None
