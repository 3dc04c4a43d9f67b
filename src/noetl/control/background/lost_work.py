"""What a server looks for by itself, since whoever should have told it may be gone (reliability.md §2.7,
3.2).

One task, one record at a time, each for itself: a record that breaks is put into quarantine and the others go on. An
incident lies on the key-value table, where operators see it.
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
from noetl.engine.lost_leases import MOST_LEASES
from noetl.events.orders import PlaybookCall
from noetl.store.contract import OrderRow
from noetl.store.installation import KeyValues

# How long an order can stay unnoticed that another server made or left, when the wake-up was lost as well.
EVERY_S = 1.0
INCIDENT = "incident"  # the kind, on the key-value table

Sleep = Callable[[float], Awaitable[None]]
_log = logging.getLogger(__name__)


class BackgroundJob(Protocol):
    """Something to look for. A record that `do` breaks on is known by its `name_of`."""

    async def find(self) -> Sequence[Any]:
        """The records that want something now."""

    def name_of(self, record: Any) -> str: ...

    async def do(self, record: Any) -> None: ...


class LostOrders:
    """Orders of the store that this server does not know, and those that nobody may take any more."""

    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery

    async def find(self) -> Sequence[OrderRow]:
        return await self._recovery.seek()

    def name_of(self, record: OrderRow) -> str:
        return f"order {record.order_id}"

    async def do(self, record: OrderRow) -> None:
        verdict = await self._recovery.lose(record)
        _log.warning("order %s was lost %d times: %s", record.order_id, MOST_LEASES, verdict)


class Followed:
    """Executions that somebody here waits for, and other servers may have ended."""

    def __init__(self, executions: Executions) -> None:
        self._executions = executions

    async def find(self) -> Sequence[None]:
        await self._executions.catch_up()
        return ()

    def name_of(self, record: None) -> str:
        return ""

    async def do(self, record: None) -> None: ...


class OrphanedCalls:
    """Nested executions that are waited for here, by step runs that other servers have ended."""

    def __init__(self, calls: NestedCalls) -> None:
        self._calls = calls

    async def find(self) -> Sequence[PlaybookCall]:
        return await self._calls.orphaned_calls()

    def name_of(self, record: PlaybookCall) -> str:
        return f"the child of {record.task_run_id}"

    async def do(self, record: PlaybookCall) -> None:
        await self._calls.give_up(record, LEFT)


class LostWork:
    """The search for it, every second. `LostWork.serve` goes on until it is cancelled."""

    def __init__(
        self,
        chores: Sequence[BackgroundJob],
        quarantine: Quarantine,
        key_values: KeyValues,
        clock: Clock,
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._chores, self._quarantine, self._key_values = chores, quarantine, key_values
        self._clock, self._sleep = clock, sleep
        names = [type(chore).__name__ for chore in chores]
        self._outages = [Outage(_log, f"{name} could not look for work", f"{name} looks again") for name in names]

    async def serve(self) -> None:
        while True:
            await self.sweep()
            await self._sleep(EVERY_S)

    async def sweep(self) -> None:
        for chore, outage in zip(self._chores, self._outages, strict=True):
            try:
                records = await chore.find()
                outage.worked()
            # Broad, since one job that breaks must not stop the others: nothing would find lost orders any more.
            except Exception as problem:  # the store is away, say: it will be back
                outage.failed(problem)
                continue
            for record in records:
                await self._do(chore, record)
        # After the jobs: what they break on in this round is recorded with it.
        for incident in self._quarantine.take_unsaid():
            await self._record(incident)

    async def _do(self, chore: BackgroundJob, record: Any) -> None:
        name = chore.name_of(record)
        if self._quarantine.holds(name):
            return
        try:
            await chore.do(record)
        except Exception as problem:
            self._quarantine.note(name, problem)
        else:
            self._quarantine.clear(name)

    async def _record(self, incident: Incident) -> None:
        try:
            known = await self._key_values.get(INCIDENT, incident.record)
            version, body = known.version if known else 0, msgspec.json.encode(incident)
            await self._key_values.put(INCIDENT, incident.record, body, over=version, at=self._clock.now())
        # Broad for the same reason: the quarantine keeps what went wrong.
        except Exception as problem:
            log_failure(_log, problem, "an incident could not be kept: %s", incident.record)
