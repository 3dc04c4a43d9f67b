"""Message queue: delivers stored messages to waits that have just opened, or may take them again (MSG-03, O-16).

It looks for messages when a wait is stored, since the message may have come before. It also sweeps for messages that
another process has stored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from noetl.base.clock import Clock
from noetl.base.errors import NoetlError, Outage
from noetl.control.outside.delivery import MessageDelivery
from noetl.engine.execution import Execution
from noetl.store.contract import Commit, Store
from noetl.store.waits import MESSAGE, WaitRow, waits_of

SWEEP_S = 2.0
# Between deletions of expired messages. They are not delivered anyway; this only frees their rows.
DISCARD_S = 600.0

_log = logging.getLogger(__name__)


class OpenWaits:
    """The waits for messages of executions that this process decides upon; a listener of commits. With `remembers` open
    waits are kept in memory. A server does not: others close waits too, and it sweeps the store anyway."""

    def __init__(self, *, remembers: bool) -> None:
        self._remembers = remembers
        self._own: dict[str, dict[str, WaitRow]] = {}  # by execution
        self._fresh: dict[str, WaitRow] = {}  # messages for these were not looked for yet
        # Paused executions take no message. When one goes on, messages for its waits are looked for again.
        self._paused: set[str] = set()
        self._news = asyncio.Event()

    async def fresh(self) -> list[WaitRow]:
        """Wait until there are new waits since the last call, and return them."""
        await self._news.wait()
        self._news.clear()
        fresh, self._fresh = self._fresh, {}
        return list(fresh.values())

    @property
    def known(self) -> list[WaitRow]:
        """The open waits in memory."""
        return [wait for waits in self._own.values() for wait in waits.values()]

    def stored(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            execution_id, status = commit.execution.execution_id, commit.execution.status
            if commit.waits or commit.closed_waits:
                self._change(execution_id, commit.waits, commit.closed_waits)
            if status == "paused" and self._remembers:
                self._paused.add(execution_id)
            elif execution_id in self._paused:
                self._paused.discard(execution_id)
                self._look_for(list(self._own.get(execution_id, {}).values()))

    def taken_up(self, execution: Execution) -> None:
        if not self._remembers:
            return
        # The process that drove the execution may have closed some of these waits.
        self._own.pop(execution.execution_id, None)
        if execution.lifecycle.paused:
            self._paused.add(execution.execution_id)
        self._change(execution.execution_id, waits_of(execution), ())

    def _change(self, execution_id: str, opened: Sequence[WaitRow], closed: Sequence[str]) -> None:
        messages = [wait for wait in opened if wait.kind == MESSAGE]
        waits = self._own.pop(execution_id, {})
        for wait_id in closed:
            waits.pop(wait_id, None)
            self._fresh.pop(wait_id, None)
        waits.update((wait.wait_id, wait) for wait in messages)
        if waits and self._remembers:
            self._own[execution_id] = waits
        self._look_for(messages)

    def _look_for(self, waits: Sequence[WaitRow]) -> None:
        if waits:
            self._fresh.update((wait.wait_id, wait) for wait in waits)
            self._news.set()


class MessageQueue:
    """Delivers stored messages to waits as they open, and sweeps for those that missed each other."""

    def __init__(self, deliveries: MessageDelivery, waits: OpenWaits, store: Store, clock: Clock) -> None:
        self._deliveries, self._waits, self._store, self._clock = deliveries, waits, store, clock
        self._discarded_at = clock.now()

    async def serve(self) -> None:
        """Look for messages to waits as they open; runs until it is cancelled."""
        outage = Outage(_log, "messages were not delivered", "messages are delivered again")
        while True:
            fresh = await self._waits.fresh()
            try:
                await self._deliveries.look_for(fresh)
                outage.worked()
            except NoetlError as problem:  # the next sweep finds the messages
                outage.failed(problem)

    async def deliver_stored_messages(self) -> None:
        """Deliver messages that other processes have stored for waits in memory. Without such waits the store is not
        queried."""
        if waits := self._waits.known:
            names = set(await self._store.waits.names_kept(now=self._clock.now()))
            await self._deliveries.look_for([wait for wait in waits if wait.name in names])

    async def sweep(self) -> None:
        """Deliver all stored messages that a wait of the store takes, and delete expired ones now and then."""
        now = self._clock.now()
        for name in await self._store.waits.names_kept(now=now):
            await self._deliveries.look_for(await self._store.waits.waiting(MESSAGE, name))
        if now - self._discarded_at >= DISCARD_S:
            self._discarded_at = now
            await self._store.waits.discard(before=now)

    async def serve_all(self) -> None:
        """Sweep every two seconds; runs until it is cancelled."""
        outage = Outage(_log, "messages were not swept", "messages are swept again")
        while True:
            await asyncio.sleep(SWEEP_S)
            try:
                await self.sweep()
                outage.worked()
            except NoetlError as problem:
                outage.failed(problem)
