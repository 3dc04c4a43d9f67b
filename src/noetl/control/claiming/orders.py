"""Orders: their rows in the outbox, the order that a worker receives, and the terms of its lease."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, assert_never

import msgspec

from noetl.base.durations import seconds
from noetl.control.claiming.order_needs import results_for
from noetl.engine import decision
from noetl.engine.execution import Execution, lease_under
from noetl.engine.loops.scopes import ctx_for, iterations_of
from noetl.engine.loops.state import Range
from noetl.engine.plan import Plan
from noetl.engine.scopes import token_of
from noetl.engine.side_runs.orders import side_run_fields
from noetl.engine.waits.times import expiries_of
from noetl.events.orders import LeaseTerms, Order
from noetl.store.contract import DEFAULT_POOL, OrderRow, OrderState

_USUAL = LeaseTerms()
TtlOf = Callable[[str], float]  # of a lease on an order of this step run
# Bounds for lease times of playbooks and for renewals by workers: neither may lock an order forever, nor have leases
# so short that every heartbeat comes late.
LEAST_S, MOST_S = 0.5, 86_400.0
_BEATS = 6  # heartbeats in the time of one lease, unless the playbook says otherwise


def order_rows(
    execution_id: str, effects: Iterable[decision.Effect], *, now: float, ttl_of: TtlOf = lambda _: _USUAL.ttl_s
) -> tuple[OrderRow, ...]:
    """One row for each order that the effects touch, in its last state."""
    # By order: a batch may dispatch, lease and close one order, and the store takes one row of each.
    rows: dict[str, OrderRow] = {}
    # Orders that are not in the store yet.
    fresh: set[str] = set()
    for effect in effects:
        match effect:
            case decision.DispatchStep():
                fresh.add(effect.order_id)
                row = OrderRow(
                    order_id=effect.order_id,
                    execution_id=execution_id,
                    step_run_id=effect.step_run_id,
                    pool=effect.pool or DEFAULT_POOL,
                    priority=effect.priority,
                )
            case decision.LeaseOrder():
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
            case decision.CloseOrder() if effect.order_id in fresh:
                del rows[effect.order_id]  # made and withdrawn in one commit: no worker has seen it
                continue
            case decision.CloseOrder():
                row = OrderRow(
                    order_id=effect.order_id,
                    execution_id=execution_id,
                    step_run_id=effect.step_run_id,
                    state=OrderState.CLOSED,
                    lease_epoch=effect.lease_epoch,
                )
            case decision.EndExecution() | decision.OpenWait() | decision.CloseWait() | decision.ChangeTask():
                continue
            case (
                decision.PauseChildren()
                | decision.ResumeChildren()
                | decision.CancelChildren()
                | decision.CancelCalled()
            ):
                continue
            case _:
                assert_never(effect)
        rows[effect.order_id] = row
    return tuple(rows.values())


def order_for(
    plan: Plan, execution: Execution, order_id: str, usual: LeaseTerms = _USUAL, *, at: float | None = None
) -> Order:
    """The order that a worker runs: the scopes that its step can read, as of now, and the position in its pipeline
    (WRK-04). Its lease begins `at` that time.

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
        args=run.token.args,
        workload=execution.origin.workload,
        ctx=dict(execution.variables.ctx) if span is None else ctx_for(execution, run, span),
        token=token_of(execution, run),
        results=results_for(plan, run.step, execution.outputs.results),
        position=run.progress.position,
        # A task was under way when the last holder was lost. One with `on_lost: fail` must not be run a second time.
        interrupted=run.progress.in_task,
        expiries=expiries_of(execution, run),
        vars=dict(run.dialect.vars),
        iterations=None if span is None else iterations_of(plan, run, span),
        terms=terms,
        # By the clock of the server. The worker only computes from it how much of the lease is left on arrival.
        lease_until=at + terms.ttl_s if at is not None else 0.0,
    )
    return order if run.side_run is None else msgspec.structs.replace(order, **side_run_fields(execution, run))


def terms_of(plan: Plan, step: str, usual: LeaseTerms) -> LeaseTerms:
    """The lease terms of a step (WRK-03): `step.spec.lease: {ttl, heartbeat}`, else those of the executor's spec, else
    of its limits (O-33), else `usual`, those of the server."""
    lease = plan.lease(step)
    if lease is None:
        return usual
    ttl_s = bounded(_seconds(lease.get("ttl")) or usual.ttl_s)
    every_s = _seconds(lease.get("heartbeat")) or ttl_s / _BEATS
    # A third: a lease must survive two heartbeats that are lost.
    return LeaseTerms(ttl_s=ttl_s, heartbeat_s=min(every_s, ttl_s / 3))


def bounded(ttl_s: float) -> float:
    return min(max(ttl_s, LEAST_S), MOST_S)


def _seconds(duration: Any) -> float | None:
    # The checker refuses an invalid duration. A net that an older version compiled may still have one, and gets the
    # usual terms: a claim must not fail over a setting.
    with suppress(ValueError, TypeError):
        return seconds(duration) if duration is not None else None
    return None
