"""Shared usage: what the servers on one store have claimed of each subject's quotas.

A server writes what it claims into a row of its own and then reads the rows of the others. Whoever writes before
reading cannot miss a claim that was made earlier, so no two servers use the same last place of a quota, and no lock is
needed. The row of a server that has written nothing for a while counts no longer.
"""

from __future__ import annotations

from secrets import token_hex

import msgspec

from noetl.base.clock import Clock
from noetl.store.key_values import KeyValue, KeyValues

KIND = "usage"
FRESH_S = 60.0  # a server writes its row at least three times as often


class Claimed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a server has of one subject's quotas: executions that are or may become open, starts within the minute,
    bytes stored within the day."""

    open: int = 0
    starts: int = 0
    stored: int = 0


class ServerUsage(msgspec.Struct, kw_only=True):
    """The row of one server. `minute` and `day` are numbers since 1970; starts and bytes of others count nothing."""

    minute: int
    day: int
    subjects: dict[str, Claimed] = {}


class SharedUsage:
    def __init__(self, key_values: KeyValues, clock: Clock) -> None:
        self._key_values, self._clock = key_values, clock
        self._name, self._version = token_hex(8), 0
        self._written: bytes = b""
        self._written_at = float("-inf")

    async def write(self, usage: ServerUsage) -> None:
        """Store it, unless that is what is stored and is fresh."""
        body, now = msgspec.json.encode(usage), self._clock.now()
        if body == self._written and now - self._written_at < FRESH_S / 3:
            return
        while (row := await self._put(body, now)) is None:
            found = await self._key_values.get(KIND, self._name)  # swept, or an earlier answer was lost
            self._version = found.version if found is not None else 0
        self._version, self._written, self._written_at = row.version, body, now

    async def others(self) -> list[ServerUsage]:
        """The fresh rows of the other servers."""
        since = self._clock.now() - FRESH_S
        rows = await self._key_values.list(KIND)
        return [_read(row) for row in rows if row.name != self._name and row.updated_at >= since]

    async def sweep(self) -> int:
        return await self._key_values.sweep(KIND, before=self._clock.now() - FRESH_S)

    async def _put(self, body: bytes, now: float) -> KeyValue | None:
        return await self._key_values.put(KIND, self._name, body, over=self._version, at=now)


def _read(row: KeyValue) -> ServerUsage:
    return msgspec.json.decode(row.body, type=ServerUsage)
