"""The roster: which workers there are, their pools, labels and tool kinds, and the last request of each (SRV-08). Also
obstacles: why no worker takes the orders that wait.

It is used for views, for the limits of a token, and to choose workers that can run an order; no lease depends on it.
It is stored, so that every server can read it; changes by heartbeats are written twice a minute at most.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from noetl.base.clock import Clock, rfc3339
from noetl.base.ids import derived
from noetl.control.claiming.orders import ANY, WorkerAbilities, labels_text, needs_of
from noetl.control.claiming.pools import EVERY, Drain, Pool
from noetl.control.claiming.ready_orders import Needs
from noetl.control.commit.loaded_executions import LoadedExecution
from noetl.engine.execution import Execution
from noetl.server.services import Services
from noetl.store.contract import DEFAULT_POOL
from noetl.store.installation import KeyValues, each_key_value

WORKER_KIND = "worker"
WRITE_EVERY_S = 30.0
# Seconds of silence after which a worker counts as gone: twice the time between two writes of its row.
LIVE_S = 60.0
# Views show a worker that is gone for a day.
KEPT_S = 86_400.0
# Hex digits of the hash behind a worker's name: 64 bits, enough for the names of one token.
_ID_DIGITS = 16


class WorkerRow(msgspec.Struct, kw_only=True):
    """`token_id` is the token it registered with; only requests with that token act for it. A worker in the server's
    own process has none, and no request acts for it. `leases` are orders it held at its last contact."""

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
    """`drained_at`: since then it gets no new orders, by request of `drained_by`; it finishes the orders it holds.
    `alone_in` are the pools whose orders no other worker could take. `in_server`: it has no process of its own."""

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
    drained_at: str | None = None
    drained_by: str = ""
    alone_in: list[str] = []
    in_server: bool = False


class Roster:
    def __init__(self, key_values: KeyValues, clock: Clock) -> None:
        self._key_values, self._clock = key_values, clock
        self._here: dict[str, WorkerRow] = {}
        self._written: dict[str, float] = {}
        self._listed: list[WorkerRow] = []  # of all servers, as last read

    async def register(self, row: WorkerRow) -> WorkerRow:
        now = self._clock.now()
        row = msgspec.structs.replace(row, registered_at=now, last_seen=now)
        self._here[row.worker_id] = row
        await self._write(row)
        return row

    async def remove(self, worker_id: str) -> bool:
        self._here.pop(worker_id, None)
        self._written.pop(worker_id, None)
        return await self._key_values.delete(WORKER_KIND, worker_id)

    async def get(self, worker_id: str) -> WorkerRow | None:
        row = self._here.get(worker_id)
        if row is not None and self._clock.now() - self._written.get(worker_id, 0.0) < WRITE_EVERY_S:
            return row
        # Before its row is written again: another server may have removed the worker meanwhile.
        row_value = await self._key_values.get(WORKER_KIND, worker_id)
        if row is not None and row_value is not None:
            return row
        self._here.pop(worker_id, None)
        return msgspec.json.decode(row_value.body, type=WorkerRow) if row_value is not None else None

    def ability(self, worker_id: str) -> WorkerAbilities:
        """The abilities of a worker that has contacted this server. An unknown worker may take any order."""
        row = self._here.get(worker_id)
        return ability_of(row) if row is not None else ANY

    @property
    def kinds(self) -> frozenset[str]:
        """The tool kinds of all live workers: those that have contacted this server and those listed last."""
        since = self._clock.now() - LIVE_S
        rows = (*self._here.values(), *self._listed)
        return frozenset(kind for row in rows if row.last_seen >= since for kind in row.kinds)

    async def note_contact(self, worker_id: str, leases: dict[str, int] | None = None) -> None:
        """Record a contact of the worker. `leases`, if given, are the orders it holds."""
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
        stored = [row async for row in each_key_value(self._key_values, WORKER_KIND)]
        rows = {item.name: msgspec.json.decode(item.body, type=WorkerRow) for item in stored}
        for worker_id, row in self._here.items():
            # A removed worker has no row; the memory of this server must not bring it back.
            if worker_id in rows and row.last_seen >= rows[worker_id].last_seen:
                rows[worker_id] = row
        self._listed = [rows[name] for name in sorted(rows)]
        return list(self._listed)

    async def sweep(self) -> int:
        """Remove workers without a contact for a day."""
        before = self._clock.now() - KEPT_S
        for worker_id in [worker_id for worker_id, row in self._here.items() if row.last_seen < before]:
            del self._here[worker_id]
            self._written.pop(worker_id, None)
        return await self._key_values.sweep(WORKER_KIND, before=before)

    async def _write(self, row: WorkerRow) -> None:
        self._written[row.worker_id] = self._clock.now()
        body = msgspec.json.encode(row)
        # No retry until it succeeds: the next heartbeat writes the row again. After a lost write `last_seen` is a bit
        # old.
        for _ in range(3):
            stored = await self._key_values.get(WORKER_KIND, row.worker_id)
            over = stored.version if stored is not None else 0
            if (
                await self._key_values.put(WORKER_KIND, row.worker_id, body, over=over, at=self._clock.now())
                is not None
            ):
                return  # else another server wrote it at the same moment


def worker_id_of(token_id: str, name: str, instance: str) -> str:
    """The id of a worker at this token, derived from its arguments. A repeated registration gives the same id, also at
    a server that has removed the worker; no other token gets it."""
    return f"{name}:{derived('worker', token_id, name, instance)[:_ID_DIGITS]}"


def ability_of(row: WorkerRow) -> WorkerAbilities:
    # None: the worker did not say, so it counts as able to run every kind.
    return WorkerAbilities(kinds=frozenset(row.kinds) or None, labels=row.labels)


async def live_workers(services: Services) -> list[WorkerRow]:
    """The workers with a contact within the last minute, without those whose lease has run out after it: they hold
    work, so they would have renewed it."""
    now = services.clock.now()
    lapsed = await services.store.lapsed(now=now)
    return [
        row
        for row in await services.roster.list()
        if now - row.last_seen < LIVE_S and row.last_seen >= lapsed.get(row.worker_id, 0.0)
    ]


async def worker_views(services: Services, rows: Collection[WorkerRow]) -> list[WorkerView]:
    """The workers for views; lost workers come last."""
    now, drains, crews = services.clock.now(), await services.control.pools.drains.all(), await crews_of(services)
    live = {row.worker_id for row in await live_workers(services)}
    taking = {pool: [row.worker_id for row in crews.of(pool).fit] for pool in {*crews, DEFAULT_POOL}}
    views = []
    for row in rows:
        held = sorted(row.leases)
        # Heartbeats list the orders that a remote worker holds; a worker in the process of a server sends none. The
        # leases of a lost worker have run out, and its orders may be in the queue again.
        if not row.token_id or row.worker_id not in live:
            orders = await services.store.held_by(row.worker_id)
            held = sorted(one.order_id for one in orders if not one.is_claimable(now))
        alone = sorted(pool for pool, workers in taking.items() if workers == [row.worker_id])
        views.append(worker_view(row, held, alone, drains.get(row.worker_id), live=row.worker_id in live))
    return sorted(views, key=lambda view: not view.live)


def worker_view(row: WorkerRow, held: list[str], alone_in: list[str], drain: Drain | None, *, live: bool) -> WorkerView:
    plain: dict[str, Any] = {name: getattr(row, name) for name in ("worker_id", "capacity", "labels", "version")}
    return WorkerView(
        **plain,
        pools=list(row.pools),
        kinds=list(row.kinds),
        protocol=row.protocol,
        registered_at=rfc3339(row.registered_at),
        last_seen=rfc3339(row.last_seen),
        live=live,
        leases=held,
        drained_at=rfc3339(drain.since) if drain is not None else None,
        drained_by=drain.by if drain is not None else "",
        alone_in=alone_in,
        in_server=not row.token_id,
    )


_LOOKED_AT = 100  # how many waiting orders of a pool are examined: their executions have to be read


class Crew(msgspec.Struct, frozen=True):
    """The live workers that serve a pool by name, or every pool. `labelled` are those with the labels that it requires;
    `fit` are those of them that are not drained."""

    pool: Pool
    rows: tuple[WorkerRow, ...]
    drained: Collection[str] = ()

    @property
    def labelled(self) -> list[WorkerRow]:
        return [row for row in self.rows if ability_of(row).carries(self.pool.require)]

    @property
    def fit(self) -> list[WorkerRow]:
        return [row for row in self.labelled if row.worker_id not in self.drained]

    @property
    def kinds(self) -> list[str] | None:
        """The tool kinds that they run, all together; None if one of them did not say."""
        reported = [row.kinds for row in self.fit]
        return sorted({kind for kinds in reported for kind in kinds}) if all(reported) else None

    def obstacle(self, needs: Collection[str]) -> str | None:
        """Why no worker takes an order that needs these kinds; None if a worker can take it."""
        name, required = self.pool.name, labels_text(self.pool.require)
        if not self.rows:
            labels = "".join(f" --label {key}={value}" for key, value in sorted(self.pool.require.items()))
            return f'no worker serves the pool "{name}": noetl worker start --pool {name}{labels}'
        if not self.labelled:
            carried = "; ".join(labels_text(row.labels) or "none" for row in self.rows)
            return f'no worker of pool "{name}" carries {required}, which it requires; workers there carry: {carried}'
        able = [row.worker_id for row in self.labelled if ability_of(row).runs(frozenset(needs))]
        if able and not set(able).issubset(self.drained):
            return None
        if able:
            them = f'the only worker of pool "{name}" is' if len(able) == 1 else f'all workers of pool "{name}" are'
            return f"{them} drained: noetl worker resume {able[0]}"
        runs = ", ".join(self.kinds or ()) or "nothing"
        if missing := sorted(set(needs).difference(self.kinds or ())):
            return f'no worker of pool "{name}" runs kind {", ".join(missing)}; workers there run: {runs}'
        return f'no one worker of pool "{name}" runs all of {", ".join(sorted(needs))}; workers there run: {runs}'


class Crews:
    """The crews of all pools, as of one moment."""

    def __init__(self, pools: Collection[Pool], rows: Collection[WorkerRow], drained: Collection[str]) -> None:
        self._pools = {pool.name: pool for pool in pools}
        self._rows, self._drained = rows, drained

    def of(self, pool: str) -> Crew:
        serving = tuple(row for row in self._rows if pool in row.pools or EVERY in row.pools)
        return Crew(self._pools.get(pool) or Pool(name=pool), serving, self._drained)

    def __iter__(self) -> Iterator[str]:
        """The pools with a setting, and those that some worker serves."""
        return iter(sorted({*self._pools, *(pool for row in self._rows for pool in row.pools)} - {EVERY}))


async def crews_of(services: Services) -> Crews:
    """The crews of the live workers."""
    rows = await live_workers(services)
    return Crews(await services.control.pools.all(), rows, await services.control.pools.drains.all())


async def obstacles(services: Services, crew: Crew, waiting: int) -> list[str]:
    """Why no worker of a pool can run its `waiting` orders: each reason once, with the number of orders it holds."""
    if not waiting:
        return []
    if (why := crew.obstacle(())) is not None:  # it holds all orders, with any needs
        return [_waiting_line(waiting, why)]
    numbers: Counter[str] = Counter()
    for needs, number in (await _waiting_needs(services, crew.pool.name)).items():
        if (why := crew.obstacle(needs)) is not None:
            numbers[why] += number
    return [_waiting_line(number, why) for why, number in numbers.items()]


def _waiting_line(number: int, why: str) -> str:
    return f"{number} {'order waits' if number == 1 else 'orders wait'}: {why}"


async def _waiting_needs(services: Services, pool: str) -> Counter[Needs]:
    """How many orders of a pool wait, by the tool kinds they need: of the first ones by their executions, of the
    others as far as it was computed when they were offered."""
    executions = services.control.executions
    rows = await services.store.claimable(now=services.clock.now(), limit=_LOOKED_AT, pools=[pool])
    ids = list(dict.fromkeys(row.execution_id for row in rows))
    states = await asyncio.gather(*map(executions.execution, ids), return_exceptions=True)
    # An execution that cannot be loaded is in quarantine: its orders wait for no worker.
    loaded = {
        execution_id: state
        for execution_id, state in zip(ids, states, strict=True)
        if isinstance(state, LoadedExecution)
    }
    known = [(row.order_id, loaded[row.execution_id]) for row in rows if row.execution_id in loaded]
    numbers = Counter(needs_of(state.plan, state.execution, order_id) for order_id, state in known)
    offered = services.control.decisions.ready.needed.items()
    # `|` takes the larger number: both count the same orders, from two sources.
    return numbers | Counter({needs: number for (own, needs), number in offered if own == pool})


async def obstacles_of(services: Services, execution: Execution) -> list[str]:
    """Why no worker takes the ready orders of an execution, each reason once."""
    now = services.clock.now()
    waiting = [row for row in await services.store.orders(execution.execution_id) if row.is_claimable(now)]
    if not waiting:
        return []
    plan, crews = await services.control.executions.plan(execution.origin.net_hash), await crews_of(services)
    reasons = {crews.of(row.pool).obstacle(needs_of(plan, execution, row.order_id)) for row in waiting}
    return sorted(why for why in reasons if why is not None)
