"""Takeover: going on with an execution whose process has ended, and with its children (SRV-12).

For a run that drives its own executions. A server takes over nothing: what is to be done stands in the store, and
leases run out there.
"""

from __future__ import annotations

from collections.abc import Callable

from noetl.base.clock import Clock
from noetl.base.errors import RefusedError
from noetl.control.commit.decisions import Decisions, ready_of
from noetl.store.contract import OrderRow, OrderState, Store

IsGone = Callable[[str], bool]


async def take_over(decisions: Decisions, store: Store, clock: Clock, execution_id: str, is_gone: IsGone) -> None:
    """Inside a batch. `is_gone` tells whether the owner of a lease has certainly ended; RefusedError where one has
    not."""
    execution = (await decisions.load(execution_id)).execution
    decisions.effects.note_taken_up(execution)
    if execution.is_open:
        open_orders = await store.orders(execution_id)
        # All are checked before any is taken: a refusal half-way would leave some claimed by nobody.
        for order in open_orders:
            _refuse_if_held(order, clock.now(), is_gone)
        for order in open_orders:
            # Their leases have not run out in the store. The epoch limits this to the leases of the dead process.
            decisions.abandoned.add((order.order_id, order.lease_epoch))
            decisions.ready.add(ready_of(order))
        decisions.effects.notify_workers()
    # Also of an execution that is over: children that were started without waiting go on by themselves.
    for child in await store.children(execution_id):
        if child.finished_at is None:
            await take_over(decisions, store, clock, child.execution_id, is_gone)


def _refuse_if_held(order: OrderRow, now: float, is_gone: IsGone) -> None:
    owner = order.lease_owner or ""
    left_s = (order.lease_until or 0.0) - now
    if order.state is OrderState.LEASED and left_s > 0 and not is_gone(owner):
        raise RefusedError(f"execution {order.execution_id} is being run by {owner}; its lease ends in {left_s:.0f} s")
