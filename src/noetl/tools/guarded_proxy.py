"""An HTTP proxy on loopback that connects only where the address policy allows.

Libraries with their own network stack (object stores, database drivers over HTTPS) resolve names themselves. A check
before the call would not bind them: the name may have another address a moment later. They use this proxy instead. It
asks the guard for every connection and connects to the address that the guard returned. TLS passes through it
unopened.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from noetl.base.addresses.policy import AddressGuard, BlockedError
from noetl.base.errors import ToolError

# Requests come from our libraries, but a playbook may control their content: a head has a limit.
_HEAD_BYTES = 64 << 10
_CHUNK_BYTES = 256 << 10
_DROPPED = re.compile(rb"(?:proxy-[a-z-]+|connection|keep-alive)\s*:", re.IGNORECASE)  # headers of one hop


class GuardedProxy:
    """One proxy. Libraries get its `url`; `refusal` is the error of the last connection that the policy refused, or of
    an answer of more than `max_answer_bytes`. An answer is what arrives between two parts of what the library sends: a
    tunnel shows no more of it. `max_bytes` is for all answers together."""

    def __init__(
        self, guard: AddressGuard, *, max_answer_bytes: int | None = None, max_bytes: int | None = None
    ) -> None:
        self._guard, self.max_answer_bytes, self._max_bytes = guard, max_answer_bytes, max_bytes
        self._received = 0
        # A password, so that other programs of this machine cannot use the proxy.
        self._token = secrets.token_hex(16)
        self._expected_credentials = b64encode(f"noetl:{self._token}".encode())
        self._port = 0
        self._open: set[asyncio.StreamWriter] = set()
        self.refusal: ToolError | None = None

    @property
    def url(self) -> str:
        return f"http://noetl:{self._token}@127.0.0.1:{self._port}"

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_HEAD_BYTES)
        self._port = int(server.sockets[0].getsockname()[1])
        return server

    def abort(self) -> None:
        """Cut every connection that is still open."""
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            # A connection that breaks, or does not speak HTTP, ends here: the library notices that itself.
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
                await self._forward(reader, writer)
        finally:
            self._open.discard(writer)
            writer.transport.abort() if writer.transport.is_closing() else writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, *_ = head.split(b" ", 2)
        # Anywhere in the head: the token is random, so no other header can contain it by chance.
        if self._expected_credentials not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        is_tunnel = method == b"CONNECT"
        parts = urlsplit(f"//{target.decode()}" if is_tunnel else target.decode())
        host, port = parts.hostname or "", parts.port or 80
        try:
            address = (await self._guard.addresses(host, port))[0]
            answers, requests = await asyncio.open_connection(str(address), port, limit=_HEAD_BYTES)
        except (ToolError, OSError) as problem:
            self._note_refusal(host, problem)
            # The library learns only that the connection failed. The tool reports the noted reason in its own error.
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        if is_tunnel:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            path = parts._replace(scheme="", netloc="").geturl() or "/"
            requests.write(_origin_request(head, method, path))
        await self._pump_both(reader, writer, answers, requests, is_tunnel=is_tunnel, host=host)

    def _excess(self, received: int) -> str | None:
        """The limit that is exceeded; None if there is none."""
        if self.max_answer_bytes is not None and received > self.max_answer_bytes:
            return f"{self.max_answer_bytes >> 20} MiB in one answer"
        if self._max_bytes is not None and self._received > self._max_bytes:
            return f"{self._max_bytes >> 20} MiB"
        return None

    def _note_refusal(self, host: str, problem: Exception) -> None:
        if isinstance(problem, BlockedError):
            self.refusal = BlockedError(f"{host} is blocked: {problem.message}")
        elif isinstance(problem, ToolError):
            self.refusal = problem

    async def _pump_both(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        requests: asyncio.StreamWriter,
        *,
        is_tunnel: bool,
        host: str,
    ) -> None:
        self._open.add(requests)
        received = 0

        def sent(_: int) -> None:
            nonlocal received
            received = 0

        def arrived(size: int) -> None:
            nonlocal received
            received += size
            self._received += size
            if (excess := self._excess(received)) is not None:
                self.refusal = ToolError("result.too_large", f"{host} sent more than {excess}")
                writer.transport.abort()
                raise ConnectionAbortedError

        upstream = asyncio.ensure_future(_pump(reader, requests, sent))
        try:
            if not is_tunnel:
                await _pass_head(answers, writer)
            await _pump(answers, writer, arrived)
        finally:
            upstream.cancel()
            self._open.discard(requests)
            requests.close()
            await asyncio.gather(upstream, return_exceptions=True)


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter, count: Callable[[int], None]) -> None:
    while chunk := await source.read(_CHUNK_BYTES):
        count(len(chunk))
        target.write(chunk)
        await target.drain()  # backpressure: a slow reader slows the sender down, so memory use stays constant


async def _pass_head(answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward the head of a response with `Connection: close`. Some servers close a connection without announcing it; a
    client that reused such a connection would lose its next request."""
    while True:
        head = await answers.readuntil(b"\r\n\r\n")
        if head.split(b" ", 2)[1].startswith(b"1"):  # 100 Continue: the response itself comes later
            writer.write(head)
            continue
        status, *lines = head.rstrip(b"\r\n").split(b"\r\n")
        headers = [line for line in lines if not _DROPPED.match(line)]
        writer.write(b"\r\n".join([status, *headers, b"Connection: close", b"", b""]))
        return


def _origin_request(head: bytes, method: bytes, path: str) -> bytes:
    """A request to a proxy, in the form that the server itself expects. One request per connection: the next one may be
    for another host, which must be checked again."""
    lines = [line for line in head.rstrip(b"\r\n").split(b"\r\n")[1:] if not _DROPPED.match(line)]
    return b"\r\n".join([method + b" " + path.encode() + b" HTTP/1.1", *lines, b"Connection: close", b"", b""])


@asynccontextmanager
async def guarded_proxy(
    guard: AddressGuard, *, max_answer_bytes: int | None = None, max_bytes: int | None = None
) -> AsyncIterator[GuardedProxy]:
    """A proxy that runs until the block ends."""
    proxy = GuardedProxy(guard, max_answer_bytes=max_answer_bytes, max_bytes=max_bytes)
    server = await proxy.start()
    try:
        yield proxy
    finally:
        server.close()
        proxy.abort()
