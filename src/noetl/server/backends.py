"""What a server opens beside its store: wake-ups, the clock, the keychain; and whether the store can be written.

Wake-ups stay within the process for a file; servers that share a store use the database or a broker. Leases, timers and
schedules are moments in the store, and several servers compare them. So that they agree whatever their machines
believe, each takes the time from the database and counts on from there by a clock that nobody can set
(reliability.md §3.3).
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from noetl.base.addresses.guard import AddressGuard
from noetl.base.addresses.policy import AddressPolicy
from noetl.base.addresses.proxies import outbound_proxies
from noetl.base.clock import Clock, SystemClock
from noetl.base.errors import BackendError, NoetlError, Outage, RefusedError
from noetl.server.configuration import ServerSettings
from noetl.store.contract import Store
from noetl.store.installation import CredentialRows
from noetl.store.open_store import is_database
from noetl.store.wakeups.contract import MemoryWakeups, Wakeups

if TYPE_CHECKING:
    from noetl.secrets.keychain import Keychain


async def open_dispatch(settings: ServerSettings) -> Wakeups:
    """RefusedError names the extra that is missing."""
    if settings.nats is not None:
        try:
            from noetl.store.wakeups.nats import nats_dispatch
        except ImportError:
            raise RefusedError("a NATS broker needs its driver: install noetl-engine[nats]") from None
        linked = nats_dispatch(settings.nats)
    elif is_database(settings.db):
        from noetl.store.wakeups.postgres import postgres_dispatch  # the store has asked for its driver already

        linked = postgres_dispatch({"dsn": settings.db})
    else:
        return MemoryWakeups()
    await linked.open()
    return linked


# Between two looks the machine's monotonic clock counts on; in half a minute it drifts by a few milliseconds at most.
EVERY_S = 30.0
_SLOWEST_S = 1.0  # an answer that took longer says too little

_log = logging.getLogger(__name__)


class StoreClock:
    def __init__(self, store: Store, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store, self._monotonic = store, monotonic
        self._ahead_s = SystemClock().now() - monotonic()

    def now(self) -> float:
        return self._monotonic() + self._ahead_s

    async def synchronise(self) -> None:
        """Set it by the store."""
        before = self._monotonic()
        there = await self._store.now()
        after = self._monotonic()
        if there is not None and after - before <= _SLOWEST_S:
            self._ahead_s = there - (before + after) / 2

    async def keep_right(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Look again, for as long as anybody wants it."""
        outage = Outage(_log, "the clock was not set by the store", "the clock is set by the store again")
        while True:
            await sleep(EVERY_S)
            try:
                await self.synchronise()
                outage.worked()
            except NoetlError as problem:  # the store is away, say: it will be back
                outage.failed(problem)


async def clock_of(store: Store) -> Clock:
    """The store's clock where it has one of its own, else this machine's."""
    if await store.now() is None:
        return SystemClock()
    clock = StoreClock(store)
    await clock.synchronise()
    return clock


def open_server_keychain(credentials: CredentialRows, clock: Clock, settings: ServerSettings) -> Keychain:
    from noetl.secrets.contract import Sources
    from noetl.secrets.keychain import Keychain, open_keychain
    from noetl.secrets.master_keys import load_master_keys
    from noetl.secrets.token_requests import TokenRequests
    from noetl.secrets.vault import Vault

    if settings.local:
        return open_keychain(credentials, clock)
    vault = Vault(credentials, load_master_keys(os.environ), clock)
    environment = {name: os.environ[name] for name in settings.secret_variables if name in os.environ}
    proxies = outbound_proxies(settings.proxy, settings.no_proxy, os.environ)
    post = TokenRequests(AddressGuard(AddressPolicy(allow=settings.allow_addresses, proxies=proxies)))
    return Keychain(
        Sources(
            environment=environment,
            vault=vault,
            clock=clock,
            read_file=_reader(settings),
            post=post,
            sees_environment=False,
        )
    )


class _reader:  # noqa: N801  a function with the folders it may look into
    def __init__(self, settings: ServerSettings) -> None:
        self._folders = [Path(folder).resolve() for folder in settings.secret_folders]

    def __call__(self, path: str) -> str:
        from noetl.secrets.keychain import read_file

        file = Path(path.removeprefix("file://")).expanduser().resolve()
        if not any(file.is_relative_to(folder) for folder in self._folders):
            raise RefusedError(
                "this server reads no such file: its operator names the folders of secrets (secret_folders)"
            )
        return read_file(str(file))


KIND, NAME = "health", "probe"
# Load balancers ask often; the store is not written for each of them.
TRIED_EVERY_S = 5.0


class Readiness:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._tried_at = float("-inf")
        self._problem: str | None = None
        # One try at a time: while a store hangs, every probe would start another.
        self._trying = asyncio.Lock()

    async def problem(self) -> str | None:
        """Why the server cannot serve, None when it can."""
        async with self._trying:
            if time.monotonic() - self._tried_at >= TRIED_EVERY_S:
                self._problem = await self._try()
                self._tried_at = time.monotonic()
        return self._problem

    async def _try(self) -> str | None:
        key_values = self._store.key_values
        try:
            await self._store.executions(limit=1)
            there = await key_values.get(KIND, NAME)
        except BackendError:
            return "the store cannot be read"
        try:
            over = there.version if there is not None else 0
            await key_values.put(KIND, NAME, b"{}", over=over, at=self._clock.now())  # None: another server was faster
        except BackendError:
            return "the store cannot be written"
        return None
