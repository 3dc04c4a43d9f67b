"""Cancelled orders: what their tools have begun elsewhere is ended when nobody wants it any more (SRV-11).

That an order was stopped does not say so: its lease may be another worker's now, who goes on with the same jobs. So the
server is asked, with a report that has nothing in it. A slot does not wait for the answer; the worker's end does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from noetl.base.errors import NoetlError
from noetl.events.orders import Order, Report, ReportResult, Turn
from noetl.worker.control_plane import ControlPlane

Begun = dict[str, Callable[[], Awaitable[Any]]]  # by a name of the tool's own, what ends it

PATIENCE_S = 30.0
_NOBODYS = (ReportResult.CANCELLED, ReportResult.TERMINAL)
_log = logging.getLogger(__name__)


class CancelledOrders:
    def __init__(self, control_plane: ControlPlane, worker_id: str) -> None:
        self._control_plane, self._worker_id = control_plane, worker_id
        self._ending: set[asyncio.Task[None]] = set()

    def end(self, order: Order, begun: Begun, verdict: ReportResult | None = None) -> None:
        """The order was stopped: what it has begun ends, unless somebody else has the order. `verdict` is what the
        server said of it, if it has."""
        if begun:
            ending = asyncio.ensure_future(self._end(order, dict(begun), verdict))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def settled(self) -> None:
        """Return once it has all been tried."""
        if self._ending:
            await asyncio.wait(self._ending)

    async def _end(self, order: Order, begun: Begun, verdict: ReportResult | None) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                if (verdict or await self._verdict(order)) not in _NOBODYS:
                    return
                # All of them, whatever becomes of one: a job that is left running costs money.
                told = await asyncio.gather(*(end() for end in begun.values()), return_exceptions=True)
        except (NoetlError, TimeoutError) as problem:
            told = [problem]
        for one in told:
            if isinstance(one, Exception):  # told by its kind alone: what it says may hold a secret
                kind = getattr(one, "kind", type(one).__name__)
                _log.warning("something that order %s had begun could not be ended: %s", order.order_id, kind)

    async def _verdict(self, order: Order) -> ReportResult:
        nothing = Report(
            order_id=order.order_id,
            execution_id=order.execution_id,
            lease_epoch=order.lease_epoch,
            worker_id=self._worker_id,
            entries=(),
        )
        return (await self._control_plane.turn(Turn(worker_id=self._worker_id, reports=(nothing,)))).verdicts[0]
