"""NoETL: workflows as Petri nets, written in YAML, kept in an event log.

`noetl.run(playbook)` runs one here, `noetl.driving()` many side by side. Importing this package costs nothing; what a
name needs is imported with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noetl.embedded import RunResult as RunResult
    from noetl.embedded import arun as arun
    from noetl.embedded import driving as driving
    from noetl.embedded import run as run

__all__ = ["RunResult", "arun", "driving", "run"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module noetl has no attribute {name!r}")
    from noetl import embedded

    return getattr(embedded, name)
