"""Database: our connections to PostgreSQL. Reads are retried when a connection is lost, up to a time limit. A write
is sent once; if the answer never came, the error says that the outcome is uncertain. A write that was lost before its
commit was not stored.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg  # type: ignore[import-untyped]
import msgspec

from noetl.base.errors import (
    BackendError,
    Outage,
    StoreUnreachableError,
    StoreUnwritableError,
    UnfitError,
    UnreadableError,
    error_text,
)
from noetl.store.contract import ConflictError
from noetl.store.sql_files import named_queries

CONFLICT = "NOETL"  # the SQLSTATE of the function `conflict`

# The connection is lost, or there is none available: another attempt may succeed.
LOST = (
    OSError,  # TimeoutError as well
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)
# A conflict on the same rows: nothing was stored, and a new decision is sufficient.
_CONTENDED = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError, asyncpg.LockNotAvailableError)


class UncertainError(ConflictError, StoreUnreachableError):
    """The connection was lost while something was stored: it may be stored or not. As with every conflict, the
    caller has to read again before the next decision."""


def is_lost(problem: BaseException) -> bool:
    if isinstance(problem, asyncpg.InternalClientError):
        return True  # the driver was in the middle of something when its connection ended, and is confused by it
    if isinstance(problem, asyncpg.InterfaceError):
        return "connection" in str(problem) and "closed" in str(problem)  # the driver has noticed before we did
    return isinstance(problem, LOST)


def unreachable(where: str, problem: BaseException) -> StoreUnreachableError:
    return StoreUnreachableError(f"the store {where} cannot be reached: {error_text(problem)}")


def uncertain(where: str, problem: BaseException) -> UncertainError:
    why = error_text(problem)
    return UncertainError(f"the store {where} was lost while something was stored, which may be stored or not: {why}")


def explained(where: str, problem: BaseException) -> BackendError:
    """The error to raise for one of PostgreSQL or of its driver."""
    match problem:
        case asyncpg.PostgresError(sqlstate=state) if state == CONFLICT:
            return ConflictError(error_text(problem))
        # A position or an id that another server has stored first. `Written` interprets it.
        case asyncpg.UniqueViolationError():
            return ConflictError(_stored_already(problem))
        case problem if isinstance(problem, _CONTENDED):
            return ConflictError(f"others were writing the same rows: {error_text(problem)}")
        case asyncpg.InvalidAuthorizationSpecificationError():  # for example a wrong password
            return BackendError(f"the store {where} does not let us in: {error_text(problem)}")
        case asyncpg.InvalidCatalogNameError():
            return BackendError(f"the store {where} does not exist: {error_text(problem)}; create the database first")
        case asyncpg.InsufficientPrivilegeError():
            return BackendError(f"the store {where} does not allow this: {error_text(problem)}; grant it to our user")
        case asyncpg.CharacterNotInRepertoireError() | asyncpg.UntranslatableCharacterError():
            return UnfitError(f"the store {where} cannot hold this text: {error_text(problem)}")
        case asyncpg.DataCorruptedError():
            return UnreadableError(f"the store {where} is damaged: {error_text(problem)}")
        case asyncpg.DiskFullError() | asyncpg.ReadOnlySQLTransactionError():
            return StoreUnwritableError(f"the store {where} cannot be written: {error_text(problem)}")
        case _:
            return BackendError(f"the store {where} failed: {error_text(problem)}")


@contextmanager
def damage_as_unreadable(execution_id: str) -> Iterator[None]:
    """Report damage among the events of one execution as an error of that execution alone."""
    try:
        yield
    except (UnicodeDecodeError, UnreadableError) as problem:
        raise UnreadableError(f"an event of execution {execution_id} is damaged: {error_text(problem)}") from problem


def is_there_already(problem: BackendError) -> bool:
    """Whether another process has stored the same rows."""
    return isinstance(problem.__cause__, asyncpg.UniqueViolationError)


def _stored_already(problem: asyncpg.UniqueViolationError) -> str:
    match problem.table_name:
        case "execution":
            return f"this execution exists already: {problem.detail}"
        case table if table == "unpacked_event" or (table or "").startswith("history"):
            return f"an event of this execution is stored already: {problem.detail}"
        case table if (table or "").startswith("event_key"):
            return "an event of this execution, or an end of what it ends, is stored already"
        case table:
            return f"this is in the table {table} already: {problem.detail}"


# Of each server. Commits go through one group commit, so most of these serve readers.
CONNECTIONS = 8
CONNECT_S = 10.0
PATIENCE_S = 20.0  # a server that is restarted is back within it
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_IDLE_S = 300.0
_CLOSE_S = 5.0
_ANSWER_S = 60.0  # after this time, a connection counts as lost


# any exception of the driver; a time-out is an OSError
DRIVER = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
_T = TypeVar("_T")
_log = logging.getLogger(__name__)
QUERIES = named_queries(Path(__file__).with_name("queries.sql"))
DEFAULT_SCHEMA = "noetl"
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


# A new table looks small, and a query plan that was made for it would be kept while the table grows. Each of our
# statements has an index with the rows in the order it needs.
_PLANNING = {f"enable_{way}": "off" for way in ("seqscan", "bitmapscan", "hashjoin", "mergejoin")} | {"jit": "off"}


# A client that goes silent in the middle of a transaction holds locks that all others wait for; the server disconnects
# it.
_SILENCE = {
    "idle_in_transaction_session_timeout": "5s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}


class Database:
    """Queries by their names in queries.sql. Every failure is a BackendError."""

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
        """BackendError at once when there is nothing to connect to, because the address may be a typo. A database that
        is starting or stopping is waited for."""
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
        """Write with one statement; returns how many rows it has touched."""
        status = await self.write(lambda connection: connection.execute(QUERIES[query], *values))
        return int(status.rpartition(" ")[2])

    async def assign(self, query: str, *values: Any) -> int:
        """Like `change`, for an idempotent statement: it is repeated like a read."""
        # Repeated like a read: these statements set values, so a second run changes nothing.
        status = await self.read(lambda connection: connection.execute(QUERIES[query], *values))
        return int(status.rpartition(" ")[2])

    async def read(self, work: Callable[[Any], Awaitable[_T]]) -> _T:
        """The result of `work` with a connection; repeated after a lost connection, since reading twice changes
        nothing."""
        return await self._with_retries(work, repeats=lambda: True)

    async def write(self, work: Callable[[Any], Awaitable[_T]]) -> _T:
        """Like `read`, for work that must not be done twice. UncertainError if the connection was lost meanwhile."""
        return self._written(await self._with_retries(work, repeats=lambda: False))

    async def run_in_transaction(self, work: Callable[[Any], Awaitable[_T]], *, repeats: bool = False) -> _T:
        """A write of several statements: all of them or none. A process that was stopped for long between two of
        them has lost its connection, and nothing is stored: they are executed again. `repeats` is for idempotent
        writes; the commit of any other write is sent once."""
        is_committed = False

        async def in_transaction(connection: Any) -> _T:
            nonlocal is_committed
            is_committed = False
            async with connection.transaction():
                given = await work(connection)
                is_committed = not connection.is_closed()  # later statements are sent at once, regardless of its result
            return given

        return self._written(await self._with_retries(in_transaction, repeats=lambda: repeats or not is_committed))

    def _written(self, given: _T) -> _T:
        """Note that the store can be written. A statement that has touched no row shows nothing: a full disk lets it
        pass."""
        if self._full.is_on and not (isinstance(given, str) and given.endswith(" 0")):
            self._full.worked()
        return given

    async def _with_retries(self, work: Callable[[Any], Awaitable[_T]], *, repeats: Callable[[], bool]) -> _T:
        pauses, task = Pauses(self.patience_s), asyncio.current_task()
        # The driver turns a cancellation into an error of the connection. The count of cancellations distinguishes the
        # two.
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
                    # A connection that fails while it closes would hide the cancellation.
                    raise asyncio.CancelledError from problem
                if not is_lost(problem):
                    error = explained(self.where, problem)
                    if isinstance(error, StoreUnwritableError):
                        self._full.failed(problem, began_at=began_at)
                    raise error from problem
                # one lost connection is no outage yet: a new one may be available at once
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
        """Remaining connections are closed."""
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
        reset=_no_reset,
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


async def _no_reset(connection: Any) -> None:
    """No reset of a session: our statements leave no state in it, so no request is needed between two uses."""


# Address of a store in PostgreSQL: the URL of the user, and the schema of the store.
#
# `postgresql://user:password@host:port/database`, with the options of libpq after `?`. `search_path` names the schema;
# without it, `noetl`, so that our tables are in a schema of their own.


class Address(msgspec.Struct, frozen=True):
    """`dsn` is for the driver and may hold a password; `shown` is for people and holds none."""

    dsn: str
    shown: str
    schema: str

    def connect_arguments(self) -> dict[str, Any]:
        settings = {"application_name": "noetl", "search_path": self.schema, **_PLANNING, **_SILENCE}
        return {"dsn": self.dsn, "server_settings": settings}


def address_of(url: str) -> Address:
    """BackendError for an invalid address."""
    try:
        parts = urlsplit(url)
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        host = "" if parts.hostname is None else parts.netloc.rpartition("@")[2]
    except ValueError as problem:
        raise BackendError(f"this is not a database address: {problem}") from None  # it may hold a password
    schema = dict(options).get("search_path", DEFAULT_SCHEMA)
    if not _PLAIN_NAME.fullmatch(schema):
        raise BackendError(f'search_path "{schema}" is not one plain schema name (lower case, digits, _)')
    others = [(name, value) for name, value in options if name != "search_path"]
    dsn = urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(others), ""))
    where = host or dict(options).get("host", "")
    shown = f"postgresql://{where}{parts.path}" + (f" (schema {schema})" if schema != DEFAULT_SCHEMA else "")
    return Address(dsn=dsn, shown=shown, schema=schema)
