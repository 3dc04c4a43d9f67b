"""A scripted HTTP server for tests: routes answer by a script, and every request is kept (O-32).

    async with HttpServer({"/a": [reply(503), reply(json={"n": 1})]}) as server:
        …  # server.url, server.requests

A route is written "/path" or "METHOD /path"; "*" takes what no other route does. It holds one reply, a function of
the request that gives one, or a list of these: they are given in turn, the last one forever. In a test that is not
async, or beside a subprocess, `with HttpServer(…)` serves from a thread. It needs nothing but the standard library.
"""

from __future__ import annotations

import asyncio
import contextlib
import json as json_format
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, unquote

_REASONS = {200: "OK", 201: "Created", 204: "No Content", 302: "Found", 404: "Not Found", 503: "Service Unavailable"}
_NO_BODY = frozenset({204, 304})
_LOOK_S = 0.01
OF_WORKERS = "/api/orders/"


@dataclass(frozen=True)
class Request:
    """One request as it came. Header names are in lower case; `connection` counts the server's connections from 1."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def path(self) -> str:
        return unquote(self.target.partition("?")[0])

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self.target.partition("?")[2], keep_blank_values=True))

    @property
    def json(self) -> Any:
        return json_format.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """The response. `drop`: nothing, the connection is closed. `hang`: nothing at all until the client leaves.
    `held`: nothing until it is set. `raw`: these bytes as they are, then the connection is closed. `chunks` are sent
    one by one, chunked."""

    status: int = 200
    headers: Mapping[str, str | list[str]] = field(default_factory=dict)
    body: bytes = b""
    delay_s: float = 0.0
    drop: bool = False
    hang: bool = False
    held: threading.Event | None = None
    raw: bytes | None = None
    chunks: Iterable[bytes] | None = None


def reply(
    status: int = 200,
    *,
    json: Any = None,
    text: str | None = None,
    body: bytes = b"",
    headers: Mapping[str, str | list[str]] | None = None,
    **more: Any,
) -> Reply:
    """A reply with a body of JSON, text or bytes."""
    given = dict(headers or {})
    named = {name.lower() for name in given}
    if json is not None:
        body = json_format.dumps(json).encode()
        if "content-type" not in named:
            given["Content-Type"] = "application/json"
    elif text is not None:
        body = text.encode()
        if "content-type" not in named:
            given["Content-Type"] = "text/plain; charset=utf-8"
    return Reply(status=status, headers=given, body=body, **more)


Answer = Reply | Callable[[Request], Reply]
Script = Answer | Sequence[Answer]
Routes = Mapping[str, Script]


class HttpServer:
    """`requests` are those that came; `abandoned` is set when a client has left while it was owed an answer."""

    def __init__(
        self, routes: Routes, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self.abandoned = threading.Event()
        self._routes = {
            key: list(script) if isinstance(script, Sequence) else [script] for key, script in routes.items()
        }
        self._host, self.port, self._tls = host, port, tls
        self._serving: set[asyncio.Task[None]] = set()
        self._came = asyncio.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    def seen(self, path: str) -> list[Request]:
        """The requests for one path."""
        return [request for request in self.requests if request.path == path]

    async def came(self, count: int = 1) -> None:
        """Return once this many requests have come (on the server's own loop)."""
        while len(self.requests) < count:
            self._came.clear()
            await self._came.wait()

    # In the loop of the test.

    async def __aenter__(self) -> HttpServer:
        self._server = await asyncio.start_server(self._connected, self._host, self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._server.wait_closed()

    # In a thread of its own.

    def __enter__(self) -> HttpServer:
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)), daemon=True)
        self._thread.start()
        assert ready.wait(60)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self:
            ready.set()
            await self._stop.wait()

    # One connection.

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.ensure_future(self._conversation(reader, writer, self.connections))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _conversation(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        try:
            while (request := await _received(reader, number)) is not None:
                # A worker of another test, whose server was killed, and whose port the system has given to us.
                if request.path.startswith(OF_WORKERS):
                    break
                self.requests.append(request)
                self._came.set()
                if not await self._answered(request, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(Exception):
                await writer.wait_closed()

    async def _answered(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection goes on."""
        answer = self._reply(request)
        if answer.hang or answer.delay_s or answer.held is not None:
            waiting = asyncio.ensure_future(reader.read(1))  # a client that leaves is noticed at once
            while answer.held is not None and not answer.held.is_set() and not waiting.done():
                await asyncio.wait({waiting}, timeout=_LOOK_S)
            done, _ = await asyncio.wait({waiting}, timeout=None if answer.hang else answer.delay_s)
            if done:
                self.abandoned.set()
                return False
            waiting.cancel()
            await asyncio.wait({waiting})  # two may not read at once, and the next request is read right away
        if answer.drop:
            writer.transport.abort()
            return False
        try:
            await _write(answer, request, writer)
        except ConnectionError:
            self.abandoned.set()
            raise
        return answer.raw is None

    def _reply(self, request: Request) -> Reply:
        script = (
            self._routes.get(f"{request.method} {request.path}")
            or self._routes.get(request.path)
            or self._routes.get("*")
        )
        if script is None:
            return reply(404, json={"error": "there is no such route"})
        answer = script.pop(0) if len(script) > 1 else script[0]
        return answer if isinstance(answer, Reply) else answer(request)


async def _received(reader: asyncio.StreamReader, number: int) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = await _chunked(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, target, headers, body, number)


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int(await reader.readline(), 16):
        parts.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return b"".join(parts)


async def _write(answer: Reply, request: Request, writer: asyncio.StreamWriter) -> None:
    if answer.raw is not None:
        writer.write(answer.raw)
        await writer.drain()
        return
    names = {name.lower() for name in answer.headers}
    lines = [f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'Scripted')}"]
    for name, value in answer.headers.items():
        lines += [f"{name}: {one}" for one in (value if isinstance(value, list) else [value])]
    if answer.chunks is not None:
        lines.append("Transfer-Encoding: chunked")
    elif answer.status not in _NO_BODY and "content-length" not in names:
        lines.append(f"Content-Length: {len(answer.body)}")
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    if request.method != "HEAD" and answer.status not in _NO_BODY:
        if answer.chunks is None:
            writer.write(answer.body)
        else:
            for chunk in answer.chunks:
                writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                await writer.drain()
            writer.write(b"0\r\n\r\n")
    await writer.drain()
