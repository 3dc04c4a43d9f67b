"""Connections: limits on what a client may use before it is identified (reliability.md §3.7).

The head of a request has a maximum size and time, its body a time that grows with the received bytes. The number of
connections is limited, in all, and by address for those without a token. If the limit is reached, the connection that
is idle for longest is closed; a connection in the middle of a request is never closed for another.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from noetl.server.access.hosts import network_of

CONNECTION = "noetl.connection"  # the key of the connection in the scope of a request
RETRY_AFTER_S = 2


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of connections."""

    most: int = 10_000
    # Connections without a token: half of all, so that they cannot use up the places of identified clients.
    anonymous: int = 5_000
    # None where clients share an address, as behind a proxy.
    anonymous_by_address: int | None = 500
    head_bytes: int = 64 * 1024
    head_fields: int = 100
    # From the first byte of a request to the end of its head. This closes clients that send one byte a second.
    head_s: float = 15.0
    body_s: float = 30.0
    # Each received byte extends the time for the body at this rate.
    body_bytes_per_s: int = 16 * 1024
    # An answer of which nothing is taken for this long: it is in memory for as long as its connection.
    answer_s: float = 30.0


class ClientConnections:
    """The connections of one server. `known` counts those with a token; the others are ordered by arrival."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.known = 0
        # Connections without a token by arrival, twice: for the limit of all, and for that of one network.
        self._anonymous: OrderedDict[BoundedProtocol, None] = OrderedDict()
        self._by_network: dict[str, OrderedDict[BoundedProtocol, None]] = {}

    @property
    def number(self) -> int:
        return self.known + len(self._anonymous)

    def admit(self, connection: BoundedProtocol) -> bool:
        """Whether there is room for a connection; an idle one is closed if necessary."""
        by_address = self._by_network.get(connection.network, OrderedDict())
        most = self.limits.anonymous_by_address
        if most is not None and len(by_address) >= most and not self._close_idle(by_address):
            return False
        is_full = len(self._anonymous) >= self.limits.anonymous or self.number >= self.limits.most
        if is_full and not self._close_idle(self._anonymous):
            return False
        self._anonymous[connection] = None
        self._by_network.setdefault(connection.network, OrderedDict())[connection] = None
        return True

    def recognise(self, connection: BoundedProtocol) -> None:
        """Note that a token was sent over the connection."""
        if self._drop(connection):
            self.known += 1

    def leave(self, connection: BoundedProtocol, *, was_known: bool) -> None:
        if not self._drop(connection) and was_known:
            self.known -= 1

    def _drop(self, connection: BoundedProtocol) -> bool:
        if connection not in self._anonymous:
            return False
        del self._anonymous[connection]
        same_network = self._by_network[connection.network]
        del same_network[connection]
        if not same_network:
            del self._by_network[connection.network]
        return True

    def _close_idle(self, connections: OrderedDict[BoundedProtocol, None]) -> bool:
        # By arrival: the oldest idle connection is closed.
        idle = next((connection for connection in connections if connection.is_idle), None)
        if idle is None:
            return False
        # Remove it at once: `connection_lost` is called one turn of the loop later, and until then it would be counted
        # beside its successor.
        self._drop(idle)
        idle.abort()
        return True


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 of one connection, within limits."""

    def __init__(self, connections: ClientConnections, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._all, self._limits = connections, connections.limits
        self.network = ""
        # Stays true after the first token: an identified client keeps its place.
        self._is_known = False
        self._in_head, self._in_body = True, False
        self._head_bytes = self._head_fields = self._found_bytes = self._body_bytes = 0
        self._unread_bytes = 0  # of a body, since the parser last found something in it
        self._body_since = 0.0
        self._refusal: tuple[int, str] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None  # beside the other: a body may arrive meanwhile

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being answered on it."""
        return self.cycle is None or (self.cycle.response_complete and not self._in_body)

    def recognise(self) -> None:
        """Note that an identified client uses this connection."""
        if not self._is_known:
            self._is_known = True
            self._all.recognise(self)

    def abort(self) -> None:
        """Close the connection without sending buffered data."""
        self._stop_timer()
        self._stop_answer_timer()
        self.transport.abort()

    # the protocol of a connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.network = network_of(self.client[0] if self.client else "")
        if not self._all.admit(self):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "there are too many connections; try again in a moment")
            return
        self._start_timer(self._limits.head_s, self._on_late_head)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_answer_timer()
        self._all.leave(self, was_known=self._is_known)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None or self.transport.is_closing():
            return
        # The base class does this at the start of its `data_received`, which this method replaces.
        self._unset_keepalive_if_required()
        # Everything before the end of the head counts as head. The parser reports only complete fields, so `_count`
        # would never see a field without an end.
        if self._in_head:
            self._head_bytes += len(data)
            if self._timer is None:
                self._start_timer(self._limits.head_s, self._on_late_head)
        elif self._in_body:
            self._unread_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._unsupported_upgrade_warning()
        except httptools.HttpParserError:
            status, detail = self._refusal or (HTTPStatus.BAD_REQUEST, "this is not valid HTTP")
            self._refuse(status, detail)
            return
        most = self._limits.head_bytes
        # A field without an end may also stand behind a body in chunks, and a chunk may have an extension without one.
        if (self._in_head and self._head_bytes > most) or (self._in_body and self._unread_bytes > most):
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, self._too_much())

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        self._stop_answer_timer()
        super().resume_writing()

    # events of the parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_fields, self._body_bytes = True, 0, 0
        self._found_bytes = 0
        # The gate calls `recognise` on it when the request has a valid token.
        self.scope[CONNECTION] = self  # type: ignore[literal-required]

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_fields += 1
        self._count(len(name) + len(value))
        self._unread_bytes = 0
        # Fields behind a body (trailers) count and are dropped: the base class would add them to the head, past a proxy
        # that sets or removes fields there (RFC 9110, 6.5.1).
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes, self._unread_bytes = False, 0, 0
        self._in_body, self._body_since = True, self.loop.time()
        self._start_timer(self._limits.body_s, self._on_late_body)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._unread_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head, self._in_body, self._head_bytes = True, False, 0
        self._stop_timer()
        super().on_message_complete()

    def _count(self, found: int) -> None:
        self._found_bytes += found
        if self._found_bytes > self._limits.head_bytes or self._head_fields > self._limits.head_fields:
            self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, self._too_much()
            # Stops the parser, which raises HttpParserError in `data_received`.
            raise ValueError(self._refusal[1])

    def _too_much(self) -> str:
        limits = self._limits
        return f"the head of a request may have {limits.head_bytes} bytes and {limits.head_fields} fields at most"

    # time

    def _start_timer(self, seconds: float, late: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _await_reader(self, before: int | None = None) -> None:
        """Close the connection if nothing of the answer has been taken since `before` bytes of it were waiting."""
        waiting = self.transport.get_write_buffer_size()
        if before is not None and waiting >= before:
            self.abort()
        else:
            self._answer_timer = self.loop.call_later(self._limits.answer_s, self._await_reader, waiting)

    def _stop_answer_timer(self) -> None:
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None

    def _on_late_head(self) -> None:
        self._timer = None
        if self._head_bytes and self.is_idle:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, "the head of the request did not arrive in time")
        elif self.is_idle:
            self.abort()

    def _on_late_body(self) -> None:
        self._timer = None
        if not self._in_body:
            return
        # A slow but steady upload earns time with every byte; one that stalls runs out of it.
        earned_s = self._body_bytes / self._limits.body_bytes_per_s
        left_s = self._body_since + self._limits.body_s + earned_s - self.loop.time()
        # While reading is paused, the server is the slow side.
        if left_s > 0 or self.flow.read_paused:
            self._start_timer(max(0.1, left_s), self._on_late_body)
        elif self.cycle is not None and self.cycle.response_started:
            self.abort()
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, "the body of the request did not arrive in time")

    def _refuse(self, status: int, detail: str) -> None:
        """Answer without the application, and close."""
        self._refusal = status, detail
        self._stop_timer()
        phrase = HTTPStatus(status).phrase
        kind = "urn:noetl:problem:" + phrase.lower().replace(" ", "-")
        body = msgspec.json.encode({"type": kind, "title": phrase, "status": int(status), "detail": detail})
        head = [f"HTTP/1.1 {int(status)} {phrase}", "content-type: application/problem+json", "connection: close"]
        head += ["cache-control: no-store", f"content-length: {len(body)}"]
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            head.append(f"retry-after: {RETRY_AFTER_S}")
        # In the middle of an answer, a second one would become part of its body; then only close the connection.
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            self.transport.write("\r\n".join([*head, "", ""]).encode("latin-1") + body)
        self.transport.close()
