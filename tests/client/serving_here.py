"""A real server in the test's own event loop, on a free port, with a worker beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from noetl.server.configuration import ServerSettings
from noetl.server.server_process import Served, serving


@asynccontextmanager
async def served(folder: Path, *, workers: int = 4) -> AsyncIterator[Served]:
    settings = ServerSettings(
        db=str(folder / "server.db"), port=0, workers=workers, local=True, drain_s=1, lease_ttl_s=600
    )
    async with serving(settings) as server:
        yield server
