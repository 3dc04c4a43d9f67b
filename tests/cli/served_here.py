"""A server in a thread of the test, on a store file in its home: the command line talks to it, and to the file."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noetl.server.configuration import ServerSettings
from noetl.server.server_process import Served, serving


@contextmanager
def served_here(db: Path) -> Iterator[str]:
    """Its address, for as long as the block lasts."""
    found: list[Served] = []
    ready, stop = threading.Event(), asyncio.Event()

    async def up() -> None:
        async with serving(ServerSettings(db=str(db), port=0, local=True)) as one:
            found.append(one)
            ready.set()
            await stop.wait()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(up()))
    thread.start()
    try:
        assert ready.wait(100)
        yield found[0].url
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(100)
        loop.close()
