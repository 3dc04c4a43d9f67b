"""Connection pools, one per credential. Connections open on first use, close when idle for long, and go only to
addresses that the guard allows. TLS verifies the host name. Errors of the driver become error outcomes with their
SQLSTATE (OUT-02, OUT-03)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any

import asyncpg  # type: ignore[import-untyped]
from asyncpg import connect_utils
from asyncpg.protocol import Protocol  # type: ignore[import-untyped]

from noetl.base.addresses.policy import AddressGuard, BlockedError, UnresolvedError, literal
from noetl.base.errors import ToolError
from noetl.tools.guarded_sockets import ReceivedTooMuchError
from noetl.tools.postgres.parameters import CODECS
from noetl.tools.postgres.targets import PostgresTarget

HELPER = "pg"
# Serialisation failure, deadlock, too many connections, lock not available, and the shutdown or start of a server: the
# same statement may well succeed later.
_RETRYABLE = frozenset({"40001", "40P01", "53300", "55P03", "57P01", "57P02", "57P03"})
_DETAILS = ("detail", "hint", "constraint_name", "schema_name", "table_name", "column_name", "position")
_HINTS = {
    "25001": "spec.transaction: false runs each statement by itself",
    "42P18": "say its type, as in {{ … }}::text",
}


@contextmanager
def as_tool_errors() -> Iterator[None]:
    """Turn errors of the driver inside the block into ToolError."""
    try:
        yield
    except asyncpg.PostgresError as problem:
        raise server_error(problem) from problem
    except asyncpg.InterfaceError as problem:
        # A failed rollback on a lost connection hides why the connection was lost.
        if isinstance(hidden := problem.__context__, asyncpg.PostgresError):
            raise server_error(hidden) from hidden
        raise pg_error(f"the driver cannot do this: {problem}", retryable=False) from problem
    except OSError as problem:
        raise pg_error(f"the connection to PostgreSQL was lost: {problem}", retryable=True) from problem


def server_error(problem: Any) -> ToolError:
    """An error that the server reported, or that its answer is."""
    if isinstance(problem.__cause__, ReceivedTooMuchError):
        return ToolError("result.too_large", str(problem.__cause__))
    code, server_message = problem.sqlstate, _server_message(problem)
    if code == "57014":
        error = ToolError("timeout", f"PostgreSQL ended the statement: {server_message}", retryable=True, code=code)
        error.details["message"] = server_message
        return error
    details = {name: found for name in _DETAILS if (found := getattr(problem, name, None)) is not None}
    if (hint := _HINTS.get(code)) is not None:
        details["hint"] = f"{details['hint']}; {hint}" if "hint" in details else hint
    message = f"{server_message} ({code})"
    if "hint" in details:
        message += f"; {details['hint']}"
    return pg_error(message, code, server_message, details)


def _server_message(problem: Any) -> str:
    """The message of the server. Of the driver's own messages only the beginning: the rest shows the value."""
    return getattr(problem, "message", None) or str(problem).split(":")[0]


def connect_error(problem: Exception, target: object) -> ToolError:
    """The error of a failed connection attempt."""
    if isinstance(problem.__cause__, ReceivedTooMuchError):
        return ToolError("result.too_large", f"{target}: {problem.__cause__}")
    code = getattr(problem, "sqlstate", None)
    what = "it did not answer in time" if isinstance(problem, TimeoutError) else str(problem) or type(problem).__name__
    refused = code is not None and not _is_retryable(code)
    return pg_error(f"cannot connect to {target}: {what}", code, what, retryable=not refused)


def pg_error(
    message: str,
    code: str | None = None,
    server_message: str | None = None,
    details: dict[str, Any] | None = None,
    *,
    retryable: bool | None = None,
) -> ToolError:
    is_retryable = _is_retryable(code) if retryable is None else retryable
    error = ToolError("pg.error", message, retryable=is_retryable, code=code, **(details or {}))
    error.details["message"] = server_message or message  # `outcome.pg.message`
    return error


def _is_retryable(code: str | None) -> bool:
    return code is not None and (code in _RETRYABLE or code.startswith("08"))


# What a server may send for one call of the driver, which holds a message until it is complete and all rows of a call
# until the last one: four times the largest result.
MAX_RECEIVED_BYTES = 256 << 20
_is_bounded: ContextVar[bool] = ContextVar("_is_bounded", default=False)
_protocols = connect_utils.protocol
_CALLS = ("prepare", "bind", "bind_execute", "bind_execute_many", "execute", "query", "copy_in", "close_statement")


class _BoundedProtocol(Protocol):  # type: ignore[misc]
    """The protocol of a connection to a server that a playbook names. Each call of the driver has the limit anew."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._left = MAX_RECEIVED_BYTES

    def data_received(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            # The loop closes the connection for it, and the driver raises it where the answer is awaited.
            raise ReceivedTooMuchError(
                f"the server sent more than {MAX_RECEIVED_BYTES >> 20} MiB: ask for less, or for rows: parquet"
            )
        super().data_received(data)

    def __getattribute__(self, name: str) -> Any:
        if name in _CALLS:
            self._left = MAX_RECEIVED_BYTES
        return super().__getattribute__(name)

    def copy_out(self, statement: Any, sink: Callable[[bytes], Awaitable[None]], timeout: Any) -> Any:
        # Rows that go to a file have a limit of their own; here it holds for what is not yet written.
        async def write(data: bytes) -> None:
            self._left = MAX_RECEIVED_BYTES
            await sink(data)

        return super().copy_out(statement, write, timeout)


class _Protocols:
    """The driver's module of protocols, with the bounded one for connections of tools. The store has connections of
    this driver too: its server belongs to the operator, and its way is kept short."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_protocols, name)

    @property
    def Protocol(self) -> Any:  # noqa: N802  the name in the driver
        return _BoundedProtocol if _is_bounded.get() else Protocol


connect_utils.protocol = _Protocols()


_TLS = ("require", "verify-ca", "verify-full")


class GuardedConnect:
    """Opens the connections of one pool. Each one resolves its host again and is checked by the guard again."""

    def __init__(self, target: PostgresTarget, guard: AddressGuard, connect_s: float) -> None:
        self._target, self._guard, self._connect_s = target, guard, connect_s

    async def __call__(self, *_: Any, **arguments: Any) -> Any:
        where, mark = await self._where(), _is_bounded.set(True)
        try:
            return await asyncpg.connect(**arguments, **where)
        finally:
            _is_bounded.reset(mark)

    async def _where(self) -> dict[str, Any]:
        target = self._target
        if target.on_socket:
            self._guard.allow_socket(str(target), target.host)
            return {"host": target.host, "ssl": False}
        try:
            async with asyncio.timeout(self._connect_s):
                found = await self._guard.addresses(target.host, target.port)
        except BlockedError as problem:
            raise BlockedError(f"{target} is blocked: {problem.message}") from None
        except UnresolvedError as problem:
            why = f"the host was not found ({problem.message})"
            raise pg_error(f"cannot connect to {target}: {why}", None, why, retryable=True) from None
        return {"host": [str(address) for address in found], "ssl": _tls(target)}


def _tls(target: PostgresTarget) -> ssl.SSLContext | str:
    """The TLS setting of a target. It verifies the host name, though the connection goes to an address."""
    mode = target.ssl or "prefer"
    # asyncpg handles the other modes itself. A literal address is the name that is checked.
    if mode not in _TLS or literal(target.host) is not None:
        return mode
    context = _NamedTlsContext(ssl.PROTOCOL_TLS_CLIENT)
    context.host = target.host
    context.check_hostname = mode == "verify-full"
    context.verify_mode = ssl.CERT_NONE if mode == "require" else ssl.CERT_REQUIRED
    if mode != "require":
        context.load_default_certs()
    return context


class _NamedTlsContext(ssl.SSLContext):
    """A TLS context that verifies a host name other than the address of the connection."""

    host: str

    def wrap_bio(self, incoming: Any, outgoing: Any, server_side: bool = False, *_: Any, **__: Any) -> ssl.SSLObject:
        return super().wrap_bio(incoming, outgoing, server_side=server_side, server_hostname=self.host)


# For each worker and credential: a server allows about a hundred connections in all by default.
DEFAULT_SIZE = 5
CONNECT_TIMEOUT_S = 10.0
IDLE_S = 60.0  # a worker that no longer uses a database frees its connections
CLOSE_S = 5.0


class PostgresPools:
    """Pools by target. The first task of a target decides its size (`spec.pool_size`)."""

    def __init__(self) -> None:
        self._pools: dict[PostgresTarget, Any] = {}
        # Two tasks that start at once must not each open a pool for the same target.
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def connection(
        self, target: PostgresTarget, guard: AddressGuard, *, size: Any, connect_s: float | None
    ) -> AsyncIterator[Any]:
        """A connection for the sole use of the block. Raises ToolError `pg.error` with the reason if there is none."""
        pool = await self._pool(target, guard, size, connect_s or CONNECT_TIMEOUT_S)
        try:
            connection = await pool.acquire()
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as problem:
            raise connect_error(problem, target) from problem
        try:
            yield connection
        finally:
            await pool.release(connection)

    async def _pool(self, target: PostgresTarget, guard: AddressGuard, size: Any, connect_s: float) -> Any:
        async with self._opening:
            if target not in self._pools:
                self._pools[target] = await _open_pool(target, guard, size, connect_s)
            return self._pools[target]

    async def close(self) -> None:
        """Close all pools; terminate connections that do not close in time."""
        pools, self._pools = list(self._pools.values()), {}
        for pool in pools:
            try:
                async with asyncio.timeout(CLOSE_S):
                    await pool.close()
            except TimeoutError:
                pool.terminate()


async def _open_pool(target: PostgresTarget, guard: AddressGuard, size: Any, connect_s: float) -> Any:
    """A pool without open connections, so that creating it needs no server."""
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        raise ToolError("sql.input", f'spec.pool_size "{size}" is not a number of connections')
    return await asyncpg.create_pool(
        min_size=0,
        max_size=size or DEFAULT_SIZE,
        max_inactive_connection_lifetime=IDLE_S,
        timeout=connect_s,
        connect=GuardedConnect(target, guard, connect_s),
        init=_prepare,
        **target.connect_arguments(),
    )


async def _prepare(connection: Any) -> None:
    """Set decoders for types whose Python forms would lose information."""
    for name, form, decoder in CODECS:
        await connection.set_type_codec(name, schema="pg_catalog", encoder=_never, decoder=decoder, format=form)


def _never(value: Any) -> Any:
    raise TypeError("parameters go as text")  # `parameters` casts them on the server
