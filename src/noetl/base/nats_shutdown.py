"""Leaving a NATS broker: for everybody here who talks to one."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # an extra, which whoever has a client has installed
    from nats.aio.client import Client


async def leave(client: Client) -> None:
    """Close also what a refused connection leaves open; the client itself forgets."""
    transport = getattr(client, "_transport", None)
    if transport is not None:
        transport.close()
    # Broad: whatever the driver says of a connection that is gone anyway, nobody needs it.
    with suppress(Exception):
        await client.close()
