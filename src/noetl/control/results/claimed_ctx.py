"""Claimed ctx: `ctx` as it was when an order was given out, told from the log (SCOPE-03).

What was written since may be the word of the very worker that holds the order.
"""

from __future__ import annotations

from typing import Any

from noetl.engine.pipeline.patches import write
from noetl.events.envelope import Event
from noetl.events.executions import ExecutionRequested
from noetl.events.large_values import Load, put_back
from noetl.events.loops import LoopDone
from noetl.events.side_runs import OrderClaimed
from noetl.events.steps import CtxPatched, StepDone, StepFailed
from noetl.events.tokens import TokenClaimed
from noetl.store.contract import SingleRow, Store

_PAGE = 2_000
# Only these types are read: the log of a long execution is mostly task events, which say nothing of `ctx`.
_ENDS = tuple(kind.event_type for kind in (TokenClaimed, OrderClaimed, StepDone, StepFailed, LoopDone))
_TYPES = tuple(kind.event_type for kind in (ExecutionRequested, CtxPatched, TokenClaimed, OrderClaimed))


async def events_until_claim(store: Store, execution_id: str, order_id: str, lease_epoch: int) -> list[Event]:
    """What says what `ctx` was, up to the claim of the order under this epoch."""
    found: list[Event] = []
    after = 0
    while page := await store.events(execution_id, after=after, only=SingleRow(types=_TYPES, limit=_PAGE)):
        for event in page:
            match event.payload:
                case TokenClaimed() | OrderClaimed():
                    if (event.payload.order_id, event.payload.lease_epoch) == (order_id, lease_epoch):
                        return found
                case _:
                    found.append(event)
        after = page[-1].seq
    return found


async def steps_ended_since(store: Store, execution_id: str, order_id: str, lease_epoch: int) -> frozenset[str]:
    """The steps that have ended since the order was claimed under this epoch: its holder has not heard of that."""
    ended: set[str] = set()
    after, is_claimed = 0, False
    while page := await store.events(execution_id, after=after, only=SingleRow(types=_ENDS, limit=_PAGE)):
        for event in page:
            payload = event.payload
            if isinstance(payload, TokenClaimed | OrderClaimed):
                is_claimed |= (payload.order_id, payload.lease_epoch) == (order_id, lease_epoch)
            elif is_claimed and event.step is not None:
                ended.add(event.step)
        after = page[-1].seq
    return frozenset(ended)


def ctx_of(events: list[Event], load: Load) -> dict[str, Any]:
    ctx: dict[str, Any] = {}
    for event in events:
        payload = put_back(event.payload, load)
        if isinstance(payload, CtxPatched):
            write(ctx, payload.patch)
        elif isinstance(payload, ExecutionRequested) and payload.carried is not None:
            # A rerun from a step begins with the `ctx` that the earlier run had there.
            ctx = dict(payload.carried.ctx)
    return ctx
