"""Wake-ups: the hint that there is work, within one process, between processes, and over PostgreSQL.

A wake-up may be lost, doubled or late, and carries no state. Workers also poll now and then, and servers send wake-ups
again while there is work. So a broken connection delays work a little and loses nothing (reliability.md §3.2): delete
the data of the broker, and every execution still completes.

`LinkedWakeups` reach other processes too (docs/decisions/0004). A worker that waits in this process is woken at once.
Only wake-ups that found no waiting worker here are sent to other processes, collected by pool, by a separate task. So
notifying never waits, also while the link is down. The link is opened again until it holds. Then all waiting workers
are woken once, for wake-ups that were lost meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from noetl.base.errors import Outage

DEFAULT_POOL = "default"  # of orders that name no pool
EVERY_POOL = "*"  # a waiter names it to be woken for any pool


class Wakeups(Protocol):
    def notify_workers(self, times: int = 1, *, pool: str = DEFAULT_POOL) -> None:
        """There may be work for this many workers of a pool. Never waits, never fails."""

    async def wait(self, pools: Collection[str] | None = None, timeout: float | None = None) -> bool:
        """Return True when a wake-up for one of these pools comes (None or `*`: for any), False after `timeout`. Return
        at once if one came while there was no waiter."""

    async def close(self) -> None: ...


class MemoryWakeups:
    """Within one process. Each wake-up wakes one waiter. Those that found no waiter are kept as one per pool,
    since a worker that wakes looks for all work."""

    def __init__(self) -> None:
        self._anywhere: deque[asyncio.Future[None]] = deque()  # waiters for any pool
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._missed: set[str] = set()

    def notify_workers(self, times: int = 1, *, pool: str = DEFAULT_POOL) -> None:
        self.wake(times, pool)

    def wake(self, times: int, pool: str) -> int:
        """Wake so many waiters of the pool; returns how many wake-ups found no waiter."""
        for heard in range(times):
            if not (_wake_one(self._waiting.get(pool)) or _wake_one(self._anywhere)):
                # One is enough however many were missed: the worker that finds it claims until nothing is left, and
                # wakes others.
                self._missed.add(pool)
                return times - heard
        return 0

    def wake_all(self) -> None:
        """Wake every waiter."""
        for line in (self._anywhere, *self._waiting.values()):
            while _wake_one(line):
                pass

    async def wait(self, pools: Collection[str] | None = None, timeout: float | None = None) -> bool:
        if pools is not None and EVERY_POOL in pools:
            pools = None
        if missed := self._missed if pools is None else self._missed.intersection(pools):
            self._missed = self._missed - missed
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lines = [self._anywhere] if pools is None else [self._waiting.setdefault(pool, deque()) for pool in pools]
        for line in lines:
            line.append(waiter)
        try:
            if timeout is None:
                await waiter
                return True
            return bool((await asyncio.wait({waiter}, timeout=timeout))[0])
        finally:
            waiter.cancel()  # so that no wake-up is spent on it, if it was not woken
            if pools is not None:
                self._leave(waiter, pools)

    def _leave(self, waiter: asyncio.Future[None], pools: Collection[str]) -> None:
        """Take the waiter out of the queues it was not woken from, so that they do not grow while nothing happens."""
        for pool in pools:
            line = self._waiting.get(pool, deque())
            if waiter in line:
                line.remove(waiter)
            if not line:
                self._waiting.pop(pool, None)

    async def close(self) -> None:
        """Nothing is held open."""


def _wake_one(line: deque[asyncio.Future[None]] | None) -> bool:
    while line:
        waiter = line.popleft()
        if not waiter.done():
            waiter.set_result(None)
            return True
    return False


Hear = Callable[[str, int], None]
MOST_TIMES = 1_000  # of one wake-up; more workers than that do not wait at once
FIRST_S, LONGEST_S = 0.1, 5.0  # between two tries to make the link
_AGAIN_S = 0.5

_log = logging.getLogger(__name__)


class Link(Protocol):
    async def send(self, pool: str, times: int) -> None:
        """Wake workers of other processes. Raises unless the message has certainly gone out."""

    async def listen(self) -> None:
        """Receive for as long as the link holds; raises when it no longer does."""


class LinkedWakeups:
    """`connect` opens the link, which calls the given function with every wake-up that it receives."""

    def __init__(self, connect: Callable[[Hear], AbstractAsyncContextManager[Link]]) -> None:
        self._connect = connect
        self._near = MemoryWakeups()
        # By pool, how many wake-ups are still to be sent to other processes.
        self._out: dict[str, int] = {}
        self._to_send = asyncio.Event()
        self._linked = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        lost = "wake-ups are not exchanged with other processes, which poll meanwhile"
        self._outage = Outage(_log, lost, "wake-ups are exchanged with other processes again")

    async def open(self) -> None:
        """Start the task that opens the link and holds it. Wake-ups within this process work without it."""
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())

    async def close(self) -> None:
        serving, self._serving = self._serving, None
        while serving is not None and not serving.done():
            serving.cancel()
            await asyncio.wait({serving}, timeout=_AGAIN_S)  # a driver may swallow it

    @property
    def is_linked(self) -> bool:
        return self._linked.is_set()

    async def linked(self) -> None:
        """Return once the link holds."""
        await self._linked.wait()

    def notify_workers(self, times: int = 1, *, pool: str = DEFAULT_POOL) -> None:
        # Workers of this process first: one elsewhere would find the order taken.
        if unheard := self._near.wake(times, pool):
            self._out[pool] = min(self._out.get(pool, 0) + unheard, MOST_TIMES)
            self._to_send.set()

    async def wait(self, pools: Collection[str] | None = None, timeout: float | None = None) -> bool:
        return await self._near.wait(pools, timeout)

    def _wake_local(self, pool: str, times: int) -> None:
        # The number comes from another process, and must not make us loop for long.
        self._near.wake(max(1, min(times, MOST_TIMES)), pool)

    async def _serve(self) -> None:
        pause_s = FIRST_S
        while self._serving is not None:
            try:
                async with self._connect(self._wake_local) as link:
                    pause_s = FIRST_S
                    self._outage.worked()
                    self._linked.set()
                    self._near.wake_all()  # wake-ups may have been lost while there was no link
                    await self._hold(link)
            except Exception as problem:
                self._outage.failed(problem)
            finally:
                self._linked.clear()
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - so that servers do not come at once
            pause_s = min(pause_s * 2, LONGEST_S)

    async def _hold(self, link: Link) -> None:
        """Send and listen until one of the two breaks."""
        # Together: a link that only sends, or only listens, looks healthy and is not.
        both = [asyncio.ensure_future(self._send(link)), asyncio.ensure_future(link.listen())]
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            for one in both:
                one.cancel()
            await asyncio.wait(both)

    async def _send(self, link: Link) -> None:
        while True:
            while self._out:
                pool, times = next(iter(self._out.items()))
                await link.send(pool, times)
                left = self._out.pop(pool) - times  # only now: unsent wake-ups are sent over the next link
                if left > 0:
                    # More work came while this was being sent, perhaps after the others had looked.
                    self._out[pool] = left
            self._to_send.clear()
            await self._to_send.wait()


# Over LISTEN and NOTIFY of PostgreSQL: nothing to install beside the store. A wake-up is one notification, "times
# pool". PostgreSQL keeps none for a listener that is away.
CHANNEL = "noetl_orders"
TRIAL_S = 10.0  # how often a silent connection is tried
_PATIENCE_S = 5.0
_LONGEST = 7_000  # bytes of a notification, which PostgreSQL bounds at 8,000


def postgres_dispatch(connect_arguments: Mapping[str, Any], *, channel: str = CHANNEL) -> LinkedWakeups:
    """`connect_arguments` are those of the driver; servers that share orders share the `channel`."""
    # Here, since every command imports this module, and an embedded run on SQLite has no driver.
    import asyncpg  # type: ignore[import-untyped]

    @asynccontextmanager
    async def connect(hear: Hear) -> AsyncIterator[_PostgresLink]:
        connection = await asyncpg.connect(**connect_arguments, timeout=_PATIENCE_S)
        try:
            link = _PostgresLink(connection, channel, hear)
            await link.begin()
            yield link
        finally:
            connection.terminate()

    return LinkedWakeups(connect)


class _PostgresLink:
    def __init__(self, connection: Any, channel: str, hear: Hear) -> None:
        self._connection, self._channel, self._hear = connection, channel, hear
        self._asking = asyncio.Lock()  # a connection does one thing at a time
        self._lost = asyncio.Event()

    async def begin(self) -> None:
        self._connection.add_termination_listener(lambda _: self._lost.set())
        await self._connection.add_listener(self._channel, self._on_notification)

    def _on_notification(self, connection: object, pid: int, channel: str, payload: object) -> None:
        times, _, pool = str(payload).partition(" ")
        # Our own notifications come back on the same connection.
        if pid != self._connection.get_server_pid() and times.isdigit():
            self._hear(pool, int(times))

    async def send(self, pool: str, times: int) -> None:
        if len(pool.encode()) < _LONGEST:
            await self._ask("SELECT pg_notify($1, $2)", self._channel, f"{times} {pool}")

    async def listen(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._lost.wait(), TRIAL_S)
            except TimeoutError:
                await self._ask("SELECT 1")
            else:
                raise ConnectionError("the connection to PostgreSQL was lost")

    async def _ask(self, statement: str, *values: object) -> None:
        async with self._asking:
            await self._connection.execute(statement, *values, timeout=_PATIENCE_S)
