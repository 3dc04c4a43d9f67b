"""Which workers there are, what they serve and when they were last heard of.

It is for people who look, for limits of a token, and for whom an order is given to; no lease depends on it. Kept on the
store's shelf, so that every server knows it; what changes with every heartbeat is written there twice a minute at most.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.clock import Clock, rfc3339
from noetl.base.ids import derived
from noetl.control.claiming.worker_abilities import ANY, WorkerAbilities
from noetl.store.key_values import KeyValues

KIND = "worker"
WRITE_EVERY_S = 30.0
LIVE_S = 60.0
KEPT_S = 86_400.0
_ID_DIGITS = 16


class WorkerRow(msgspec.Struct, kw_only=True):
    """`token_id` is the token it came with: nobody else speaks for it. A worker in a server's own process has none, and
    no request speaks for it. `leases` are orders it held when last asked."""

    worker_id: str
    pools: tuple[str, ...] = ("default",)
    capacity: int = 1
    labels: dict[str, str] = {}
    kinds: tuple[str, ...] = ()
    protocol: int = 1
    version: str = ""
    token_id: str = ""
    registered_at: float = 0.0
    last_seen: float = 0.0
    leases: dict[str, int] = {}


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    worker_id: str
    pools: list[str]
    capacity: int
    labels: dict[str, str]
    kinds: list[str]
    protocol: int
    version: str
    registered_at: str
    last_seen: str
    live: bool
    leases: list[str]


class Roster:
    def __init__(self, key_values: KeyValues, clock: Clock) -> None:
        self._key_values, self._clock = key_values, clock
        self._here: dict[str, WorkerRow] = {}
        self._written: dict[str, float] = {}
        self._listed: list[WorkerRow] = []  # of all servers, as they were last

    async def register(self, row: WorkerRow) -> WorkerRow:
        now = self._clock.now()
        row = msgspec.structs.replace(row, registered_at=now, last_seen=now)
        self._here[row.worker_id] = row
        await self._write(row)
        return row

    async def remove(self, worker_id: str) -> bool:
        self._here.pop(worker_id, None)
        self._written.pop(worker_id, None)
        return await self._key_values.delete(KIND, worker_id)

    async def get(self, worker_id: str) -> WorkerRow | None:
        if (row := self._here.get(worker_id)) is not None:
            return row
        thing = await self._key_values.get(KIND, worker_id)
        return msgspec.json.decode(thing.body, type=WorkerRow) if thing is not None else None

    def ability(self, worker_id: str) -> WorkerAbilities:
        """What a worker can do that was heard of here. One that is not known was never asked for its labels."""
        row = self._here.get(worker_id)
        return ability_of(row) if row is not None else ANY

    @property
    def kinds(self) -> frozenset[str]:
        """What some worker runs, of those that were heard of here and those listed last."""
        since = self._clock.now() - LIVE_S
        rows = (*self._here.values(), *self._listed)
        return frozenset(kind for row in rows if row.last_seen >= since for kind in row.kinds)

    async def note_contact(self, worker_id: str, leases: dict[str, int] | None = None) -> None:
        """It has just been heard of; with `leases`, these are what it holds."""
        row = self._here.get(worker_id) or await self.get(worker_id)
        if row is None:
            return
        row.last_seen = self._clock.now()
        if leases is not None:
            row.leases = dict(leases)
        self._here[worker_id] = row
        if row.last_seen - self._written.get(worker_id, 0.0) >= WRITE_EVERY_S:
            await self._write(row)

    async def list(self) -> list[WorkerRow]:
        things = await self._key_values.list(KIND)
        rows = {thing.name: msgspec.json.decode(thing.body, type=WorkerRow) for thing in things}
        for worker_id, row in self._here.items():
            if worker_id in rows and row.last_seen >= rows[worker_id].last_seen:
                rows[worker_id] = row
        self._listed = [rows[name] for name in sorted(rows)]
        return list(self._listed)

    async def sweep(self) -> int:
        """Forget workers that nobody has heard of for a day."""
        before = self._clock.now() - KEPT_S
        for worker_id in [one for one, row in self._here.items() if row.last_seen < before]:
            del self._here[worker_id]
            self._written.pop(worker_id, None)
        return await self._key_values.sweep(KIND, before=before)

    async def _write(self, row: WorkerRow) -> None:
        self._written[row.worker_id] = self._clock.now()
        body = msgspec.json.encode(row)
        for _ in range(3):
            there = await self._key_values.get(KIND, row.worker_id)
            over = there.version if there is not None else 0
            if await self._key_values.put(KIND, row.worker_id, body, over=over, at=self._clock.now()) is not None:
                return  # else another server wrote it at the same moment


def given_id(token_id: str, name: str, instance: str) -> str:
    """The id of a worker at this token. It follows from what it is, so that a repeated registration, also at a server
    that has forgotten it, gives the same one, and no other token is ever given it."""
    return f"{name}:{derived('worker', token_id, name, instance)[:_ID_DIGITS]}"


def ability_of(row: WorkerRow) -> WorkerAbilities:
    return WorkerAbilities(kinds=frozenset(row.kinds) or None, labels=row.labels)


def worker_view(row: WorkerRow, now: float) -> WorkerView:
    plain: dict[str, Any] = {name: getattr(row, name) for name in ("worker_id", "capacity", "labels", "version")}
    return WorkerView(
        **plain,
        pools=list(row.pools),
        kinds=list(row.kinds),
        protocol=row.protocol,
        registered_at=rfc3339(row.registered_at),
        last_seen=rfc3339(row.last_seen),
        live=now - row.last_seen < LIVE_S,
        leases=sorted(row.leases),
    )
