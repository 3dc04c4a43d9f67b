"""The doorbell of a server: within the process for a file, by the database or a broker where servers share a store."""

from __future__ import annotations

from noetl.dispatch.contract import Dispatch
from noetl.dispatch.memory import MemoryDispatch
from noetl.errors import RefusedError
from noetl.server.configuration import ServerSettings
from noetl.store.opening import is_database


async def open_dispatch(settings: ServerSettings) -> Dispatch:
    """RefusedError names the extra that is missing."""
    if settings.nats is not None:
        try:
            from noetl.dispatch.nats import nats_dispatch
        except ImportError:
            raise RefusedError("a NATS broker needs its driver: install noetl[nats]") from None
        linked = nats_dispatch(settings.nats)
    elif is_database(settings.db):
        from noetl.dispatch.postgres import postgres_dispatch  # the store has asked for its driver already

        linked = postgres_dispatch({"dsn": settings.db})
    else:
        return MemoryDispatch()
    await linked.open()
    return linked
