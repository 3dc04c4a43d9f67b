"""A forward proxy on this machine: tunnels, and requests in absolute form, led to servers that a test names."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit


class ForwardProxy:
    """`hosts` says on which port of this machine each `host:port` is; any other is refused with 403. `login` is what it
    wants in Proxy-Authorization. `asked` has the first line of each request."""

    def __init__(self, hosts: Mapping[str, int], *, login: str | None = None) -> None:
        self._hosts, self._login = dict(hosts), login
        self.asked: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> ForwardProxy:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._conversation(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _conversation(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                head = await reader.readuntil(b"\r\n\r\n")
                await self._led(head.decode("latin-1"), reader, writer)
        finally:
            writer.close()

    async def _led(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, _, lines = head.partition("\r\n")
        self.asked.append(line)
        method, target, _ = line.split(" ")
        parts = urlsplit(target)
        authority = target if method == "CONNECT" else f"{parts.hostname}:{parts.port or 80}"
        if self._login is not None and f"proxy-authorization: {self._login}".lower() not in lines.lower():
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
            return
        if authority not in self._hosts:
            writer.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
            return
        there, onward = await asyncio.open_connection("127.0.0.1", self._hosts[authority])
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            path = target.removeprefix(f"{parts.scheme}://{parts.netloc}") or "/"
            onward.write(f"{method} {path} HTTP/1.1\r\nconnection: close\r\n{lines}".encode("latin-1"))
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pumped(reader, onward))
                both.create_task(_pumped(there, writer))
        finally:
            onward.close()


async def _pumped(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while part := await source.read(65_536):
            target.write(part)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()
