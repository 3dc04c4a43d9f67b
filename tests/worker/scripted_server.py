"""An HTTP server that answers byte for byte by a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

Script = Callable[[int, int, bytes], bytes | None]  # connection, request of it, what was asked -> answer; None: close
UNENDING = b"HTTP/1.1 200 OK\r\n\r\n"


class Server:
    """Answers by a script, and counts its connections."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.connections = 0
        self.asked: list[bytes] = []
        self.serving: list[asyncio.Task[None]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        this = asyncio.current_task()
        assert this is not None
        self.serving.append(this)
        number, self.connections = self.connections, self.connections + 1
        for request in range(100):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), 0
                )
                self.asked.append(head + await reader.readexactly(length))
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            answer = self._script(number, request, self.asked[-1])
            if answer is None:
                break
            writer.write(answer)
            if answer.startswith(UNENDING) or answer.endswith(b"half"):
                break
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def plain(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    head = "".join(f"{header}\r\n" for header in (*headers, f"Content-Length: {len(body)}"))
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body
