"""AMQP connections: one for each broker and execution or trigger, with the channels of unacknowledged messages.

Only the channel that received a message can acknowledge it. When the channel or its connection closes, the broker
delivers the message again. So closing a connection loses no message.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from secrets import token_hex
from typing import Any

from aiormq.abc import AbstractChannel
from aiormq.connection import Connection, TransportFactory
from aiormq.exceptions import ConnectionClosed, ProbableAuthenticationError
from pamqp import commands
from yarl import URL

from noetl.base.addresses.policy import AddressGuard, UnresolvedError
from noetl.base.errors import ToolError
from noetl.base.tls_trust import tls_context
from noetl.tools.messaging.tool import Broker

HELD_S = 300.0  # how long an unused connection stays open with its unacknowledged messages
_CLOSE_S = 10.0


class HeldChannel:
    """A channel and the delivery tags of its unacknowledged messages."""

    def __init__(self, channel: AbstractChannel) -> None:
        self.channel = channel
        self.token = token_hex(8)
        self.tags: set[int] = set()


class OwnedConnection:
    """The connection of one owner, with its open channels."""

    def __init__(self, connection: Connection, transport: GuardedTransport) -> None:
        self.connection, self._transport = connection, transport
        self.held: dict[str, HeldChannel] = {}
        self.users = 0
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[HeldChannel]:
        """A channel for one operation. It stays open while it has unacknowledged messages. It closes if the operation
        fails or is cancelled, which returns them to the queue."""
        self._transport.allow_more()
        # A message that no queue takes comes back from the broker; this makes it an error of `publish`.
        held = HeldChannel(await self.connection.channel(on_return_raises=True))
        try:
            yield held
        except BaseException:
            # The channel is not trusted after an error; its messages go back to the queue when it closes.
            held.tags.clear()
            raise
        finally:
            if held.tags:
                self.held[held.token] = held
            else:
                self.close_channel(held)

    def close_channel(self, held: HeldChannel) -> None:
        """Close a channel in the background: a cancelled task must not wait for the broker."""
        self.held.pop(held.token, None)
        closing = asyncio.ensure_future(_closed(held.channel))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def wait_closed(self) -> None:
        """Wait until all closing channels are closed, so that the broker has their acknowledgements."""
        await asyncio.gather(*self._closing)

    async def close(self) -> None:
        await self.wait_closed()
        await _closed(self.connection)


class AmqpConnections:
    """The open connections of a worker, by owner and broker."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, Broker], OwnedConnection] = {}
        self._opening: dict[tuple[str, Broker], asyncio.Lock] = {}
        self._timers: dict[tuple[str, Broker], asyncio.TimerHandle] = {}
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def connection(self, owner: str, broker: Broker, guard: AddressGuard) -> AsyncIterator[OwnedConnection]:
        """The live connection of an owner, opened if there is none; it stays open for a while afterwards."""
        key = owner, broker
        # Tasks of one execution must share a connection: a message can be acknowledged only where it was received.
        async with self._opening.setdefault(key, asyncio.Lock()):
            if (timer := self._timers.pop(key, None)) is not None:
                timer.cancel()
            # A connection that broke is replaced. Its messages are in the queue again, so its receipts are worthless.
            owned = self._open.get(key)
            if owned is None or not owned.connection.is_opened:
                owned = self._open[key] = OwnedConnection(*await open_connection(broker, guard))
            owned.users += 1
        try:
            yield owned
        finally:
            owned.users -= 1
            # Not if it was dropped or replaced meanwhile: then nothing of this connection is left to close later.
            if not owned.users and self._open.get(key) is owned:
                loop = asyncio.get_running_loop()
                self._timers[key] = loop.call_later(HELD_S, self._drop, key)

    def holder(self, owner: str, token: str) -> tuple[OwnedConnection, HeldChannel] | None:
        """The channel that received the messages of a receipt; None once it is closed."""
        for (of_owner, _), owned in self._open.items():
            held = owned.held.get(token)
            if of_owner == owner and held is not None and not held.channel.is_closed:
                return owned, held
        return None

    def release(self, owner: str) -> None:
        for key in [key for key in self._open if key[0] == owner]:
            self._drop(key)

    async def close(self) -> None:
        for key in list(self._open):
            self._drop(key)
        await asyncio.gather(*self._ending)

    def _drop(self, key: tuple[str, Broker]) -> None:
        self._opening.pop(key, None)
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        ending = asyncio.ensure_future(self._open.pop(key).close())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)


async def _closed(what: Any) -> None:
    with suppress(Exception):  # it may be closed already, and no caller waits for it
        async with asyncio.timeout(_CLOSE_S):
            await what.close()


MAX_READ_BYTES = 128 << 20  # of one frame, and of all frames of one operation
# Half of what brokers propose, so that a dead connection is noticed within a minute.
_HEARTBEAT_S = 30
_CONNECT_S = 30
_ACCESS_REFUSED = 403

# The library logs errors of the broker with tracebacks. The error of the task reports them already.
logging.getLogger("aiormq").propagate = False
logging.getLogger("aiormq").addHandler(logging.NullHandler())


class BoundedReader:
    """Reads frames for the library. A frame larger than `left` is refused before it is read."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.left = MAX_READ_BYTES

    async def readexactly(self, size: int) -> bytes:
        self.left -= size
        if self.left < 0:
            raise ConnectionError(f"the broker sent more than {MAX_READ_BYTES} bytes for one operation")
        return await self._reader.readexactly(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


class GuardedTransport(TransportFactory):
    """Connects to the address that the guard allowed; TLS still verifies the host name."""

    def __init__(self, address: str, broker: Broker) -> None:
        self._address, self._broker = address, broker
        self._reader: BoundedReader | None = None

    async def create(self, url: URL, **_: Any) -> tuple[Any, asyncio.StreamWriter]:
        broker = self._broker
        context = tls_context(broker.ca) if broker.tls else None
        reader, writer = await asyncio.open_connection(
            self._address, broker.port, ssl=context, server_hostname=broker.host if context else None
        )
        self._reader = BoundedReader(reader)
        return self._reader, writer

    def allow_more(self) -> None:
        """Reset the read limit for a new operation."""
        if self._reader is not None:
            self._reader.left = MAX_READ_BYTES


class _RefusalReader:
    """Passes frames on. It keeps the code of a refusal during the handshake, which the library would lose."""

    def __init__(self, frames: Any) -> None:
        self._frames = frames

    async def get_frame(self) -> Any:
        received = await self._frames.get_frame()
        if isinstance(close := received[2], commands.Connection.Close):
            if close.reply_code == _ACCESS_REFUSED:
                raise ProbableAuthenticationError(close.reply_text)
            raise ConnectionClosed(close.reply_code, close.reply_text)
        return received


class BrokerConnection(Connection):
    @staticmethod
    async def _rpc(request: Any, writer: Any, frame_receiver: Any, wait_response: bool = True) -> Any:
        return await Connection._rpc(request, writer, _RefusalReader(frame_receiver), wait_response)  # type: ignore[arg-type]


async def open_connection(broker: Broker, guard: AddressGuard) -> tuple[Connection, GuardedTransport]:
    """An open connection. Raises ToolError with the reason if there is none; errors of the broker pass through."""
    try:
        address = await guard.address(f"AMQP at {broker}", broker.host, broker.port)
    except UnresolvedError as problem:
        raise ToolError("amqp.error", problem.message, code="connection", retryable=True) from None
    transport = GuardedTransport(address, broker)
    connection = BrokerConnection(_url(broker), transport_factory=transport)
    connection.vhost = broker.database or "/"
    try:
        async with asyncio.timeout(_CONNECT_S):
            await connection.connect()
    except ssl.SSLError as problem:
        message = f"AMQP at {broker} has no certificate that is trusted here: {problem.reason or 'TLS failed'}"
        raise ToolError("amqp.error", message, code="tls", retryable=False) from None
    except TimeoutError:
        message = f"AMQP at {broker} did not answer within {_CONNECT_S} s"
        raise ToolError("amqp.error", message, code="connection", retryable=True) from None
    return connection, transport


def _url(broker: Broker) -> URL:
    return URL.build(
        scheme="amqp",  # the transport does TLS
        host=broker.host,
        port=broker.port,
        user=broker.user or None,
        password=broker.password or None,
        query={"heartbeat": str(_HEARTBEAT_S), "name": "noetl"},
    )
