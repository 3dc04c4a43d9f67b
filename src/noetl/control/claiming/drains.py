"""Drains: workers that finish what they hold and are given nothing more, until somebody resumes them (SRV-08).

A drain is a row of the key-value table, so that every server keeps it, and it outlasts the worker's connection and a
restart of the server. It is kept apart from the roster, which each server writes again with every heartbeat.
"""

from __future__ import annotations

import msgspec

from noetl.base.clock import Clock
from noetl.store.key_values import KeyValues

KIND = "worker-drain"
KNOWN_S = 1.0  # a drain that another server was told of is seen after at most that long
KEPT_S = 7 * 86_400.0  # the id of a worker changes with its name and token; a drain of one that is gone is forgotten


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """Since when a worker takes nothing more, and who said so."""

    worker_id: str
    since: float
    by: str = ""


class Drains:
    def __init__(self, key_values: KeyValues, clock: Clock) -> None:
        self._key_values, self._clock = key_values, clock
        self._known: dict[str, Drain] = {}
        self._known_at: float | None = None

    async def all(self) -> dict[str, Drain]:
        """By worker, as they were a moment ago."""
        now = self._clock.now()
        if self._known_at is None or not 0 <= now - self._known_at < KNOWN_S:
            rows = await self._key_values.list(KIND)
            self._known = {row.name: msgspec.json.decode(row.body, type=Drain) for row in rows}
            self._known_at = now
        return self._known

    def holds(self, worker_id: str) -> bool:
        """Whether a worker is drained, as far as is known here; `all` reads it anew."""
        return worker_id in self._known

    async def begin(self, worker_id: str, *, by: str) -> Drain:
        """From now on, for every server. What the worker holds it finishes. Doing so again changes nothing."""
        now = self._clock.now()
        await self._key_values.sweep(KIND, before=now - KEPT_S)
        drain = Drain(worker_id=worker_id, since=now, by=by)
        await self._key_values.put(KIND, worker_id, msgspec.json.encode(drain), over=0, at=now)  # else it is there
        self._known_at = None
        return (await self.all()).get(worker_id, drain)

    async def end(self, worker_id: str) -> bool:
        """Let it take orders again; False when it was not drained."""
        self._known_at = None
        return await self._key_values.delete(KIND, worker_id)
