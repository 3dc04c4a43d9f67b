"""Connections: one kept open for each target, made when first needed, and made anew once it was lost."""

from __future__ import annotations

import asyncio

import nats.errors
from nats.aio.client import Client

from noetl.errors import ToolError
from noetl.nats_leaving import leave
from noetl.tools.nats.targets import Target

CONNECT_S = 5


class Connections:
    def __init__(self) -> None:
        self._open: dict[Target, Client] = {}
        self._opening: dict[Target, asyncio.Lock] = {}

    async def client(self, target: Target) -> Client:
        """A live connection. ToolError `nats.error` says why there is none."""
        async with self._opening.setdefault(target, asyncio.Lock()):
            client = self._open.get(target)
            if client is None or client.is_closed:
                client = self._open[target] = await _connected(target)
            return client

    async def close(self) -> None:
        clients, self._open = list(self._open.values()), {}
        for client in clients:
            await client.close()


async def _connected(target: Target) -> Client:
    """Without the client's own reconnecting, which waits and prints: a lost connection is a task's error, and the
    next task connects again."""
    client, heard = Client(), list[Exception]()

    async def hear(problem: Exception) -> None:
        heard[:] = [problem]  # what goes wrong later, in the background, shows in the next call

    try:
        await client.connect(
            **target.connect_arguments(),
            name="noetl",
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=CONNECT_S,
            error_cb=hear,
        )
    except (OSError, TimeoutError, ValueError, nats.errors.Error) as problem:
        await leave(client)
        cause = heard[-1] if heard else problem  # what comes out is only that no server is left to try
        why = str(cause) or type(cause).__name__
        raise ToolError("nats.error", f"NATS at {target} cannot be reached: {why}", retryable=True) from None
    return client
