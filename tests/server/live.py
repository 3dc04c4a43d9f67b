"""A real server on a free port of this machine, with a client that comes over the network."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from noetl.server.configuration import ServerSettings
from noetl.server.server_process import Served, serving
from tests.server.talking import HELD_S, Talk, WorkerClient


class Remote(Talk):
    """The same talk, over a socket."""

    def __init__(self, served: Served) -> None:
        self.services, self._served = served.services, served
        assert served.first_token is not None
        self.client = self.with_token(served.first_token)
        self._clients = [self.client]

    def with_token(self, token: str | None, **headers: str) -> WorkerClient:
        all_headers = {**({"authorization": f"Bearer {token}"} if token else {}), **headers}
        return WorkerClient(base_url=self._served.url, headers=all_headers, timeout=500, trust_env=False)


@asynccontextmanager
async def live(**settings: Any) -> AsyncIterator[tuple[Served, httpx2.AsyncClient, Remote]]:
    with tempfile.TemporaryDirectory() as folder:
        chosen = {
            "db": str(Path(folder) / "test.db"),
            "port": 0,
            "local": True,
            "poll_s": 0.1,
            "drain_s": 2,
            "lease_ttl_s": HELD_S,
            **settings,
        }
        async with serving(ServerSettings(**chosen)) as served:
            talk = Remote(served)
            try:
                yield served, talk.client, talk
            finally:
                await talk.close()
