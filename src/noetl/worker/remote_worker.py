"""A worker process at a server, from its registration to its last report (WRK-01, CLI-01).

`drain` takes no more orders and ends when those at hand are reported; `serve` then says whether all of them were.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from typing import Any
from urllib.parse import quote

import msgspec

from noetl.base.clock import SystemClock
from noetl.base.errors import BackendError, NoetlError
from noetl.store.wakeups.contract import DEFAULT_POOL
from noetl.tools.registry import Registry
from noetl.worker.attempt import Sleep
from noetl.worker.leases import EVERY_S, Heartbeat, HeldLeases, Renew, Stop
from noetl.worker.live_output import OutputSender
from noetl.worker.remote_control_plane import RemoteControlPlane
from noetl.worker.remote_values import RemoteValues
from noetl.worker.report_queue import SHARED_PENDING
from noetl.worker.server_connection import (
    PROTOCOL,
    PlainServerConnection,
    Say,
    ServerClock,
    ServerConnection,
    ServerRefusedError,
)
from noetl.worker.slots import WorkerHandle
from noetl.worker.worker import SLOTS, Worker

DRAIN_S = 30.0
_LAST_WORD_S = 5.0
_GOODBYE_S = 2.0
_QUICK_S = 1.0  # a poll that comes back empty sooner was no long poll: do not ask in a circle


class WorkerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is: where it serves, and what it takes. `instance` tells it from others of its name; the server
    gives it an id for both."""

    url: str
    name: str
    instance: str = ""
    token: str | None = None
    pools: tuple[str, ...] = ("default",)
    concurrency: int = SLOTS
    labels: dict[str, str] = {}
    drain_s: float = DRAIN_S
    version: str = ""


class RemoteWorker:
    """`registered` is called once the server knows it."""

    def __init__(
        self,
        spec: WorkerSpec,
        tools: Registry,
        *,
        say: Say = lambda _: None,
        verify: ssl.SSLContext | bool = True,
        registered: Callable[[], None] = lambda: None,
    ) -> None:
        self._spec, self._tools, self._say, self._verify = spec, tools, say, verify
        self._tell_registered = registered
        self._draining, self._stopping = asyncio.Event(), asyncio.Event()

    def drain(self) -> None:
        """Take no more orders, and end when those at hand are done."""
        self._draining.set()

    def stop(self) -> None:
        """End now; tools are stopped where they stand."""
        self._stopping.set()
        self._draining.set()

    async def serve(self) -> int:
        """Work until drained; gives how many orders were left unfinished. RefusedError when the server wants none."""
        line = ServerConnection(self._spec.url, self._spec.token, say=self._say, verify=self._verify)
        try:
            worker_id = await self._registered(line)
            return 0 if worker_id is None else await self._serve_as(worker_id, line)
        finally:
            await line.close()

    async def _serve_as(self, worker_id: str, line: ServerConnection) -> int:
        spec, leases, clock = self._spec, HeldLeases(), ServerClock(SystemClock())
        values = RemoteValues(line, lambda: PlainServerConnection(spec.url, spec.token, verify=self._verify))
        control_plane = RemoteControlPlane(
            line,
            values,
            worker_id=worker_id,
            pools=spec.pools,
            leases=leases,
            clock=clock,
            say=self._say,
            register=lambda: self._ask_for_id(line),
        )
        wakeups = WakeupPoll(control_plane)
        handle = WorkerHandle(worker_id, wakeups.notify_workers, leases)
        worker = Worker(
            control_plane,
            wakeups,
            self._tools,
            handle,
            clock=clock,
            slots=spec.concurrency,
            pools=spec.pools,
            beats_elsewhere=True,
            prepare=control_plane.prepare,
            settle=control_plane.settled,
            most_pending=SHARED_PENDING,
            output=OutputSender(worker_id, control_plane.show_output),
        )
        # A connection of its own: a heartbeat must not wait behind a large report. Shorter than the interval, so that
        # one that hangs is over before the next is due.
        pulse = PlainServerConnection(spec.url, spec.token, verify=self._verify, timeout_s=EVERY_S * 0.8)
        heartbeat = Heartbeat(leases, _renewing(pulse, worker_id, leases), _stopping(handle), every_s=EVERY_S)
        try:
            heartbeat.start()
            try:
                return await self._at_work(worker, handle, wakeups)
            finally:
                heartbeat.end()  # a beat that arrived after the goodbye would have us shown as living
                await self._deregister(line, worker_id)
        finally:
            pulse.close()
            await wakeups.close()
            values.close()

    async def _ask_for_id(self, line: ServerConnection) -> str:
        """Tell the server who has come; it says under which id. Asked again, it is the same one."""
        spec = self._spec
        told = {
            "name": spec.name,
            "instance": spec.instance,
            "pools": spec.pools,
            "capacity": spec.concurrency,
            "labels": spec.labels,
            "kinds": self._tools.kinds(),
            "protocol": int(PROTOCOL),
            "version": spec.version,
        }
        answer = await line.ask("POST", "/api/workers", body=msgspec.json.encode(told))
        return str(msgspec.json.decode(answer.content)["worker_id"])

    async def _registered(self, line: ServerConnection) -> str | None:
        """Our id; None when we were sent away before the server answered."""
        spec, asking = self._spec, asyncio.ensure_future(self._ask_for_id(line))
        ending = asyncio.ensure_future(self._draining.wait())
        await asyncio.wait({asking, ending}, return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if not asking.done():
            asking.cancel()
            return None
        worker_id = asking.result()
        self._tell_registered()
        self._say(f"worker {worker_id} serves {spec.url}, pools {', '.join(spec.pools)}")
        return worker_id

    async def _at_work(self, worker: Worker, handle: WorkerHandle, wakeups: WakeupPoll) -> int:
        serving = asyncio.ensure_future(_served(worker))
        ending = asyncio.ensure_future(self._draining.wait())
        try:
            await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
                return 0
            await wakeups.close()  # first of all: an order that came now would have nobody
            worker.drain()
            if running := len(handle.running):
                self._say(f"draining: {running} to finish, at most {self._spec.drain_s:g} s")
            await _first_of(serving, self._stopping.wait(), within_s=self._spec.drain_s)
            left = 0 if serving.done() else len(handle.running)
            if serving.done():
                serving.result()
            return left
        finally:
            ending.cancel()
            serving.cancel()
            await asyncio.wait({serving}, timeout=_LAST_WORD_S)
            serving.cancel()  # who still waits for the server to take its last report has waited enough
            await asyncio.wait({serving})

    async def _deregister(self, line: ServerConnection, worker_id: str) -> None:
        """Say goodbye; that nobody hears it is no matter."""
        try:
            async with asyncio.timeout(_GOODBYE_S):
                await line.ask("DELETE", f"/api/workers/{quote(worker_id, safe='')}")
        except (TimeoutError, ServerRefusedError):
            pass


async def _first_of(one: asyncio.Future[None], other: Coroutine[Any, Any, Any], *, within_s: float) -> None:
    """Wait for either, as long as that."""
    beside = asyncio.ensure_future(other)
    await asyncio.wait({one, beside}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    beside.cancel()


async def _served(worker: Worker) -> None:
    """Serve; what breaks it comes out as itself, not as one of a group."""
    try:
        await worker.serve()
    except BaseExceptionGroup as several:
        ours = several.subgroup(NoetlError)
        first: BaseException = ours or several
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None


def _renewing(pulse: PlainServerConnection, worker_id: str, held: HeldLeases) -> Renew:
    def renew(leases: dict[str, int]) -> Collection[str]:
        body = msgspec.json.encode({"worker_id": worker_id, "leases": leases, "ttls": held.ttls()})
        patience_s = max(0.5, held.every_s(EVERY_S) * 0.8)
        try:
            told = pulse.ask("POST", "/api/orders/heartbeat", body=body, patience_s=patience_s)
            answer = msgspec.json.decode(told.content)
        except ServerRefusedError as problem:
            raise BackendError(str(problem)) from problem  # a token that was taken away: nothing is prolonged any more
        return {*answer.get("lost", ()), *answer.get("stop", ())}

    return renew


def _stopping(handle: WorkerHandle) -> Stop:
    loop = asyncio.get_running_loop()

    def stop(order_ids: Collection[str]) -> None:
        if not loop.is_closed():
            # Tasks may only be cancelled from their own event loop, and this runs in the heartbeat's thread.
            loop.call_soon_threadsafe(handle.stop, order_ids)

    return stop


# The doorbell of a remote worker: one long poll, for as long as some slot has nothing to do.


class WakeupPoll:
    def __init__(self, control_plane: RemoteControlPlane, *, sleep: Sleep = asyncio.sleep) -> None:
        self._control_plane, self._sleep = control_plane, sleep
        self._waiting: deque[asyncio.Future[None]] = deque()
        # One poll for all slots that wait: it asks for as many orders as there are idle slots.
        self._polling: asyncio.Task[None] | None = None
        self._is_closed = False

    def notify_workers(self, times: int = 1, *, pool: str = DEFAULT_POOL) -> None:
        for _ in range(times):
            while self._waiting:
                waiter = self._waiting.popleft()
                if not waiter.done():
                    waiter.set_result(None)
                    break

    async def wait(self, pools: Collection[str] | None = None, timeout: float | None = None) -> bool:
        """Which pools is the control plane's to know."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        if self._polling is None and not self._is_closed:
            self._polling = asyncio.ensure_future(self._poll())
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except TimeoutError:
            return False
        return True

    async def _poll(self) -> None:
        now = asyncio.get_running_loop().time
        try:
            while wanted := sum(1 for waiter in self._waiting if not waiter.done()):
                began = now()
                come = await self._control_plane.poll(wanted)
                self.notify_workers(come)
                if not come and now() - began < _QUICK_S:
                    await self._sleep(random.uniform(0.1, 0.5))  # noqa: S311  it only spreads requests
        except Exception as problem:
            self._break(problem)
        finally:
            self._polling = None

    def _break(self, problem: Exception) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(problem)

    async def close(self) -> None:
        """Ask for nothing more: an order that came to a poll of ours now would have nobody. Who waits is still rung."""
        self._is_closed = True
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.wait({self._polling})
