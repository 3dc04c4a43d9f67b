"""Connecting to PostgreSQL: only to addresses that the guard has given, under the name that TLS is to find."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from noetl.base.addresses.guard import AddressGuard, BlockedError, UnresolvedError
from noetl.base.addresses.policy import literal
from noetl.tools.postgres.failures import pg_error
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
