"""Writing the audit log: one row for each change and each refusal, stored before the request is answered.

Requests that end at the same moment share one transaction, as starts do.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from noetl.base.clock import Clock, rfc3339
from noetl.server.access.hosts import network_of
from noetl.store.audit import Audit, AuditEntry

# The page reads the session before it shows the sign-in form: without a token the answer is "none", not a refusal.
SESSION_PROBE = ("GET /api/session", "no token", 401)
# Keys in the scope of a request. A route sets the actor if no token names it, and the object if the path does not.
ACTOR = "noetl.actor"
OBJECT = "noetl.object"
_LONGEST = 500
_LONGEST_DETAIL = 200  # of one name or reason among the details of an object
# Repeated refusals of unauthenticated requests within this time are counted and not written one by one.
FOLDED_S = 600.0
# Networks and reasons with a count of their own; all others share one count, so that memory is bounded.
_MOST_FOLDED = 1_000
_ELSEWHERE = "other addresses"


class _FoldedRefusals(msgspec.Struct):
    """Refusals of one network after the first, which has a row of its own. They are counted, not written: requests
    without a token must not fill the audit log."""

    since: float
    count: int = 0
    last: str = ""


class AuditWriter:
    def __init__(self, audit: Audit, clock: Clock) -> None:
        self._audit, self._clock = audit, clock
        self._waiting: list[tuple[AuditEntry, asyncio.Future[None]]] = []
        # Rows are chained by hashes, so appends run one after the other. Entries that arrive meanwhile share the next.
        self._writing = asyncio.Lock()
        self._folded: dict[tuple[str, str, str], _FoldedRefusals] = {}

    async def record(self, scope: MutableMapping[str, Any], *, actor: str, action: str, status: int) -> None:
        """Record a request; returns when the row is durable."""
        await self._append(
            AuditEntry(
                at=self._clock.now(),
                actor=_printable(scope.get(ACTOR) or actor or "-"),
                action=_printable(action),
                object=_printable(scope.get(OBJECT) or scope["path"]),
                address=_printable(address_of(scope)),
                outcome=str(status),
            )
        )

    async def record_unauthenticated(
        self, scope: MutableMapping[str, Any], *, reason: str, action: str, status: int
    ) -> None:
        """Record a refused request without a valid token. The first one of a network and reason in ten minutes gets a
        row at once; all later ones share one row with their number."""
        now, network = self._clock.now(), network_of(address_of(scope))
        key = (network, reason, str(status))
        # An attacker can come from any number of networks, and memory must not grow with them.
        if key not in self._folded and len(self._folded) >= _MOST_FOLDED:
            key = (_ELSEWHERE, reason, str(status))
        folded = self._folded.get(key)
        if folded is not None and now - folded.since < FOLDED_S:
            folded.count, folded.last = folded.count + 1, action
            return
        # Begin the new period before the first await: a request of this network that arrives meanwhile must be counted
        # and not get a row of its own.
        self._folded[key] = _FoldedRefusals(since=now)
        if folded is not None:
            await self._append_folded(key, folded)
        await self.record(scope, actor="", action=action, status=status)

    async def write_folded(self) -> None:
        """Write the counts of all open periods."""
        folded, self._folded = self._folded, {}
        for key, refusals in folded.items():
            await self._append_folded(key, refusals)

    async def _append_folded(self, key: tuple[str, str, str], folded: _FoldedRefusals) -> None:
        network, reason, status = key
        if not folded.count:
            return
        summary = f"{folded.count} more since {rfc3339(folded.since)}: {reason}, last {folded.last}"
        entry = AuditEntry(
            at=self._clock.now(),
            actor="-",
            action=f"refused {folded.count} times",
            object=_printable(summary),
            address=_printable(network),
            outcome=status,
        )
        await self._append(entry)

    async def _append(self, entry: AuditEntry) -> None:
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, written))
        # Yield once: other requests that end at this moment join the same transaction.
        await asyncio.sleep(0)
        async with self._writing:
            if self._waiting:
                waiting, self._waiting = self._waiting, []
                # Shielded: other requests wait for this write, even if the client of this one disconnects.
                await asyncio.shield(self._write(waiting))
        await written

    async def _write(self, waiting: list[tuple[AuditEntry, asyncio.Future[None]]]) -> None:
        problem: Exception | None = None
        try:
            await self._audit.append([entry for entry, _ in waiting])
        # Any error: every request of the batch must learn that it was not recorded, and is refused then.
        except Exception as failure:
            problem = failure
        for _, written in waiting:
            # The request was cancelled while it waited, so no caller reads this future.
            if written.done():
                continue
            if problem is None:
                written.set_result(None)
            else:
                written.set_exception(problem)


def object_with(address: str, /, **details: object) -> str:
    """The path of a request with what it does not say itself: names, roles, times and reasons, never bodies."""
    named = {name: str(value)[:_LONGEST_DETAIL] for name, value in details.items() if value not in (None, "")}
    # Readable without decoding in `noetl audit list`: only characters that would end a detail, or are not printable,
    # are quoted.
    return f"{address}?{urlencode(named, safe='/:, ', quote_via=quote)}" if named else address


def address_of(scope: MutableMapping[str, Any]) -> str:
    """The client address of the connection, "-" if unknown."""
    client = scope.get("client")
    return str(client[0]) if client else "-"


def _printable(text: str) -> str:
    """The text without control characters, which databases and terminals may reject, cut to a readable length."""
    return "".join(character if character.isprintable() else "�" for character in text[:_LONGEST])
