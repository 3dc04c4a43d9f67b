"""Closing a connection to a NATS broker, for all modules that use one."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # an optional extra; a caller that has a client has installed it
    from nats.aio.client import Client


async def leave(client: Client) -> None:
    """Close also what a refused connection leaves open; the client itself forgets."""
    transport = getattr(client, "_transport", None)
    if transport is not None:
        transport.close()
    # Broad: the connection is gone anyway, so no error of the driver matters.
    with suppress(Exception):
        await client.close()
