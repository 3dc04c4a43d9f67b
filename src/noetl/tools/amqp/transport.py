"""The way to a broker: a socket to an address that the policy allows, with a bound on what comes back."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

from aiormq.connection import Connection, TransportFactory
from aiormq.exceptions import ConnectionClosed, ProbableAuthenticationError
from pamqp import commands
from yarl import URL

from noetl.base.addresses.guard import AddressGuard, UnresolvedError
from noetl.base.errors import ToolError
from noetl.tools.messaging.request import Broker
from noetl.tools.tls import tls_context

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
