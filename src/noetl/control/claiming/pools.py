"""Pools: which workers may take orders of a pool, how many at once, and how many in a period (SRV-08, design.md §8).
Also drains: workers that get no new orders.

The settings are in the key-value table, so that every server knows them and they can be changed while it runs. The
store itself enforces a capacity: it refuses a commit that would go beyond it (`PoolCapacity`). A rate is counted in the
key-value table too; a claim books its orders there first.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import BackendError, RefusedError
from noetl.control.claiming.orders import WorkerAbilities
from noetl.store.contract import PoolCapacity, Store
from noetl.store.installation import KeyValues, each_key_value

KIND, USED = "pool", "pool-used"
KNOWN_S = 1.0  # a change is seen after at most that long
EVERY = "*"  # a worker that takes orders of every pool
# Attempts of a compare and set on one key. Ten losses in a row mean heavy contention: the caller should try later.
_TRIES = 10
# Window lengths that are counted besides the one in force. The row must not grow forever when an operator keeps
# changing the rate. The longest windows are kept, as they bind longest.
_LENGTHS = 8


class PoolRate(msgspec.Struct, frozen=True, kw_only=True):
    """At most `limit` orders in any window of `per` seconds, windows following each other."""

    limit: int
    per: float  # seconds; windows begin at multiples of it since the epoch, so all servers agree on them


class Pool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a pool by an operator."""

    name: str
    # How many orders may be leased at once, in the whole store; None: no limit.
    capacity: int | None = None
    rate: PoolRate | None = None
    # Labels: only a worker that carries all of them takes orders of the pool.
    require: dict[str, str] = {}


class _Used(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many orders were claimed in a window of `per` seconds. `others` has the same for windows of other lengths, by
    length: the rate was changed, and may be changed back."""

    window: int
    number: int
    per: float = 0.0
    others: dict[str, tuple[int, int]] = {}

    def counts(self, per: float, now: float) -> dict[float, int]:
        """The orders claimed in the current window of each length. A row of an older version has no length; it counts
        for `per`."""
        windows = {float(length): counted for length, counted in self.others.items()}
        windows[self.per or per] = self.window, self.number
        return {length: number * (window == _window(length, now)) for length, (window, number) in windows.items()}

    @classmethod
    def of(cls, per: float, counts: dict[float, int], now: float) -> _Used:
        longest = sorted(counts.keys() - {per})[-_LENGTHS:]
        others = {str(length): (_window(length, now), counts[length]) for length in longest}
        return cls(_window(per, now), counts[per], per, others)


def _window(per: float, now: float) -> int:
    return int(now // per)


_used = msgspec.json.Decoder(_Used)


class PoolLimit:
    """How many orders of each pool may still be claimed in one turn of a worker."""

    def __init__(self, left: dict[str, int | None]) -> None:
        # By pool; None: no limit.
        self._left = left

    @property
    def open(self) -> set[str]:
        return {pool for pool, left in self._left.items() if left is None or left > 0}

    def count_claimed(self, pool: str, number: int = 1) -> None:
        left = self._left[pool]
        if left is not None:
            self._left[pool] = left - number


class Pools:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self.drains = Drains(store.key_values, clock)  # workers that take orders of no pool at the moment
        self._known: dict[str, Pool] = {}
        # None: read them again at the next claim.
        self._known_at: float | None = None

    async def all(self) -> list[Pool]:
        """The pools with settings, by name."""
        return [msgspec.json.decode(one.body, type=Pool) async for one in each_key_value(self._store.key_values, KIND)]

    async def get(self, name: str) -> Pool:
        thing = await self._store.key_values.get(KIND, name)
        return msgspec.json.decode(thing.body, type=Pool) if thing else Pool(name=name)

    async def put(self, pool: Pool) -> None:
        """Change the settings of a pool for all servers. Orders that are leased already stay so."""
        _check(pool)
        for _ in range(_TRIES):
            thing = await self._store.key_values.get(KIND, pool.name)
            version, now = thing.version if thing else 0, self._clock.now()
            body = msgspec.json.encode(pool)
            if await self._store.key_values.put(KIND, pool.name, body, over=version, at=now) is not None:
                self._known_at = None
                return
        raise BackendError(f'pool "{pool.name}" is being changed by others: try again')

    async def closed_to(self, ability: WorkerAbilities) -> set[str]:
        """The pools whose required labels the worker lacks."""
        return {name for name, pool in (await self._settings()).items() if not ability.carries(pool.require)}

    async def gate(self, names: Collection[str], wanted: int) -> tuple[PoolLimit, dict[str, PoolCapacity]]:
        """How many orders of these pools may be claimed, at most `wanted` of each, and the capacities that the store
        enforces in the commit."""
        now, known = self._clock.now(), await self._settings()
        capped = [name for name in names if name in known and known[name].capacity is not None]
        held = await self._store.leased(now=now, pools=capped) if capped else {}
        left: dict[str, int | None] = {}
        rooms: dict[str, PoolCapacity] = {}
        for name in names:
            pool = known.get(name) or Pool(name=name)
            number = wanted
            if pool.capacity is not None:
                rooms[name] = PoolCapacity(name, pool.capacity, now)
                number = min(number, max(0, pool.capacity - held[name]))
            if pool.rate is not None and number:
                number = await self._book_orders(pool.name, pool.rate, number, now)
            # A pool without a setting has no limit at all, not even `wanted`.
            left[name] = number if name in known else None
        return PoolLimit(left), rooms

    async def _settings(self) -> dict[str, Pool]:
        now = self._clock.now()
        # The lower bound: after the clock was set back, old settings would otherwise stay until it catches up.
        if self._known_at is None or not 0 <= now - self._known_at < KNOWN_S:
            self._known = {pool.name: pool for pool in await self.all()}
            self._known_at = now
        return self._known

    async def _book_orders(self, name: str, rate: PoolRate, wanted: int, now: float) -> int:
        """Book up to `wanted` orders in the current window; returns how many were free."""
        # Compare and set: another server may book at the same time.
        for _ in range(_TRIES):
            thing = await self._store.key_values.get(USED, name)
            counts = {rate.per: 0} | (_used.decode(thing.body).counts(rate.per, now) if thing else {})
            number = min(wanted, rate.limit - counts[rate.per])
            if number <= 0:
                return 0
            # Counted for windows of other lengths too: changing the rate and back must not give a fresh allowance.
            booked = {length: before + number for length, before in counts.items()}
            body, version = msgspec.json.encode(_Used.of(rate.per, booked, now)), thing.version if thing else 0
            if await self._store.key_values.put(USED, name, body, over=version, at=now) is not None:
                return number
        return 0  # other servers were faster; the next turn comes soon


def _check(pool: Pool) -> None:
    if pool.capacity is not None and pool.capacity < 0:
        raise RefusedError(f'pool "{pool.name}": a capacity is 0 or more, found {pool.capacity}')
    if pool.rate is not None and (pool.rate.limit < 1 or pool.rate.per <= 0):
        raise RefusedError(f'pool "{pool.name}": a rate is at least 1 order in more than 0 seconds')
    if not all(pool.require):
        raise RefusedError(f'pool "{pool.name}": a label that is required has a name')


# A drain is a row of the key-value table, so that every server keeps it, and it outlasts the worker's connection and a
# restart of the server. It is kept apart from the roster, which each server writes again with every heartbeat.
DRAIN_KIND = "worker-drain"
DRAIN_KNOWN_S = 1.0  # a drain that began on another server is seen after at most that long
KEPT_S = 7 * 86_400.0  # the id of a worker changes with its name and token, so old drains concern no worker any more


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """Since when a worker gets no new orders, and who asked for it."""

    worker_id: str
    since: float
    by: str = ""


class Drains:
    """The workers that get no new orders."""

    def __init__(self, key_values: KeyValues, clock: Clock) -> None:
        self._key_values, self._clock = key_values, clock
        self._known: dict[str, Drain] = {}
        self._known_at: float | None = None

    async def all(self) -> dict[str, Drain]:
        """All drains by worker, at most a second old."""
        now = self._clock.now()
        if self._known_at is None or not 0 <= now - self._known_at < DRAIN_KNOWN_S:
            rows = [row async for row in each_key_value(self._key_values, DRAIN_KIND)]
            self._known = {row.name: msgspec.json.decode(row.body, type=Drain) for row in rows}
            self._known_at = now
        return self._known

    def holds(self, worker_id: str) -> bool:
        """Whether a worker is drained, from memory only; `all` reads the store."""
        return worker_id in self._known

    async def begin(self, worker_id: str, *, by: str) -> Drain:
        """Drain a worker on all servers. It finishes the orders that it holds. Draining it twice changes nothing."""
        now = self._clock.now()
        await self._key_values.sweep(DRAIN_KIND, before=now - KEPT_S)
        drain = Drain(worker_id=worker_id, since=now, by=by)
        # Refused if the worker is drained already: the first drain stays.
        await self._key_values.put(DRAIN_KIND, worker_id, msgspec.json.encode(drain), over=0, at=now)
        self._known_at = None
        return (await self.all()).get(worker_id, drain)

    async def end(self, worker_id: str) -> bool:
        """Let a worker get orders again; False when it was not drained."""
        self._known_at = None
        return await self._key_values.delete(DRAIN_KIND, worker_id)
