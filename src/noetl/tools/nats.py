"""`nats`: publishes messages, sends requests, and reads and writes buckets of a NATS server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.protocol.parser import AWAITING_CONTROL_LINE, Parser

from noetl.base.addresses.policy import AddressGuard, BlockedError, UnresolvedError
from noetl.base.errors import ToolError
from noetl.base.nats_connections import connect_client, leave
from noetl.tools import nats_operations as operations
from noetl.tools.contents import MAX_BYTES
from noetl.tools.contract import Tool, ToolContext, ToolResult, TriggerBatch, TriggerItem, TriggerPoll
from noetl.tools.guarded_sockets import ReceivedTooMuchError
from noetl.tools.input_shapes import auth_forms, connection_fields

T = TypeVar("T")
NATS_PORT = 4222
# What the client holds until it is complete. Brokers take no message over 64 MiB; their lines have some kilobytes.
_MAX_MESSAGE_BYTES, _MAX_LINE_BYTES = MAX_BYTES + (1 << 20), 1 << 20


class _BoundedParser(Parser):
    """Refuses a message or a line that is too long before all of it has arrived."""

    async def parse(self, data: bytes = b"") -> None:
        await super().parse(data)
        is_line = self.state == AWAITING_CONTROL_LINE
        size, most = (len(self.buf), _MAX_LINE_BYTES) if is_line else (self.needed, _MAX_MESSAGE_BYTES)
        if size > most:
            what = "a line" if is_line else "a message"
            # An OSError: the client closes the connection for it, and keeps it as its last error.
            raise ReceivedTooMuchError(f"the broker sent {what} of more than {most} bytes")


class _Client(Client):
    """A client that holds a bounded message, and whose calls end with its connection: those of the library wait for an
    answer until their time is up."""

    def __init__(self) -> None:
        super().__init__()
        self._ps = _BoundedParser(self)
        self._lost = asyncio.Event()

    async def on_closed(self) -> None:
        self._lost.set()

    async def until_lost(self, call: Coroutine[Any, Any, T]) -> T:
        """The result of a call. The error that has closed the connection, if that comes first."""
        running, lost = asyncio.ensure_future(call), asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait({running, lost}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                raise self.last_error or nats.errors.ConnectionClosedError
            return running.result()
        finally:
            running.cancel()
            lost.cancel()


class NatsConnections:
    """The connections of a worker, one for each target."""

    def __init__(self) -> None:
        self._open: dict[NatsTarget, _Client] = {}
        self._opening: dict[NatsTarget, asyncio.Lock] = {}

    async def client(self, target: NatsTarget, guard: AddressGuard) -> _Client:
        """A live connection. Raises ToolError `nats.error` with the reason if there is none."""
        # The lock: tasks that start at once must not each open a connection.
        async with self._opening.setdefault(target, asyncio.Lock()):
            client = self._open.get(target)
            if client is None or client.is_closed:
                client = self._open[target] = await _connect(target, guard)
            return client

    async def close(self) -> None:
        clients, self._open = list(self._open.values()), {}
        for client in clients:
            await client.close()


async def _connect(target: NatsTarget, guard: AddressGuard) -> _Client:
    """A connection to the first server that answers. Servers are tried one by one, since each is checked by the
    guard."""
    # The error of the last server is the one that is raised.
    for server in target.servers[:-1]:
        try:
            return await _connect_to(target, server, guard)
        except ToolError as problem:
            if isinstance(problem, BlockedError):
                raise
    return await _connect_to(target, target.servers[-1], guard)


async def _connect_to(target: NatsTarget, server: str, guard: AddressGuard) -> _Client:
    """A connection without the client's automatic reconnect, which waits and prints. A lost connection is an error of
    the task, and the next task connects again."""
    url, name = await _checked_url(target, server, guard)
    client, background_errors = _Client(), list[Exception]()

    async def on_error(problem: Exception) -> None:
        background_errors[:] = [problem]  # later errors in the background also appear in the next call

    try:
        options = {"tls_hostname": name, "closed_cb": client.on_closed, **target.login()}
        await connect_client(client, url, options, on_error=on_error)
    except (OSError, TimeoutError, ValueError, nats.errors.Error) as problem:
        await leave(client)
        cause = (
            background_errors[-1] if background_errors else problem
        )  # the raised error says only that no server is left to try
        why = str(cause) or type(cause).__name__
        raise ToolError("nats.error", f"NATS at {target} cannot be reached: {why}", retryable=True) from None
    except BaseException:  # cancelled: the library would keep a half-open connection
        await leave(client)
        raise
    return client


async def _checked_url(target: NatsTarget, server: str, guard: AddressGuard) -> tuple[str, str]:
    """The URL of a server with an allowed address, and the host name that TLS must verify."""
    try:
        parts = urlsplit(server)
        host, port = parts.hostname or "", parts.port or NATS_PORT
    except ValueError:  # its message quotes the port, which may be a part of a password
        host = ""
    if not host:
        raise ToolError("keychain.unresolved", "the url is not an address of NATS: write nats://host:4222")
    try:
        address = await guard.address(f"NATS at {target}", host, port)
    except UnresolvedError as problem:
        raise ToolError("nats.error", problem.message, retryable=True) from None
    where = f"[{address}]" if ":" in address else address
    login, at, _ = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{login}{at}{where}:{port}").geturl(), host


# Not ws and wss: over a web socket the client looks the name up once more, and follows redirects to anywhere.
_SCHEMES = ("nats", "tls")


class NatsTarget(msgspec.Struct, frozen=True):
    """The servers and the login of a credential. `str` shows no secrets."""

    servers: tuple[str, ...]
    user: str | None = None
    password: str | None = None
    token: str | None = None
    nkey_seed: str | None = None

    def __str__(self) -> str:
        return ", ".join(_without_secrets(server) for server in self.servers)

    __repr__ = __str__

    def login(self) -> dict[str, Any]:
        """The login as arguments of the client."""
        options = {"user": self.user, "password": self.password, "token": self.token, "nkeys_seed_str": self.nkey_seed}
        return {name: value for name, value in options.items() if value is not None}


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
        message = f'"auth" has no url, such as nats://host:4222; it is {auth_forms("url")}'
        raise ToolError("keychain.unresolved", message)
    servers = tuple(map(str, written)) if isinstance(written, list) else tuple(str(written).split(","))
    for server in servers:
        if urlsplit(server.strip()).scheme not in _SCHEMES:
            # The message does not show the URL: any part of it may be a password.
            raise ToolError("keychain.unresolved", "the url is not an address of NATS: write nats://host:4222")
    return tuple(server.strip() for server in servers)


def _text(auth: Mapping[str, Any], *names: str) -> str | None:
    return next((str(auth[name]) for name in names if auth.get(name)), None)


def _without_secrets(server: str) -> str:
    return server.rpartition("@")[2] if "@" in server else server


Operation = Callable[[Client, Mapping[str, Any], ToolContext], Coroutine[Any, Any, dict[str, Any]]]

OPERATIONS: dict[str, Operation] = {
    "publish": operations.publish,
    "request": operations.request,
    "kv_get": operations.kv_get,
    "kv_put": operations.kv_put,
    "kv_delete": operations.kv_delete,
    "kv_keys": operations.kv_keys,
    "object_get": operations.object_get,
    "object_put": operations.object_put,
    "object_delete": operations.object_delete,
    "object_list": operations.object_list,
}


class NatsTool(Tool):
    """The tool of the kind `nats`."""

    def __init__(self) -> None:
        self._connections = NatsConnections()

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        op = str(inputs.get("op") or "")
        operation = OPERATIONS.get(op)
        if operation is None:
            raise ToolError("nats.input", f'op "{op}" is not known: write {", ".join(OPERATIONS)}')
        client = await self._connections.client(target_of(inputs.get("auth"), context), context.addresses)
        try:
            return ToolResult(result=await client.until_lost(operation(client, inputs, context)))
        except (nats.errors.Error, OSError) as problem:
            raise _tool_error(op, inputs, problem) from None

    async def poll(self, inputs: Mapping[str, Any], poll: TriggerPoll, context: ToolContext) -> TriggerBatch:
        """Messages of a stream that this trigger has not acknowledged."""
        client = await self._connections.client(target_of(inputs.get("auth"), context), context.addresses)
        try:
            return await client.until_lost(operations.new_messages(client, inputs, poll))
        except (nats.errors.Error, OSError) as problem:
            raise _tool_error("poll", inputs, problem) from None

    async def settle(
        self,
        inputs: Mapping[str, Any],
        accepted: Sequence[TriggerItem],
        returned: Sequence[TriggerItem],
        context: ToolContext,
    ) -> None:
        client = await self._connections.client(target_of(inputs.get("auth"), context), context.addresses)
        try:
            await client.until_lost(operations.settle(client, accepted, returned))
        except (nats.errors.Error, OSError) as problem:
            raise _tool_error("acknowledge", inputs, problem) from None

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Test the credential by connecting. Raises ToolError with the reason if it is refused."""
        target = target_of(inputs.get("auth"), context)
        await self._connections.client(target, context.addresses)
        return f"connected to NATS at {target}"

    async def close(self) -> None:
        await self._connections.close()


def _tool_error(op: str, inputs: Mapping[str, Any], problem: nats.errors.Error | OSError) -> ToolError:
    named = [str(inputs[name]) for name in ("stream", "bucket", "key") if inputs.get(name)]
    what = f"{op} of {inputs.get('subject') or '/'.join(named)}"
    match problem:
        case nats.js.errors.KeyWrongLastSequenceError():
            message = f"{what}: somebody else has written it since, its revision is not {inputs.get('revision')}"
            return ToolError("nats.conflict", message)
        case nats.js.errors.NoStreamResponseError():
            return ToolError("nats.missing", f"{what}: no stream keeps this subject", code="stream")
        case nats.js.errors.NotFoundError():
            return ToolError("nats.missing", f"{what}: there is none", code="key")
        case nats.errors.NoRespondersError():
            return ToolError("nats.missing", f"{what}: no service answers there", code="responder", retryable=True)
        case ReceivedTooMuchError():
            return ToolError("result.too_large", f"{what}: {problem}")
        case TimeoutError():
            return ToolError("timeout", f"{what} got no answer in time", retryable=True)
        case nats.js.errors.APIError():
            retryable = (problem.code or 0) >= 500
            return ToolError("nats.error", f"{what}: {problem.description}", code=problem.err_code, retryable=retryable)
        case _:
            return ToolError("nats.error", f"{what}: {problem or type(problem).__name__}", retryable=True)
