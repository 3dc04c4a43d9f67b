"""A whole server in this process, from opening its store to the last answer (design.md §2).

`serve` is the life of one: the store opened, the port bound, background work and the worker beside it begun, and all of
it ended in the right order. After a stop request nothing new is accepted; requests in progress are answered first.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import uvicorn

from noetl.base.distribution import own_version
from noetl.base.errors import BackendError, Outage, RefusedError, error_text
from noetl.control.claiming.pools import EVERY
from noetl.server.access.hosts import check_bind, trusted_proxies
from noetl.server.app import build
from noetl.server.backends import StoreClock
from noetl.server.configuration import ServerSettings
from noetl.server.connections import BoundedProtocol, ClientConnections, ConnectionLimits
from noetl.server.housekeeping import connection_limit, housekeeping, make_first_key, raise_limit, serve_triggers
from noetl.server.logs import configure_logging, log
from noetl.server.services import Services, serving_services
from noetl.server.workers import WorkerRow
from noetl.tools.files import missing_folder_warnings
from noetl.worker.control_plane import RetryingControlPlane
from noetl.worker.identity import own_worker_id
from noetl.worker.live_output import OutputSender
from noetl.worker.reports import SHARED_PENDING
from noetl.worker.worker import Worker

_log = logging.getLogger(__name__)
# Connections that the system queues until they are accepted: after a restart, many workers connect at once.
_BACKLOG = 512
# Seconds between two measurements of the delay of the event loop.
_LAG_S = 0.5
# How often a task is cancelled, once a second, before it is given up.
_CANCELLATIONS = 10


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """A server that listens. `first_token` is the admin's of a store that had none; it is shown once. `first_key` is
    the file of the master key that was made for a store that had none."""

    url: str
    host: str
    port: int
    # handed to the other processes of this server, which accept from the same port
    listening: socket.socket
    first_token: str | None
    first_key: Path | None
    services: Services

    def __repr__(self) -> str:
        return f"Served({self.url})"


class _Server(uvicorn.Server):
    """The process handles its signals, not the HTTP server."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    settings: ServerSettings,
    *,
    ready: Callable[[Served], Awaitable[None]],
    stop: asyncio.Event,
    listening: socket.socket | None = None,
) -> None:
    """Serve until `stop` is set. `ready` is awaited once everything listens. `listening` is the socket of another
    process of the same server, which has made the first token and the first key."""
    configure_logging(log_level(settings))
    async with serving(settings, listening) as served:
        await ready(served)
        await stop.wait()


def log_level(settings: ServerSettings) -> int:
    """The log level: at a terminal only warnings and errors, unless the setting asks for more."""
    chosen = logging.getLevelNamesMapping().get(settings.log_level.upper())
    if chosen is None:
        raise RefusedError(f'log_level is debug, info, warning or error, found "{settings.log_level}"')
    # Debug is an explicit choice, so it is used; info is the default, and would flood the author's terminal.
    return max(chosen, logging.WARNING) if settings.local and chosen >= logging.INFO else chosen


@asynccontextmanager
async def serving(settings: ServerSettings, shared: socket.socket | None = None) -> AsyncIterator[Served]:
    """A server for as long as the block lasts. If a part of it fails, the block is cancelled."""
    async with serving_services(settings) as services:
        has_tokens = await services.access.tokens.any_exist()  # before the first one is created below
        # Checked before the port is bound: a server that would be open to everybody never listens, not even for a
        # moment.
        tls = settings.tls_cert is not None
        check_bind(settings.host, tls=tls, proxy_flag=settings.behind_proxy, has_tokens=has_tokens)
        config = _config(services)
        # Bound before anything is created: a server whose port is in use ends without having changed the store.
        with bound(settings.host, settings.port) if shared is None else nullcontext(shared) as listening:
            _load_certificate(config)
            # Created only by a server that can listen: the token is shown once, and a server that fails before shows
            # nothing.
            first = await services.access.tokens.create_first_admin() if shared is None else None
            # a local server makes the key with the first credential
            makes_key = shared is None and not settings.local
            key = await make_first_key(services.store, services.clock, os.environ) if makes_key else None
            for warning in missing_folder_warnings(settings.data_folders) if shared is None else ():
                log.warning(warning)
            server = _Server(config)
            async with asyncio.TaskGroup() as group:
                background_tasks = [group.create_task(job) for job in background(services)]
                worker = worker_of(services)
                working = group.create_task(work(services, worker)) if worker is not None else None
                http = group.create_task(server.serve(sockets=[listening]))
                await _wait_until_listening(server, http)
                port = int(listening.getsockname()[1])
                yield Served(
                    url=url_of(settings.host, port, tls=tls),
                    host=settings.host,
                    port=port,
                    listening=listening,
                    first_token=first,
                    first_key=key,
                    services=services,
                )
                await _stop(services, server, http)
                # After the last request has been answered, so that all refused requests are counted.
                await services.access.audit.write_folded()
                if worker is not None and working is not None:
                    worker.drain()  # running tools may finish and be recorded within that time
                    await asyncio.wait({working}, timeout=settings.drain_s)
                    background_tasks.append(working)
                await cancel_tasks(background_tasks)


async def cancel_tasks(tasks: Collection[asyncio.Future[Any]]) -> None:
    """Cancel tasks and wait for them. A task that swallows a cancellation is cancelled again."""
    pending, rounds = {task for task in tasks if not task.done()}, 0
    while pending and rounds < _CANCELLATIONS:
        rounds += 1
        for task in pending:
            # Again every second: a database driver may swallow a cancellation, and the wait would never end.
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=1.0)
    if pending:
        log.error("background work does not end", tasks=[str(task)[:200] for task in pending])


async def _wait_until_listening(server: _Server, http: asyncio.Task[None]) -> None:
    # uvicorn has no event for this, so it is polled. If the server cannot start, `http` ends, and the task group raises
    # its error.
    while not server.started and not http.done():
        await asyncio.sleep(0.005)


async def _stop(services: Services, server: _Server, http: asyncio.Task[None]) -> None:
    """Stop: no more orders are given out, streams end, requests in progress are answered."""
    # Workers in a long poll are answered without an order and come back, or go to another server.
    services.stopping = True
    services.listeners.hub.close()
    # The children go on: their workers learn that this server stops, and ask another one for the same child.
    for waiting in list(services.calls.values()):
        waiting.cancel()
    server.should_exit = True
    await asyncio.wait({http})


def _config(services: Services) -> uvicorn.Config:
    settings = services.settings
    return uvicorn.Config(
        build(services),
        http=_bounded_protocol(settings),
        # Routes have no websocket, and the gate refuses one before this.
        ws="none",
        # `serving` opens and closes the services: they must outlast the HTTP server.
        lifespan="off",
        log_config=None,
        # `Observer` logs requests by route, without their content.
        access_log=False,
        # Clients need not know the program and its version.
        server_header=False,
        proxy_headers=settings.behind_proxy or bool(settings.trusted_proxies),
        forwarded_allow_ips=trusted_proxies(settings.trusted_proxies),
        timeout_keep_alive=75,
        # uvicorn takes whole seconds, and 0 would mean no time at all.
        timeout_graceful_shutdown=max(1, int(settings.drain_s)),
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )


def _load_certificate(config: uvicorn.Config) -> None:
    """RefusedError where its files cannot be used."""
    try:
        config.load()
    except (OSError, ssl.SSLError) as problem:
        files = f"{config.ssl_certfile} and its key {config.ssl_keyfile}"
        raise RefusedError(f"the certificate {files} cannot be used: {error_text(problem)}") from None


def _bounded_protocol(settings: ServerSettings) -> type[asyncio.Protocol]:
    """The protocol of connections that share this server's limits."""
    most = connection_limit(raise_limit(), settings.max_connections)
    has_proxy = settings.behind_proxy or bool(settings.trusted_proxies)
    # Behind a proxy every connection comes from its one address.
    by_address = None if has_proxy else min(settings.max_connections_per_address, max(1, most // 2))
    limits = ConnectionLimits(
        most=most,
        # The other half is reserved for callers with a token.
        anonymous=max(1, most // 2),
        anonymous_by_address=by_address,
        head_s=settings.head_timeout_s,
        body_s=settings.body_timeout_s,
        answer_s=settings.stream_patience_s,
    )
    return cast(type[asyncio.Protocol], partial(BoundedProtocol, ClientConnections(limits)))


@contextmanager
def bound(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens; port 0 takes any that is free. RefusedError when it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # named as TCP, for only then the event loop turns off Nagle's wait, which costs 40 ms an answer
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # A restart must not wait for connections of the previous server, which the system keeps for a minute.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
            listening.listen(_BACKLOG)
        except OSError as problem:
            raise RefusedError(f"cannot listen on {host}:{port}: {problem.strerror}; choose another --port") from None
        listening.setblocking(False)
        yield listening
    finally:
        listening.close()


def url_of(host: str, port: int, *, tls: bool) -> str:
    # 0.0.0.0 and :: mean every address; a browser opens one, and the loopback one is among them.
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"{'https' if tls else 'http'}://{shown}:{port}"


def background(services: Services) -> list[Coroutine[Any, Any, None]]:
    """The background tasks next to the HTTP server."""
    # The name by which other processes on the store see that this one is alive.
    running = services.control.background_jobs.all(shared_as=own_worker_id())
    running += [_measure_lag(services), housekeeping(services), serve_triggers(services)]
    running.append(services.caches.queue_depths.serve())
    running += [
        services.notifications.rules.serve(),
        services.listeners.sender.serve(),
        services.listeners.usage.serve(services.store),
    ]
    if services.listeners.tracing is not None:
        running.append(services.listeners.tracing.serve())
    if isinstance(services.clock, StoreClock):
        running.append(services.clock.keep_right())
    return running


def worker_of(services: Services) -> Worker | None:
    """A worker of its own, for `noetl dev` and small installations."""
    if not services.settings.workers:
        return None
    for_workers, handle = services.control.for_workers, services.worker_handle
    # A remote worker repeats its requests while the store is away; the one in this process has to do so as well.
    control_plane, values = RetryingControlPlane(for_workers, handle.leases), services.control.executions.values
    return Worker(
        control_plane,
        services.dispatch,
        services.tools,
        handle,
        clock=services.clock,
        slots=services.settings.workers,
        pools=(EVERY,),
        prepare=for_workers.prepare,
        mask_of=lambda execution_id: control_plane.until(lambda: for_workers.mask(execution_id)),
        settle=lambda what: control_plane.until(lambda: values.settled(what)),
        # As for remote workers: while the server takes one large batch of reports, every other worker waits.
        most_pending=SHARED_PENDING,
        output=OutputSender(handle.worker_id, for_workers.show_output),
    )


async def work(services: Services, worker: Worker) -> None:
    """Run the worker, registered in the roster, until it is drained or cancelled."""
    worker_id = own_worker_id()
    row = WorkerRow(
        worker_id=worker_id,
        pools=(EVERY,),
        capacity=services.settings.workers,
        kinds=services.tools.kinds(),
        version=own_version(),
    )
    await services.roster.register(row)
    seen = asyncio.create_task(_report_presence(services, worker_id))
    try:
        await worker.serve()
    finally:
        seen.cancel()
        # Broad: the process ends. Leases that are not returned expire.
        with suppress(Exception):
            await services.roster.remove(worker_id)
            await services.control.for_workers.give_back(worker_id)


async def _report_presence(services: Services, worker_id: str) -> None:
    outage = Outage(_log, "the worker of this server is not seen", "the worker of this server is seen again")
    while True:
        # Often enough: the roster counts a worker as live for 60 s after its last request.
        await asyncio.sleep(10.0)
        try:
            await services.roster.note_contact(worker_id)
            outage.worked()
        except BackendError as problem:  # the store is in an outage
            outage.failed(problem)


async def _measure_lag(services: Services) -> None:
    """How late this event loop runs its callbacks: the delay that a blocking call causes for all requests."""
    loop = asyncio.get_running_loop()
    while True:
        before = loop.time()
        await asyncio.sleep(_LAG_S)
        services.listeners.meters.lag.set(max(0.0, loop.time() - before - _LAG_S))
