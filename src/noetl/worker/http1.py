"""HTTP/1.1 to one server over persistent connections, with only what a turn needs.

A worker's turn is on the path of every step. Through a general client it took 1.0 ms of processor time, two thirds of
all a worker had; here it takes 0.2 ms. It does not follow redirects, request compression or use a proxy: it speaks
to a NoETL server, or to a reverse proxy before one. `ServerConnection` decides when to send again.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec

from noetl.base.errors import error_text
from noetl.base.tls_trust import UNTRUSTED, is_distrust

CONNECT_S = 15.0
# The limit of all headers together: a NoETL server sends less.
_LINE_BYTES = 65_536
_PORTS = {"http": 80, "https": 443}


class HttpConnectionError(Exception):
    """There is no answer: the server does not listen, the connection broke, or it does not speak HTTP. `was_sent`: the
    server may have processed the request. `was_idle`: a kept connection broke before any byte came; usually the server
    had closed it long ago, so the caller can retry at once."""

    def __init__(self, why: str, *, was_sent: bool, was_idle: bool = False) -> None:
        super().__init__(why)
        self.was_sent, self.was_idle = was_sent, was_idle


class Reply(msgspec.Struct, frozen=True):
    """An answer. The names of headers are in lower case."""

    status: int
    reason: str
    headers: dict[str, str]
    content: bytes

    @property
    def is_error(self) -> bool:
        return self.status >= 400


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.is_kept = True
        self.has_answered = False  # a part of the current answer has come

    @property
    def is_open(self) -> bool:
        return not (self._reader.at_eof() or self._writer.is_closing())

    def close(self) -> None:
        self._writer.close()

    async def closed(self) -> None:
        self.close()
        with suppress(OSError):  # it is broken already
            await self._writer.wait_closed()

    async def ask(self, request: bytes) -> Reply:
        self.has_answered = False
        self._writer.write(request)
        # The server may refuse a request before it has read all of it, and its answer may have come anyway.
        with suppress(ConnectionError):
            await self._writer.drain()
        while True:
            head = await self._reader.readuntil(b"\r\n\r\n")
            self.has_answered = True
            status, reason, headers = _parsed_head(head)
            if status >= 200:  # else an informational answer, and the final one follows
                break
        self.is_kept = headers.get("connection", "").lower() != "close"
        return Reply(status, reason, headers, await self._body(status, headers))

    async def _body(self, status: int, headers: Mapping[str, str]) -> bytes:
        if status in (204, 304):
            return b""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return await self._chunks()
        if (length := headers.get("content-length")) is not None:
            return await self._reader.readexactly(int(length))
        self.is_kept = False
        return await self._reader.read(-1)

    async def _chunks(self) -> bytes:
        parts: list[bytes] = []
        while size := int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16):
            parts.append((await self._reader.readexactly(size + 2))[:-2])
        while await self._reader.readuntil(b"\r\n") != b"\r\n":
            pass  # ignore trailers
        return b"".join(parts)


class HttpConnection:
    """`url` names the server, with a base path if there is one; `headers` go with every request."""

    def __init__(self, url: str, headers: Mapping[str, str], *, verify: ssl.SSLContext | bool = True) -> None:
        parts = urlsplit(url)
        self._host, self._port = str(parts.hostname), parts.port or _PORTS[parts.scheme]
        self._below, self._is_secure, self._verify = parts.path.rstrip("/"), parts.scheme == "https", verify
        self._tls: ssl.SSLContext | None = None
        host = parts.netloc.rpartition("@")[2]
        self._always = "".join(f"{name}: {value}\r\n" for name, value in {"Host": host, **headers}.items())
        # The most recently used is taken first, so that the server closes the others when they are idle for long.
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._is_closed = False

    async def ask(
        self, method: str, target: str, *, body: bytes | None = None, media_type: str = "", timeout_s: float
    ) -> Reply:
        """The answer to one request, which is sent once: a caller that repeats it may have to change the body. Raises
        HttpConnectionError if there is no answer within `timeout_s`."""
        about = f"Content-Type: {media_type}\r\nContent-Length: {len(body)}\r\n" if body is not None else ""
        head = f"{method} {self._below}{target} HTTP/1.1\r\n{self._always}{about}\r\n"
        request = head.encode("latin-1") + (body or b"")
        kept = self._idle_connection()
        connection = kept or await self._open_connection()
        try:
            async with asyncio.timeout(timeout_s):
                reply = await connection.ask(request)
        except TimeoutError:
            connection.close()
            raise HttpConnectionError(f"no answer within {timeout_s:g} s", was_sent=True) from None
        except (OSError, EOFError, asyncio.LimitOverrunError, ValueError) as problem:
            connection.close()
            was_idle = kept is not None and not connection.has_answered
            raise HttpConnectionError(_error_text(problem), was_sent=True, was_idle=was_idle) from problem
        except BaseException:
            connection.close()  # a late answer would be taken for the next one
            raise
        self._put_back(connection)
        return reply

    def _idle_connection(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
            connection.close()
        return None

    def _put_back(self, connection: _Connection) -> None:
        if connection.is_kept and not self._is_closed:
            self._idle.append(connection)
        else:
            connection.close()

    async def _open_connection(self) -> _Connection:
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(
                    self._host, self._port, ssl=self._context(), limit=_LINE_BYTES
                )
        except TimeoutError:
            raise HttpConnectionError(f"no connection within {CONNECT_S:g} s", was_sent=False) from None
        except OSError as problem:
            raise HttpConnectionError(_error_text(problem), was_sent=False) from problem
        self._open = {one for one in self._open if one.is_open}
        connection = _Connection(reader, writer)
        self._open.add(connection)
        return connection

    def _context(self) -> ssl.SSLContext | None:
        if self._is_secure and self._tls is None:
            import httpx2

            given = self._verify
            self._tls = given if isinstance(given, ssl.SSLContext) else httpx2.create_ssl_context(verify=given)
        return self._tls

    async def close(self) -> None:
        """Close all connections; requests in progress fail."""
        self._is_closed = True
        self._idle.clear()
        while self._open:
            await self._open.pop().closed()


def _parsed_head(head: bytes) -> tuple[int, str, dict[str, str]]:
    """Status, reason and headers. Raises ValueError if it is not a head of HTTP."""
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError("the answer is not HTTP")
    status, _, reason = rest.partition(" ")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return int(status), reason, headers


def _error_text(problem: Exception) -> str:
    if isinstance(problem, EOFError):
        return "the connection was closed before the answer"
    if is_distrust(problem):
        return UNTRUSTED
    return error_text(problem)
