"""Pools: connections kept per credential, opened when first needed and closed when idle for long. They
go only to addresses that the guard has given, under the name that TLS is to find."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from noetl.base.addresses.guard import AddressGuard, BlockedError, UnresolvedError
from noetl.base.addresses.policy import literal
from noetl.base.errors import ToolError
from noetl.tools.postgres.failures import of_connecting, pg_error
from noetl.tools.postgres.parameters import CODECS
from noetl.tools.postgres.targets import PostgresTarget

_TLS = ("require", "verify-ca", "verify-full")


class Connecting:
    """Makes the connections of one pool: each looks its host up anew and is judged anew."""

    def __init__(self, target: PostgresTarget, guard: AddressGuard, connect_s: float) -> None:
        self._target, self._guard, self._connect_s = target, guard, connect_s

    async def __call__(self, *_: Any, **arguments: Any) -> Any:
        return await asyncpg.connect(**arguments, **await self._where())

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
    """How TLS is done. It knows the host by its name, though the connection is to an address."""
    mode = target.ssl or "prefer"
    if mode not in _TLS or literal(target.host) is not None:
        return mode
    context = _Named(ssl.PROTOCOL_TLS_CLIENT)
    context.host = target.host
    context.check_hostname = mode == "verify-full"
    context.verify_mode = ssl.CERT_NONE if mode == "require" else ssl.CERT_REQUIRED
    if mode != "require":
        context.load_default_certs()
    return context


class _Named(ssl.SSLContext):
    """TLS to a host whose name is not in the address that was connected to."""

    host: str

    def wrap_bio(self, incoming: Any, outgoing: Any, server_side: bool = False, *_: Any, **__: Any) -> ssl.SSLObject:
        return super().wrap_bio(incoming, outgoing, server_side=server_side, server_hostname=self.host)


# Of each worker, for each credential: a database allows about a hundred connections in all.
DEFAULT_SIZE = 5
CONNECT_TIMEOUT_S = 10.0
IDLE_S = 60.0  # a worker that is done with a database gives its connections back
CLOSE_S = 5.0


class PostgresPools:
    """Pools by target. The first task of a target decides its size (`spec.pool_size`)."""

    def __init__(self) -> None:
        self._pools: dict[PostgresTarget, Any] = {}
        # Two tasks that come at once must not each open a pool for the same target.
        self._opening = asyncio.Lock()

    @asynccontextmanager
    async def connection(
        self, target: PostgresTarget, guard: AddressGuard, *, size: Any, connect_s: float | None
    ) -> AsyncIterator[Any]:
        """A connection of one's own for a while. ToolError `pg.error` says why there is none."""
        pool = await self._pool(target, guard, size, connect_s or CONNECT_TIMEOUT_S)
        try:
            connection = await pool.acquire()
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as problem:
            raise of_connecting(problem, target) from problem
        try:
            yield connection
        finally:
            await pool.release(connection)

    async def _pool(self, target: PostgresTarget, guard: AddressGuard, size: Any, connect_s: float) -> Any:
        async with self._opening:
            if target not in self._pools:
                self._pools[target] = await _opened(target, guard, size, connect_s)
            return self._pools[target]

    async def close(self) -> None:
        """Close what is open; what does not end by itself is ended."""
        pools, self._pools = list(self._pools.values()), {}
        for pool in pools:
            try:
                async with asyncio.timeout(CLOSE_S):
                    await pool.close()
            except TimeoutError:
                pool.terminate()


async def _opened(target: PostgresTarget, guard: AddressGuard, size: Any, connect_s: float) -> Any:
    """A pool without connections yet, so that this cannot fail for want of a server."""
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        raise ToolError("sql.input", f'spec.pool_size "{size}" is not a number of connections')
    return await asyncpg.create_pool(
        min_size=0,
        max_size=size or DEFAULT_SIZE,
        max_inactive_connection_lifetime=IDLE_S,
        timeout=connect_s,
        connect=Connecting(target, guard, connect_s),
        init=_prepare,
        **target.connect_arguments(),
    )


async def _prepare(connection: Any) -> None:
    """How this connection reads the types whose own Python forms would lose something."""
    for name, form, decoder in CODECS:
        await connection.set_type_codec(name, schema="pg_catalog", encoder=_never, decoder=decoder, format=form)


def _never(value: Any) -> Any:
    raise TypeError("parameters go as text")  # `parameters` casts them on the server
