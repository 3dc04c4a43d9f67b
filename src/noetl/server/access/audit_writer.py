"""Writing the audit log: one row per request that changes something, and per refused one, before it is answered.

Requests that end at the same moment share one transaction, as starts do.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import msgspec

from noetl.base.clock import Clock, rfc3339
from noetl.server.access.hosts import network_of
from noetl.store.audit import Audit, AuditEntry

ACTOR = "noetl.actor"  # a route writes here who asked, where no token tells it
OBJECT = "noetl.object"  # and here what it was asked about, where the path does not
_LONGEST = 500
FOLDED_S = 600.0  # strangers who do the same again within it are counted, not written one by one
_MOST_FOLDED = 1_000  # networks and reasons that are told apart; the others are counted together
_ELSEWHERE = "other addresses"


class _Folded(msgspec.Struct):
    """What strangers of one network did after the first, which has a row of its own. Counted instead of written: nobody
    without a token may fill the audit log."""

    since: float
    count: int = 0
    last: str = ""


class AuditDesk:
    def __init__(self, audit: Audit, clock: Clock) -> None:
        self._audit, self._clock = audit, clock
        self._waiting: list[tuple[AuditEntry, asyncio.Future[None]]] = []
        # Rows are chained by their hashes, so one append follows the other. Those that come meanwhile share the next.
        self._writing = asyncio.Lock()
        self._folded: dict[tuple[str, str, str], _Folded] = {}

    async def record(self, scope: MutableMapping[str, Any], *, actor: str, action: str, status: int) -> None:
        """Return once it is durable."""
        await self._append(
            AuditEntry(
                at=self._clock.now(),
                actor=_plain(scope.get(ACTOR) or actor or "-"),
                action=_plain(action),
                object=_plain(scope.get(OBJECT) or scope["path"]),
                address=_plain(address_of(scope)),
                outcome=str(status),
            )
        )

    async def record_stranger(self, scope: MutableMapping[str, Any], *, reason: str, action: str, status: int) -> None:
        """The same for somebody who is not known. The first of a network, reason and ten minutes has a row at once; how
        many came after it is one row more, so that strangers cannot fill the log."""
        now, network = self._clock.now(), network_of(address_of(scope))
        key = (network, reason, str(status))
        # An attacker can come from any number of networks, and memory must not grow with them.
        if key not in self._folded and len(self._folded) >= _MOST_FOLDED:
            key = (_ELSEWHERE, reason, str(status))
        folded = self._folded.get(key)
        if folded is not None and now - folded.since < FOLDED_S:
            folded.count, folded.last = folded.count + 1, action
            return
        # A new period begins before anything is awaited: another request of this network that comes meanwhile is
        # counted instead of getting a row, too.
        self._folded[key] = _Folded(since=now)
        if folded is not None:
            await self._append_folded(key, folded)
        await self.record(scope, actor="", action=action, status=status)

    async def write_folded(self) -> None:
        """Write what was counted."""
        folded, self._folded = self._folded, {}
        for key, one in folded.items():
            await self._append_folded(key, one)

    async def _append_folded(self, key: tuple[str, str, str], folded: _Folded) -> None:
        network, reason, status = key
        if not folded.count:
            return
        told = f"{folded.count} more since {rfc3339(folded.since)}: {reason}, last {folded.last}"
        entry = AuditEntry(
            at=self._clock.now(),
            actor="-",
            action=f"refused {folded.count} times",
            object=_plain(told),
            address=_plain(network),
            outcome=status,
        )
        await self._append(entry)

    async def _append(self, entry: AuditEntry) -> None:
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
        # Broad: every request of the batch must hear that it was not recorded, and is refused then.
        except Exception as failure:
            problem = failure
        for _, written in waiting:
            # The request was cancelled while it waited: nobody is left to be told.
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
