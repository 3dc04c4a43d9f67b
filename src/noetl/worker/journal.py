"""Journal: what a worker has seen of one order and not yet reported.

Entries leave in the order they were written, one report at a time. What nobody waits for may stay a moment
(DESIGN §3); what must be durable before the next task starts is flushed and awaited.
"""

from __future__ import annotations

import asyncio

from noetl.clock import Clock
from noetl.records.orders import Entry, Order, Report, Timed, Turn, Verdict
from noetl.worker.office import Office


class LeaseLost(Exception):  # noqa: N818  it is not an error of anybody's: the order is another worker's now
    """The server did not accept a report: stop, and touch nothing more."""


class Journal:
    def __init__(self, order: Order, office: Office, clock: Clock, worker_id: str) -> None:
        self._order = order
        self._office = office
        self._clock = clock
        self._worker_id = worker_id
        self._entries: list[Timed] = []
        self._sending = asyncio.Lock()

    def add(self, entry: Entry) -> float:
        at = self._clock.now()
        self._entries.append(Timed(at, entry))
        return at

    def report(self) -> Report:
        """Everything not yet reported; it counts as handed over."""
        entries, self._entries = tuple(self._entries), []
        return Report(
            order_id=self._order.order_id,
            execution_id=self._order.execution_id,
            lease_epoch=self._order.lease_epoch,
            worker_id=self._worker_id,
            entries=entries,
        )

    async def flush(self) -> None:
        """Return once everything written so far is durable. LeaseLost if the order is no longer ours."""
        async with self._sending:
            if not self._entries:
                return
            answer = await self._office.turn(Turn(worker_id=self._worker_id, reports=(self.report(),)))
        if answer.verdicts[0] not in (Verdict.ACCEPTED, Verdict.DUPLICATE):
            raise LeaseLost(answer.verdicts[0].value)
