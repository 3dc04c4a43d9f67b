"""A line to PostgreSQL that can be cut at the worst moment: before a request arrives, or before its answer does."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlencode

_SOCKET = ".s.PGSQL.5432"


class Line:
    """Between a client and the server's socket. `cut_request` and `cut_answer` are how many of the next requests
    that contain `at` are lost, on their way there or with their answers; `is_down` refuses connections."""

    def __init__(self, there: str) -> None:
        self._there = Path(there) / _SOCKET
        self.folder = Path(tempfile.mkdtemp(prefix="noetl-line-"))
        self.at = b""
        self.cut_request = self.cut_answer = self.cuts = 0
        self.is_down = False
        self._open: set[asyncio.Task[None]] = set()

    def url(self, database: str, schema: str) -> str:
        options = urlencode({"host": str(self.folder), "search_path": schema})
        return f"postgresql://postgres@/{database}?{options}"

    def drop(self) -> None:
        """Cut every connection there is."""
        for task in self._open:
            task.cancel()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if not self.is_down:
                await self._carried(reader, writer)
        except (OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _carried(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_unix_connection(str(self._there))
        back = asyncio.create_task(self._back(answers, writer))
        try:
            while request := await reader.read(1 << 20):
                if self.at in request and self.cut_request:
                    self.cut_request, self.cuts = self.cut_request - 1, self.cuts + 1
                    return
                if self.at in request and self.cut_answer:
                    self.cut_answer, self.cuts = self.cut_answer - 1, self.cuts + 1
                    back.cancel()
                    await asyncio.wait({back})  # two may not read at once
                    requests.write(request)
                    await answers.read(1)  # the server has begun to answer: the request has been carried out
                    return
                requests.write(request)
                await requests.drain()
        finally:
            back.cancel()
            requests.close()
            with suppress(asyncio.CancelledError):
                await back

    @staticmethod
    async def _back(answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while answer := await answers.read(1 << 20):
                writer.write(answer)
            writer.close()


@asynccontextmanager
async def cutting(there: str) -> AsyncIterator[Line]:
    line = Line(there)
    listening = await asyncio.start_unix_server(line.serve, str(line.folder / _SOCKET))
    try:
        yield line
    finally:
        listening.close()
        line.drop()
        while line._open:
            await asyncio.sleep(0)
        for file in line.folder.iterdir():
            file.unlink()
        line.folder.rmdir()
