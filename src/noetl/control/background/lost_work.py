"""Lost work: orders and children that crashed processes left, found by looking every second (reliability.md §2.7, 3.2).

One task processes one record at a time. A record that fails goes into quarantine, and the others go on. Incidents are
written to the key-value table, where operators see them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import Outage, log_failure
from noetl.control.background.recovery import Recovery
from noetl.control.commit.quarantine import Incident, Quarantine
from noetl.control.executions import Executions
from noetl.control.nested.calls import LEFT, NestedCalls
from noetl.engine.reports import MOST_LEASES
from noetl.events.orders import PlaybookCall
from noetl.store.contract import OrderRow
from noetl.store.installation import KeyValues

# The longest time that an order of another server stays unnoticed when its wake-up was lost.
EVERY_S = 1.0
INCIDENT = "incident"  # the kind, on the key-value table

Sleep = Callable[[float], Awaitable[None]]
_log = logging.getLogger(__name__)


class BackgroundJob(Protocol):
    """One kind of lost work."""

    async def find(self) -> Sequence[Any]:
        """The records to process now."""

    def name_of(self, record: Any) -> str:
        """The name of a record in the quarantine."""

    async def do(self, record: Any) -> None: ...


class LostOrders:
    """Orders of the store that this server does not know, and those that too many workers were lost with."""

    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery

    async def find(self) -> Sequence[OrderRow]:
        return await self._recovery.seek()

    def name_of(self, record: OrderRow) -> str:
        return f"order {record.order_id}"

    async def do(self, record: OrderRow) -> None:
        verdict = await self._recovery.lose(record)
        _log.warning("order %s was lost %d times: %s", record.order_id, MOST_LEASES, verdict)


class FollowedExecutions:
    """Executions that a caller of this server waits for, and that another server may have ended."""

    def __init__(self, executions: Executions) -> None:
        self._executions = executions

    async def find(self) -> Sequence[None]:
        # One query for all of them, so there are no single records to process.
        await self._executions.catch_up()
        return ()

    def name_of(self, record: None) -> str:
        return ""

    async def do(self, record: None) -> None: ...


class OrphanedCalls:
    """Child executions that step runs waited for here, after another server has ended the step run."""

    def __init__(self, calls: NestedCalls) -> None:
        self._calls = calls

    async def find(self) -> Sequence[PlaybookCall]:
        return await self._calls.orphaned_calls()

    def name_of(self, record: PlaybookCall) -> str:
        return f"the child of {record.task_run_id}"

    async def do(self, record: PlaybookCall) -> None:
        await self._calls.give_up(record, LEFT)


class LostWork:
    """The search for lost work. `serve` runs until it is cancelled."""

    def __init__(
        self,
        jobs: Sequence[BackgroundJob],
        quarantine: Quarantine,
        key_values: KeyValues,
        clock: Clock,
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._jobs, self._quarantine, self._key_values = jobs, quarantine, key_values
        self._clock, self._sleep = clock, sleep
        names = [type(job).__name__ for job in jobs]
        self._outages = [Outage(_log, f"{name} could not look for work", f"{name} looks again") for name in names]

    async def serve(self) -> None:
        while True:
            await self.sweep()
            await self._sleep(EVERY_S)

    async def sweep(self) -> None:
        for job, outage in zip(self._jobs, self._outages, strict=True):
            try:
                records = await job.find()
                outage.worked()
            # Broad, since one failing job must not stop the others: nothing else finds lost orders.
            except Exception as problem:
                outage.failed(problem)
                continue
            for record in records:
                await self._do(job, record)
        # After the jobs, so that incidents of this sweep are recorded by it.
        for incident in self._quarantine.take_unreported():
            await self._record(incident)

    async def _do(self, job: BackgroundJob, record: Any) -> None:
        name = job.name_of(record)
        if self._quarantine.holds(name):
            return
        try:
            await job.do(record)
        except Exception as problem:
            self._quarantine.note(name, problem)
        else:
            self._quarantine.clear(name)

    async def _record(self, incident: Incident) -> None:
        try:
            known = await self._key_values.get(INCIDENT, incident.record)
            version, body = known.version if known else 0, msgspec.json.encode(incident)
            await self._key_values.put(INCIDENT, incident.record, body, over=version, at=self._clock.now())
        # Broad for the same reason. The quarantine in memory still has the incident.
        except Exception as problem:
            log_failure(_log, problem, "an incident could not be stored: %s", incident.record)
