"""Database: our connections to PostgreSQL. Reads are repeated when a connection is lost, until patience ends; a write
is sent once, and is told to be uncertain if the answer never came. What was lost before its commit was never stored.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg  # type: ignore[import-untyped]
import msgspec

from noetl.base.errors import BackendError, Outage, StoreUnwritableError, UnfitError
from noetl.store.postgres.failures import explained, is_lost, uncertain, unreachable
from noetl.store.sql_files import named_queries

# Of each server. Commits go through one group commit, so most of these serve readers.
CONNECTIONS = 8
CONNECT_S = 10.0
PATIENCE_S = 20.0  # a server that is restarted is back within it
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_IDLE_S = 300.0
_CLOSE_S = 5.0
_ANSWER_S = 60.0  # past it, a connection is as good as lost


# whatever the driver may raise; a time-out is an OSError
DRIVER = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
_T = TypeVar("_T")
_log = logging.getLogger(__name__)
QUERIES = named_queries(Path(__file__).with_name("queries.sql"))
DEFAULT_SCHEMA = "noetl"
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


# A young table looks small, and a plan made for it would be kept while it grows. Each of our statements has an index
# that gives what it wants in the order it wants.
_PLANNING = {f"enable_{way}": "off" for way in ("seqscan", "bitmapscan", "hashjoin", "mergejoin")} | {"jit": "off"}


# Who has fallen silent in the middle of a transaction holds locks that all others wait for; the server ends it.
_SILENCE = {
    "idle_in_transaction_session_timeout": "5s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}


class Database:
    """Queries by their names in queries.sql. Whatever goes wrong is a BackendError."""

    def __init__(self, pool: Any, address: Address, *, patience_s: float = PATIENCE_S) -> None:
        self._pool, self.address, self.patience_s = pool, address, patience_s
        where = address.shown
        self._outage = Outage(_log, f"the store {where} cannot be reached", f"the store {where} is reached again")
        self._full = Outage(_log, f"the store {where} cannot be written", f"the store {where} can be written again")

    @property
    def where(self) -> str:
        return self.address.shown

    @classmethod
    async def open(cls, address: Address, *, connections: int = CONNECTIONS) -> Database:
        """BackendError when there is nothing to connect to, at once: whoever opens a store has just named it. One that
        is starting, or ending, is waited for."""
        pauses = Pauses(PATIENCE_S)
        try:
            while True:
                try:
                    return cls(await _pool(address, connections), address)
                except asyncpg.CannotConnectNowError:
                    if not await pauses.waited():
                        raise
        except (ValueError, *DRIVER) as problem:
            lost = is_lost(problem)
            raise (unreachable if lost else explained)(address.shown, problem) from problem

    async def rows(self, query: str, *values: Any) -> list[Any]:
        return await self.read(lambda connection: connection.fetch(QUERIES[query], *values))

    async def row(self, query: str, *values: Any) -> Any:
        """The first row, or None."""
        return await self.read(lambda connection: connection.fetchrow(QUERIES[query], *values))

    async def value(self, query: str, *values: Any) -> Any:
        """The first column of the first row, or None."""
        return await self.read(lambda connection: connection.fetchval(QUERIES[query], *values))

    async def change(self, query: str, *values: Any) -> int:
        """Write with one statement; gives how many rows it has touched."""
        status = await self.write(lambda connection: connection.execute(QUERIES[query], *values))
        return int(status.rpartition(" ")[2])

    async def assign(self, query: str, *values: Any) -> int:
        """The same for what leaves the same when it is done twice: it is repeated like a read."""
        # Repeated like a read: these statements set values, so a second run changes nothing.
        status = await self.read(lambda connection: connection.execute(QUERIES[query], *values))
        return int(status.rpartition(" ")[2])

    async def read(self, work: Callable[[Any], Awaitable[_T]]) -> _T:
        """What `work` gives for a connection; again when it was lost, since reading twice changes nothing."""
        return await self._patiently(work, repeats=lambda: True)

    async def write(self, work: Callable[[Any], Awaitable[_T]]) -> _T:
        """The same for what must not be done twice. UncertainError when the connection was lost meanwhile."""
        return self._written(await self._patiently(work, repeats=lambda: False))

    async def run_in_transaction(self, work: Callable[[Any], Awaitable[_T]], *, repeats: bool = False) -> _T:
        """A write of several statements: all of them or none. A process that was stopped for long between two of them
        has lost its connection, and nothing is stored: they are said again. `repeats` is for what leaves the same when
        it is done twice; the commit of anything else is sent once."""
        is_committed = False

        async def in_transaction(connection: Any) -> _T:
            nonlocal is_committed
            is_committed = False
            async with connection.transaction():
                given = await work(connection)
                is_committed = not connection.is_closed()  # what follows is sent at once, whatever becomes of it
            return given

        return self._written(await self._patiently(in_transaction, repeats=lambda: repeats or not is_committed))

    def _written(self, given: _T) -> _T:
        """Note that the store can be written. A statement that has touched no row shows nothing: a full disk lets it
        pass."""
        if self._full.is_on and not (isinstance(given, str) and given.endswith(" 0")):
            self._full.worked()
        return given

    async def _patiently(self, work: Callable[[Any], Awaitable[_T]], *, repeats: Callable[[], bool]) -> _T:
        pauses, task = Pauses(self.patience_s), asyncio.current_task()
        # The driver turns a cancellation into an error of the connection. Counting tells the two apart.
        asked_to_end = task.cancelling() if task is not None else 0
        while True:
            has_begun, began_at = False, time.monotonic()
            try:
                async with self._pool.acquire(timeout=CONNECT_S) as connection:
                    has_begun = True
                    given = await work(connection)
                    self._outage.worked()
                    return given
            except DRIVER as problem:
                if task is not None and task.cancelling() > asked_to_end:
                    raise asyncio.CancelledError from problem  # which a connection that ends badly would have hidden
                if not is_lost(problem):
                    told = explained(self.where, problem)
                    if isinstance(told, StoreUnwritableError):
                        self._full.failed(problem, began_at=began_at)
                    raise told from problem
                # a connection that ends is no outage yet: the next one may be had at once
                if not has_begun or isinstance(problem, TimeoutError):
                    self._outage.failed(problem, began_at=began_at)
                # The statement may have reached the server. Only its caller knows whether it may be sent twice.
                if has_begun and not repeats():
                    raise uncertain(self.where, problem) from problem
                if not await pauses.waited():
                    raise unreachable(self.where, problem) from problem
            except UnicodeEncodeError as problem:
                raise UnfitError(f"the store {self.where} cannot hold this text: {problem}") from problem

    async def close(self) -> None:
        """What does not end by itself is ended."""
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._pool.close()
        except DRIVER:
            self._pool.terminate()


async def _pool(address: Address, connections: int) -> Any:
    """Connections are made when they are needed: a pool that keeps a number of them up (`min_size`) tries by itself
    during an outage, and writes a traceback for each attempt."""
    pool = await asyncpg.create_pool(
        min_size=0,
        max_size=connections,
        max_inactive_connection_lifetime=_IDLE_S,
        timeout=CONNECT_S,
        command_timeout=_ANSWER_S,
        # The driver would send a statement that resets the session after every use: a round trip for each of ours.
        reset=_nothing,
        **address.connect_arguments(),
    )
    try:
        async with pool.acquire(timeout=CONNECT_S):
            return pool
    except BaseException:
        pool.terminate()
        raise


class Pauses:
    """Growing pauses between attempts, for as long as patience lasts."""

    def __init__(self, patience_s: float) -> None:
        self._until = asyncio.get_running_loop().time() + patience_s
        self._next_s = _FIRST_PAUSE_S

    async def waited(self) -> bool:
        """Wait once more; False when patience has ended."""
        if asyncio.get_running_loop().time() + self._next_s > self._until:
            return False
        await asyncio.sleep(self._next_s)
        self._next_s = min(2 * self._next_s, _LONGEST_PAUSE_S)
        return True


async def _nothing(connection: Any) -> None:
    """Our statements leave nothing behind in a session, so nothing is asked of the server between two of them."""


# Address of a store in PostgreSQL: the URL its user gave, and the schema in it that is ours.
#
# `postgresql://user:password@host:port/database`, with the options of libpq after `?`. `search_path` names the schema;
# without it, `noetl`, so that our tables lie beside those of others and not among them.


class Address(msgspec.Struct, frozen=True):
    """`dsn` is for the driver and may hold a password; `shown` is for people and holds none."""

    dsn: str
    shown: str
    schema: str

    def connect_arguments(self) -> dict[str, Any]:
        settings = {"application_name": "noetl", "search_path": self.schema, **_PLANNING, **_SILENCE}
        return {"dsn": self.dsn, "server_settings": settings}


def address_of(url: str) -> Address:
    """BackendError when it cannot be one."""
    try:
        parts = urlsplit(url)
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        host = "" if parts.hostname is None else parts.netloc.rpartition("@")[2]
    except ValueError as problem:
        raise BackendError(f"this is no address of a database: {problem}") from None  # it may hold a password
    schema = dict(options).get("search_path", DEFAULT_SCHEMA)
    if not _PLAIN_NAME.fullmatch(schema):
        raise BackendError(f'search_path "{schema}" is not one plain schema name (lower case, digits, _)')
    others = [(name, value) for name, value in options if name != "search_path"]
    dsn = urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(others), ""))
    where = host or dict(options).get("host", "")
    shown = f"postgresql://{where}{parts.path}" + (f" (schema {schema})" if schema != DEFAULT_SCHEMA else "")
    return Address(dsn=dsn, shown=shown, schema=schema)
