"""Connections: one kept open for each target, made when first needed, and made anew once it was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
import nats.errors
from nats.aio.client import Client

from noetl.base.addresses.guard import AddressGuard, BlockedError, UnresolvedError
from noetl.base.errors import ToolError
from noetl.base.nats_shutdown import leave
from noetl.tools.auth_shapes import connection_fields, shapes
from noetl.tools.contract import ToolContext

CONNECT_S = 5
NATS_PORT = 4222
_PORTS = {"ws": 80, "wss": 443}


class NatsConnections:
    def __init__(self) -> None:
        self._open: dict[NatsTarget, Client] = {}
        self._opening: dict[NatsTarget, asyncio.Lock] = {}

    async def client(self, target: NatsTarget, guard: AddressGuard) -> Client:
        """A live connection. ToolError `nats.error` says why there is none."""
        # One connection for each target, however many tasks ask at once.
        async with self._opening.setdefault(target, asyncio.Lock()):
            client = self._open.get(target)
            if client is None or client.is_closed:
                client = self._open[target] = await _connected(target, guard)
            return client

    async def close(self) -> None:
        clients, self._open = list(self._open.values()), {}
        for client in clients:
            await client.close()


async def _connected(target: NatsTarget, guard: AddressGuard) -> Client:
    """A connection to the first server that answers. One by one, since each has an address and a name of its own."""
    for server in target.servers[:-1]:
        try:
            return await _connected_to(target, server, guard)
        except ToolError as problem:
            if isinstance(problem, BlockedError):
                raise
    return await _connected_to(target, target.servers[-1], guard)


async def _connected_to(target: NatsTarget, server: str, guard: AddressGuard) -> Client:
    """Without the client's own reconnecting, which waits and prints: a lost connection is a task's error, and the
    next task connects again."""
    url, name = await _checked(target, server, guard)
    client, heard = Client(), list[Exception]()

    async def on_error(problem: Exception) -> None:
        heard[:] = [problem]  # what goes wrong later, in the background, shows in the next call

    try:
        await client.connect(
            servers=[url],
            tls_hostname=name,
            **target.login(),
            name="noetl",
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=CONNECT_S,
            error_cb=on_error,
        )
    except (OSError, TimeoutError, ValueError, nats.errors.Error) as problem:
        await leave(client)
        cause = heard[-1] if heard else problem  # what comes out is only that no server is left to try
        why = str(cause) or type(cause).__name__
        raise ToolError("nats.error", f"NATS at {target} cannot be reached: {why}", retryable=True) from None
    except BaseException:  # cancelled: the library would keep the connection it had begun
        await leave(client)
        raise
    return client


async def _checked(target: NatsTarget, server: str, guard: AddressGuard) -> tuple[str, str | None]:
    """The url of a server by an address that may be reached, and the name that TLS is to find there."""
    try:
        parts = urlsplit(server)
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, NATS_PORT)
    except ValueError:  # its words hold what it takes for the port, which may be half of a password
        host = ""
    if not host:
        raise ToolError("keychain.unresolved", "the url is no address of NATS: write nats://host:4222")
    try:
        address = await guard.address(f"NATS at {target}", host, port)
    except UnresolvedError as problem:
        raise ToolError("nats.error", problem.message, retryable=True) from None
    if parts.scheme == "wss":  # by its name: no other host has a certificate for it
        return server, None
    where = f"[{address}]" if ":" in address else address
    login, at, _ = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{login}{at}{where}:{port}").geturl(), host


# Targets: which NATS server a credential names, and who we are there. Shown without its secrets.
_SCHEMES = ("nats", "tls", "ws", "wss")


class NatsTarget(msgspec.Struct, frozen=True):
    servers: tuple[str, ...]
    user: str | None = None
    password: str | None = None
    token: str | None = None
    nkey_seed: str | None = None

    def __str__(self) -> str:
        return ", ".join(_without_secrets(server) for server in self.servers)

    __repr__ = __str__

    def login(self) -> dict[str, Any]:
        """Who we are, as the client takes it."""
        told = {"user": self.user, "password": self.password, "token": self.token, "nkeys_seed_str": self.nkey_seed}
        return {name: value for name, value in told.items() if value is not None}


def target_of(auth: Any, context: ToolContext) -> NatsTarget:
    """The target of a task's `auth`: an address, the fields of a credential, or its name."""
    auth = connection_fields(auth, context, kind="nats", address="url")
    return NatsTarget(
        servers=_servers(auth),
        user=_text(auth, "user", "username"),
        password=_text(auth, "password"),
        token=_text(auth, "token"),
        nkey_seed=_text(auth, "nkey_seed", "nkeys_seed", "seed"),
    )


def _servers(auth: Mapping[str, Any]) -> tuple[str, ...]:
    written = next((auth[name] for name in ("url", "nats_url", "servers", "server") if auth.get(name)), None)
    if written is None:
        message = f'"auth" has no url, such as nats://host:4222; it is {shapes("url")}'
        raise ToolError("keychain.unresolved", message)
    servers = tuple(map(str, written)) if isinstance(written, list) else tuple(str(written).split(","))
    for server in servers:
        if urlsplit(server.strip()).scheme not in _SCHEMES:
            # not shown: who can say which part of it is a password
            raise ToolError("keychain.unresolved", "the url is no address of NATS: write nats://host:4222")
    return tuple(server.strip() for server in servers)


def _text(auth: Mapping[str, Any], *names: str) -> str | None:
    return next((str(auth[name]) for name in names if auth.get(name)), None)


def _without_secrets(server: str) -> str:
    return server.rpartition("@")[2] if "@" in server else server
