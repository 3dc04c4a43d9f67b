"""NoETL: workflows as Petri nets, written in YAML, kept in an event log.

`noetl.run(playbook)` runs one here, `noetl.driving()` many side by side; `noetl.Client(url, token)` talks to a server.
Importing this package costs nothing; what a name needs is imported with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noetl.client import AsyncClient as AsyncClient
    from noetl.client import Client as Client
    from noetl.operations.embedded import RunResult as RunResult
    from noetl.operations.embedded import arun as arun
    from noetl.operations.embedded import driving as driving
    from noetl.operations.embedded import run as run

__all__ = ["AsyncClient", "Client", "RunResult", "arun", "driving", "run"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module noetl has no attribute {name!r}")
    if name in ("AsyncClient", "Client"):
        from noetl import client

        return getattr(client, name)
    from noetl.operations import embedded

    return getattr(embedded, name)
