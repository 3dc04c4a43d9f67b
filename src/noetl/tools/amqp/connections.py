"""Connections: one for each execution or trigger and broker, with the channels whose messages it still holds.

A message is held by the channel it came through, and only that channel can acknowledge it. When the channel or its
connection closes, the broker hands the message out again. So nothing here is ever lost by closing it.
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

from noetl.base.addresses.guard import AddressGuard, UnresolvedError
from noetl.base.errors import ToolError
from noetl.base.tls_trust import tls_context
from noetl.tools.messaging.request import Broker

HELD_S = 300.0  # a connection that nobody uses, and what it holds
_CLOSE_S = 10.0


class HeldChannel:
    """A channel with messages that are not acknowledged yet, by their tags."""

    def __init__(self, channel: AbstractChannel) -> None:
        self.channel = channel
        self.token = token_hex(8)
        self.tags: set[int] = set()


class OwnedConnection:
    def __init__(self, connection: Connection, transport: JudgedTransport) -> None:
        self.connection, self._transport = connection, transport
        self.held: dict[str, HeldChannel] = {}
        self.users = 0
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[HeldChannel]:
        """A channel for one operation. It stays open if it holds messages, and closes when the operation fails or is
        cancelled, which gives them back."""
        self._transport.allow_more()
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
                self.let_go(held)

    def let_go(self, held: HeldChannel) -> None:
        """Close a channel, beside whatever goes on: a cancelled task does not wait for a broker."""
        self.held.pop(held.token, None)
        closing = asyncio.ensure_future(_closed(held.channel))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def settled(self) -> None:
        """Every channel that was let go is closed, with what was acknowledged through it."""
        await asyncio.gather(*self._closing)

    async def close(self) -> None:
        await self.settled()
        await _closed(self.connection)


class AmqpConnections:
    def __init__(self) -> None:
        self._open: dict[tuple[str, Broker], OwnedConnection] = {}
        self._opening: dict[tuple[str, Broker], asyncio.Lock] = {}
        self._timers: dict[tuple[str, Broker], asyncio.TimerHandle] = {}
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def connection(self, owner: str, broker: Broker, guard: AddressGuard) -> AsyncIterator[OwnedConnection]:
        """The live connection of an owner, made when there is none; it is kept for a while after."""
        key = owner, broker
        # Two tasks of one execution must share a connection: a message can only be acknowledged where it came from.
        async with self._opening.setdefault(key, asyncio.Lock()):
            if (timer := self._timers.pop(key, None)) is not None:
                timer.cancel()
            owned = self._open.get(key)
            if owned is None or not owned.connection.is_opened:
                owned = self._open[key] = OwnedConnection(*await connected(broker, guard))
            owned.users += 1
        try:
            yield owned
        finally:
            owned.users -= 1
            if not owned.users and self._open.get(key) is owned:
                loop = asyncio.get_running_loop()
                self._timers[key] = loop.call_later(HELD_S, self._drop, key)

    def holder(self, owner: str, token: str) -> tuple[OwnedConnection, HeldChannel] | None:
        """The channel that holds messages of a receipt; none once it is closed."""
        for (who, _), owned in self._open.items():
            held = owned.held.get(token)
            if who == owner and held is not None and not held.channel.is_closed:
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
    with suppress(Exception):  # it may be gone already, and nobody waits for it
        async with asyncio.timeout(_CLOSE_S):
            await what.close()


# The way to a broker: a socket to an address that the policy allows, with a bound on what comes back.
MOST_BYTES = 128 << 20  # of one frame, and of all that is read before somebody asks for more
# Half of what brokers propose, so that a dead connection is noticed within a minute.
_HEARTBEAT_S = 30
_CONNECT_S = 30
_ACCESS_REFUSED = 403

# The library prints what a broker says, with tracebacks. A task's error says it once.
logging.getLogger("aiormq").propagate = False
logging.getLogger("aiormq").addHandler(logging.NullHandler())


class BoundedReader:
    """Reads frames for the library. A frame that claims to be larger than `left` is refused before it is read."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.left = MOST_BYTES

    async def readexactly(self, size: int) -> bytes:
        self.left -= size
        if self.left < 0:
            raise ConnectionError(f"the broker sent more than {MOST_BYTES} bytes for one operation")
        return await self._reader.readexactly(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


class JudgedTransport(TransportFactory):
    """Connects to the address that was judged; TLS still finds the name that was asked for."""

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
        """An operation begins: as much may be read again."""
        if self._reader is not None:
            self._reader.left = MOST_BYTES


class _RefusalReader:
    """Hands frames on. A refusal in the middle of a greeting keeps its code, which the library would lose."""

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


async def connected(broker: Broker, guard: AddressGuard) -> tuple[Connection, JudgedTransport]:
    """An open connection. ToolError says why there is none; errors of the broker come as they are."""
    try:
        address = await guard.address(f"AMQP at {broker}", broker.host, broker.port)
    except UnresolvedError as problem:
        raise ToolError("amqp.error", problem.message, code="connection", retryable=True) from None
    transport = JudgedTransport(address, broker)
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
        scheme="amqp",  # TLS is the transport's
        host=broker.host,
        port=broker.port,
        user=broker.user or None,
        password=broker.password or None,
        query={"heartbeat": str(_HEARTBEAT_S), "name": "noetl"},
    )
