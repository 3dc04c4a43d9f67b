"""Opening and closing a connection to a NATS broker, for wake-ups, results and the tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # an optional extra; a caller that has a client has installed it
    from nats.aio.client import Client

CONNECT_S = 5


async def ignore(problem: Exception) -> None:
    """Ignore errors in the background: the next call raises them."""


async def connect_client(
    client: Client,
    server: str,
    options: Mapping[str, Any] | None = None,
    *,
    name: str = "noetl",
    on_error: Callable[[Exception], Awaitable[None]] = ignore,
) -> None:
    """Connect without the client's own reconnecting, which waits and prints: calls during an outage fail at once, and
    the caller connects again. The client keeps what a refused connection leaves open; `leave` closes it."""
    await client.connect(
        servers=[server],
        name=name,
        allow_reconnect=False,
        max_reconnect_attempts=1,
        reconnect_time_wait=0,
        connect_timeout=CONNECT_S,
        error_cb=on_error,
        **(options or {}),
    )


async def leave(client: Client) -> None:
    """Close the connection, and also the socket of a refused one, which the client itself leaves open."""
    transport = getattr(client, "_transport", None)
    if transport is not None:
        transport.close()
    # Broad: the connection is gone anyway, so no error of the driver matters.
    with suppress(Exception):
        await client.close()
