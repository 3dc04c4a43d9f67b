"""Brings kept messages to waits that have just opened, or may take them again (MSG-03, O-16).

It looks once a wait is stored, since the message may have come before; and now and then for messages that somebody
else has stored, in another process or just before it ended.
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
# Expired messages are not delivered anyway; this only frees their rows.
DISCARD_S = 600.0  # between looking for messages whose time is over

_log = logging.getLogger(__name__)


class OpenWaits:
    """Waits for messages of the executions that this process decides upon. Hears of every commit. `remembers` those
    that opened here and are open still: not so on a server, where others close them, and which sweeps."""

    def __init__(self, *, remembers: bool) -> None:
        self._remembers = remembers
        self._own: dict[str, dict[str, WaitRow]] = {}  # by execution
        self._fresh: dict[str, WaitRow] = {}  # nobody has looked for messages to these
        # Executions that take nothing now. When one goes on, its waits are looked at again, as its messages were passed
        # over.
        self._paused: set[str] = set()
        self._news = asyncio.Event()

    async def fresh(self) -> list[WaitRow]:
        """Those that have opened since this was asked last, once there are any."""
        await self._news.wait()
        self._news.clear()
        fresh, self._fresh = self._fresh, {}
        return list(fresh.values())

    @property
    def known(self) -> list[WaitRow]:
        """Those that are remembered."""
        return [wait for own in self._own.values() for wait in own.values()]

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
        # What was remembered may have been closed by the process that drove it meanwhile.
        self._own.pop(execution.execution_id, None)
        if execution.lifecycle.paused:
            self._paused.add(execution.execution_id)
        self._change(execution.execution_id, waits_of(execution), ())

    def _change(self, execution_id: str, opened: Sequence[WaitRow], closed: Sequence[str]) -> None:
        messages = [wait for wait in opened if wait.kind == MESSAGE]
        own = self._own.pop(execution_id, {})
        for wait_id in closed:
            own.pop(wait_id, None)
            self._fresh.pop(wait_id, None)
        own.update((wait.wait_id, wait) for wait in messages)
        if own and self._remembers:
            self._own[execution_id] = own
        self._look_for(messages)

    def _look_for(self, waits: Sequence[WaitRow]) -> None:
        if waits:
            self._fresh.update((wait.wait_id, wait) for wait in waits)
            self._news.set()


class MessageQueue:
    """Delivers messages to waits as they open, and those that missed each other."""

    def __init__(self, deliveries: MessageDelivery, waits: OpenWaits, store: Store, clock: Clock) -> None:
        self._deliveries, self._waits, self._store, self._clock = deliveries, waits, store, clock
        self._discarded_at = clock.now()

    async def serve(self) -> None:
        """Look for messages to waits as they open, for as long as anybody wants it."""
        outage = Outage(_log, "messages were not delivered", "messages are delivered again")
        while True:
            fresh = await self._waits.fresh()
            try:
                await self._deliveries.look_for(fresh)
                outage.worked()
            except NoetlError as problem:  # what is stored is found by the next sweep
                outage.failed(problem)

    async def deliver_stored_messages(self) -> None:
        """Look for messages that other processes have stored for the waits here; nothing is asked when there are
        none."""
        if waits := self._waits.known:
            names = set(await self._store.waits.names_kept(now=self._clock.now()))
            await self._deliveries.look_for([wait for wait in waits if wait.name in names])

    async def sweep(self) -> None:
        """Bring together all messages and waits of the store that have missed each other, and let go what is too
        old."""
        now = self._clock.now()
        for name in await self._store.waits.names_kept(now=now):
            await self._deliveries.look_for(await self._store.waits.waiting(MESSAGE, name))
        if now - self._discarded_at >= DISCARD_S:
            self._discarded_at = now
            await self._store.waits.discard(before=now)

    async def serve_all(self) -> None:
        """Sweep for as long as anybody wants it."""
        outage = Outage(_log, "messages were not swept", "messages are swept again")
        while True:
            await asyncio.sleep(SWEEP_S)
            try:
                await self.sweep()
                outage.worked()
            except NoetlError as problem:
                outage.failed(problem)
