"""A remote worker process, from its registration to its last report (WRK-01, CLI-01).

After `drain` it takes no more orders and ends when its current ones are reported; `serve` returns how many were not.
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
from noetl.store.wakeups import DEFAULT_POOL
from noetl.tools.registry import Registry
from noetl.worker.attempt import Sleep
from noetl.worker.leases import EVERY_S, PATIENCE, Heartbeat, HeldLeases, Renew, Stop
from noetl.worker.live_output import OutputSender
from noetl.worker.remote_control_plane import RemoteControlPlane
from noetl.worker.remote_values import RemoteValues
from noetl.worker.reports import SHARED_PENDING
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
_LAST_REPORT_S = 5.0
_DEREGISTER_S = 2.0
_QUICK_S = 1.0  # an empty answer that comes sooner was not a long poll: wait before the next one


class WorkerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The server, pools and capacity of a worker. `instance` distinguishes it from others of its name; the server gives
    it an id for both."""

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
    """`registered` is called after the registration."""

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
        """Take no more orders, and end when the current ones are done."""
        self._draining.set()

    def stop(self) -> None:
        """End now; running tools are cancelled."""
        self._stopping.set()
        self._draining.set()

    async def serve(self) -> int:
        """Work until drained; returns how many orders were left unfinished. Raises RefusedError if the server refuses
        the worker."""
        connection = ServerConnection(self._spec.url, self._spec.token, say=self._say, verify=self._verify)
        try:
            worker_id = await self._register_worker(connection)
            return 0 if worker_id is None else await self._serve_as(worker_id, connection)
        finally:
            await connection.close()

    async def _serve_as(self, worker_id: str, connection: ServerConnection) -> int:
        spec, leases, clock = self._spec, HeldLeases(), ServerClock(SystemClock())
        values = RemoteValues(
            connection, lambda: PlainServerConnection(spec.url, spec.token, verify=self._verify), worker_id
        )
        control_plane = RemoteControlPlane(
            connection,
            values,
            worker_id=worker_id,
            pools=spec.pools,
            leases=leases,
            clock=clock,
            say=self._say,
            register=lambda: self._ask_for_id(connection),
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
        # A separate connection: a heartbeat must not wait behind a large report. Its timeout is shorter than the
        # interval, so that a hanging request ends before the next one is due.
        pulse = PlainServerConnection(spec.url, spec.token, verify=self._verify, timeout_s=EVERY_S * 0.8)
        renewal = _lease_renewal(pulse, worker_id, leases)
        heartbeat = Heartbeat(leases, renewal, _order_stop(handle), every_s=EVERY_S, cut_off=self._print_cut_off)
        try:
            heartbeat.start()
            try:
                return await self._at_work(worker, handle, wakeups)
            finally:
                heartbeat.end()  # a heartbeat after the deregistration would show the worker as live
                await self._deregister(connection, worker_id)
        finally:
            pulse.close()
            await wakeups.close()
            values.close()

    async def _ask_for_id(self, connection: ServerConnection) -> str:
        """Register with the server, which gives an id: the same one every time."""
        spec = self._spec
        registration = {
            "name": spec.name,
            "instance": spec.instance,
            "pools": spec.pools,
            "capacity": spec.concurrency,
            "labels": spec.labels,
            "kinds": self._tools.kinds(),
            "protocol": int(PROTOCOL),
            "version": spec.version,
        }
        answer = await connection.ask("POST", "/api/workers", body=msgspec.json.encode(registration))
        return str(msgspec.json.decode(answer.content)["worker_id"])

    async def _register_worker(self, connection: ServerConnection) -> str | None:
        """The id of this worker; None if it is drained before the server answers."""
        spec, asking = self._spec, asyncio.ensure_future(self._ask_for_id(connection))
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
        serving = asyncio.ensure_future(_serve_unwrapped(worker))
        ending = asyncio.ensure_future(self._draining.wait())
        try:
            await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
                return 0
            await wakeups.close()  # first: no slot would run an order that came now
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
            # Cancelled slots may still report what their tasks have done; the worker waits this long for the server's
            # answer.
            await asyncio.wait({serving}, timeout=_LAST_REPORT_S)
            serving.cancel()  # slots that still wait for an answer to their last report give up
            await asyncio.wait({serving})

    def _print_cut_off(self, number: int) -> None:
        orders = "1 order" if number == 1 else f"{number} orders"
        self._say(f"no server has renewed {orders} for {PATIENCE:.0%} of the lease: stopped, to be begun again")

    async def _deregister(self, connection: ServerConnection, worker_id: str) -> None:
        """Deregister, best effort: without it the server notices after the last heartbeat."""
        try:
            async with asyncio.timeout(_DEREGISTER_S):
                await connection.ask("DELETE", f"/api/workers/{quote(worker_id, safe='')}")
        except (TimeoutError, ServerRefusedError):
            pass


async def _first_of(one: asyncio.Future[None], other: Coroutine[Any, Any, Any], *, within_s: float) -> None:
    """Wait for either of them, at most `within_s`."""
    beside = asyncio.ensure_future(other)
    await asyncio.wait({one, beside}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    beside.cancel()


async def _serve_unwrapped(worker: Worker) -> None:
    """Serve. An error is raised as itself, not as an exception group."""
    try:
        await worker.serve()
    except BaseExceptionGroup as several:
        ours = several.subgroup(NoetlError)
        first: BaseException = ours or several
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None


def _lease_renewal(pulse: PlainServerConnection, worker_id: str, held: HeldLeases) -> Renew:
    def renew(leases: dict[str, int]) -> Collection[str]:
        body = msgspec.json.encode({"worker_id": worker_id, "leases": leases, "ttls": held.ttls()})
        # It ends before the next heartbeat is due, also for leases with a shorter interval.
        patience_s = max(0.5, held.every_s(EVERY_S) * 0.8)
        try:
            reply = pulse.ask("POST", "/api/orders/heartbeat", body=body, patience_s=patience_s)
            answer = msgspec.json.decode(reply.content)
        except ServerRefusedError as problem:
            raise BackendError(str(problem)) from problem  # the token was revoked: no lease is renewed any more
        return {*answer.get("lost", ()), *answer.get("stop", ())}

    return renew


def _order_stop(handle: WorkerHandle) -> Stop:
    loop = asyncio.get_running_loop()

    def stop(order_ids: Collection[str]) -> None:
        if not loop.is_closed():
            # Tasks may only be cancelled from their own event loop, and this runs in the heartbeat's thread.
            loop.call_soon_threadsafe(handle.stop, order_ids)

    return stop


# Wake-ups of a remote worker: one long poll, for as long as some slot is idle.


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
        """Wait for a wake-up. `pools` is ignored: the control plane knows the pools."""
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
        """Stop polling: no slot would run an order that came now. Slots that wait can still be notified."""
        self._is_closed = True
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.wait({self._polling})
