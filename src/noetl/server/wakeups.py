"""The doorbell of a server: within the process for a file, by the database or a broker where servers share a store."""

from __future__ import annotations

from noetl.base.errors import RefusedError
from noetl.server.configuration import ServerSettings
from noetl.store.open_store import is_database
from noetl.store.wakeups.contract import Wakeups
from noetl.store.wakeups.memory import MemoryWakeups


async def open_dispatch(settings: ServerSettings) -> Wakeups:
    """RefusedError names the extra that is missing."""
    if settings.nats is not None:
        try:
            from noetl.store.wakeups.nats import nats_dispatch
        except ImportError:
            raise RefusedError("a NATS broker needs its driver: install noetl-engine[nats]") from None
        linked = nats_dispatch(settings.nats)
    elif is_database(settings.db):
        from noetl.store.wakeups.postgres import postgres_dispatch  # the store has asked for its driver already

        linked = postgres_dispatch({"dsn": settings.db})
    else:
        return MemoryWakeups()
    await linked.open()
    return linked
