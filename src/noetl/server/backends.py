"""Resources of a server besides its store: wake-ups, the clock, the keychain; and the check that the store is writable.

With a file, wake-ups stay within the process; servers that share a store use the database or a broker. Leases, timers
and schedules are times in the store that several servers compare. So that servers agree even if the clocks of their
machines differ, each takes the time from the database and advances it by its monotonic clock (reliability.md §3.3).
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from noetl.base.addresses.policy import AddressGuard, AddressPolicy
from noetl.base.addresses.proxies import outbound_proxies
from noetl.base.clock import Clock, SystemClock
from noetl.base.errors import BackendError, NoetlError, Outage, RefusedError
from noetl.server.configuration import ServerSettings
from noetl.store.contract import Store
from noetl.store.installation import CredentialRows
from noetl.store.open_store import is_database
from noetl.store.wakeups import MemoryWakeups, Wakeups

if TYPE_CHECKING:
    from noetl.secrets.keychain import Keychain


async def open_dispatch(settings: ServerSettings) -> Wakeups:
    """The wake-ups for these settings. RefusedError names a missing extra."""
    if settings.nats is not None:
        try:
            from noetl.store.nats_wakeups import nats_dispatch
        except ImportError:
            raise RefusedError('a NATS broker needs its driver: pip install "noetl-engine[nats]"') from None
        wakeups = nats_dispatch(settings.nats)
    elif is_database(settings.db):
        # Opening the store has checked that the driver is installed.
        from noetl.store.wakeups import postgres_dispatch

        wakeups = postgres_dispatch({"dsn": settings.db})
    else:
        return MemoryWakeups()
    await wakeups.open()
    return wakeups


# Between two synchronisations the monotonic clock of the machine is used; it drifts by a few milliseconds in 30 s.
EVERY_S = 30.0
# A slower answer is ignored: the time of the store would be uncertain by half of its duration.
_SLOWEST_S = 1.0

_log = logging.getLogger(__name__)


class StoreClock:
    """The clock of the store's database, advanced by the monotonic clock of this machine."""

    def __init__(self, store: Store, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store, self._monotonic = store, monotonic
        self._ahead_s = SystemClock().now() - monotonic()

    def now(self) -> float:
        return self._monotonic() + self._ahead_s

    async def synchronise(self) -> None:
        """Set the clock by the store."""
        before = self._monotonic()
        store_time = await self._store.now()
        after = self._monotonic()
        if store_time is not None and after - before <= _SLOWEST_S:
            # The store read its clock between `before` and `after`; the middle is off by at most half of that time.
            self._ahead_s = store_time - (before + after) / 2

    async def keep_right(self) -> None:
        """Synchronise every EVERY_S seconds until cancelled."""
        outage = Outage(_log, "the clock was not set by the store", "the clock is set by the store again")
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self.synchronise()
                outage.worked()
            # The store may be unreachable for a while; the clock keeps counting meanwhile.
            except NoetlError as problem:
                outage.failed(problem)


async def clock_of(store: Store) -> Clock:
    """The clock of the store if it has one, else that of this machine."""
    if await store.now() is None:
        return SystemClock()
    clock = StoreClock(store)
    await clock.synchronise()
    return clock


def open_server_keychain(credentials: CredentialRows, clock: Clock, settings: ServerSettings) -> Keychain:
    from noetl.secrets.contract import Sources
    from noetl.secrets.encryption import load_master_keys
    from noetl.secrets.keychain import Keychain, open_keychain
    from noetl.secrets.token_requests import TokenRequests
    from noetl.secrets.vault import Vault

    if settings.local:
        return open_keychain(credentials, clock)
    # On a server, a playbook reads only those variables and folders that the operator has named.
    vault = Vault(credentials, load_master_keys(os.environ), clock)
    environment = {name: os.environ[name] for name in settings.secret_variables if name in os.environ}
    proxies = outbound_proxies(settings.proxy, settings.no_proxy, os.environ)
    post = TokenRequests(AddressGuard(AddressPolicy(allow=settings.allow_addresses, proxies=proxies)))
    return Keychain(
        Sources(
            environment=environment,
            vault=vault,
            clock=clock,
            read_file=_FolderReader(settings),
            post=post,
            sees_environment=False,
        )
    )


class _FolderReader:
    """Reads secret files from the folders that the operator has named."""

    def __init__(self, settings: ServerSettings) -> None:
        self._folders = [Path(folder).resolve() for folder in settings.secret_folders]

    def __call__(self, path: str) -> str:
        from noetl.secrets.keychain import read_file

        # Resolve before comparing: a link or `..` could lead out of the folder.
        file = Path(path.removeprefix("file://")).expanduser().resolve()
        if not any(file.is_relative_to(folder) for folder in self._folders):
            raise RefusedError(
                "this server reads no such file: its operator names the folders of secrets (secret_folders)"
            )
        return read_file(str(file))


KIND, NAME = "health", "probe"
# Load balancers probe often; the store is not written for each probe.
TRIED_EVERY_S = 5.0


class Readiness:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._tried_at = float("-inf")
        self._problem: str | None = None
        # One try at a time: otherwise every probe would start another while the store hangs.
        self._trying = asyncio.Lock()

    async def problem(self) -> str | None:
        """The reason why the server cannot serve; None if it can."""
        async with self._trying:
            if time.monotonic() - self._tried_at >= TRIED_EVERY_S:
                self._problem = await self._try()
                self._tried_at = time.monotonic()
        return self._problem

    async def _try(self) -> str | None:
        key_values = self._store.key_values
        try:
            await self._store.executions(limit=1)
            row = await key_values.get(KIND, NAME)
        except BackendError:
            return "the store cannot be read"
        try:
            over = row.version if row is not None else 0
            # A refused write is fine: another server wrote the row first, so the store is writable.
            await key_values.put(KIND, NAME, b"{}", over=over, at=self._clock.now())
        except BackendError:
            return "the store cannot be written"
        return None
