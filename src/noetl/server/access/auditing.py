"""Writing the audit log: one row per request that changes something, and per refused one, before it is answered.

Requests that end at the same moment share one transaction, as starts do.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from noetl.clock import Clock
from noetl.store.audit import Audit, AuditEntry

ACTOR = "noetl.actor"  # a route writes here who asked, where no token tells it
OBJECT = "noetl.object"  # and here what it was asked about, where the path does not
_LONGEST = 500


class AuditDesk:
    def __init__(self, audit: Audit, clock: Clock) -> None:
        self._audit, self._clock = audit, clock
        self._waiting: list[tuple[AuditEntry, asyncio.Future[None]]] = []
        self._writing = asyncio.Lock()

    async def record(self, scope: MutableMapping[str, Any], *, actor: str, action: str, status: int) -> None:
        """Return once it is durable."""
        entry = AuditEntry(
            at=self._clock.now(),
            actor=_plain(scope.get(ACTOR) or actor or "-"),
            action=_plain(action),
            object=_plain(scope.get(OBJECT) or scope["path"]),
            address=_plain(address_of(scope)),
            outcome=str(status),
        )
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, written))
        await asyncio.sleep(0)  # whoever else ends at this moment is written with it
        async with self._writing:  # and whoever ends while others are written, with the next
            if self._waiting:
                waiting, self._waiting = self._waiting, []
                await asyncio.shield(self._write(waiting))  # others wait for it, also when our own reader has gone
        await written

    async def _write(self, waiting: list[tuple[AuditEntry, asyncio.Future[None]]]) -> None:
        problem: Exception | None = None
        try:
            await self._audit.append([entry for entry, _ in waiting])
        except Exception as failure:
            problem = failure
        for _, written in waiting:
            if written.done():
                continue
            if problem is None:
                written.set_result(None)
            else:
                written.set_exception(problem)


def address_of(scope: MutableMapping[str, Any]) -> str:
    """Where a request comes from, as far as the connection tells."""
    client = scope.get("client")
    return str(client[0]) if client else "-"


def _plain(text: str) -> str:
    """Without controls, which databases and terminals do not take well, and not longer than anybody reads."""
    return "".join(one if one.isprintable() else "�" for one in text[:_LONGEST])
