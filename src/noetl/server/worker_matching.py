"""Who of the workers at hand could run what waits, and in plain words why nobody does (SRV-08, beyond.md)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator

import msgspec

from noetl.control.claiming.order_needs import needs_of
from noetl.control.claiming.pools import EVERY, Pool
from noetl.control.claiming.ready_orders import Needs
from noetl.control.claiming.worker_abilities import labels_text
from noetl.control.commit.loaded_executions import LoadedExecution
from noetl.engine.execution import Execution
from noetl.server.services import Services
from noetl.server.workers import LIVE_S, WorkerRow, ability_of
from noetl.store.contract import OrderState

_LOOKED_AT = 100  # of the orders that wait in a pool: their executions have to be read


class Crew(msgspec.Struct, frozen=True):
    """The live workers that name a pool, or every pool. `fit` are those that carry the labels it requires."""

    pool: Pool
    rows: tuple[WorkerRow, ...]

    @property
    def fit(self) -> list[WorkerRow]:
        return [row for row in self.rows if ability_of(row).carries(self.pool.require)]

    @property
    def kinds(self) -> list[str] | None:
        """The tool kinds that they run, all together; None where one of them did not say."""
        said = [row.kinds for row in self.fit]
        return sorted({kind for kinds in said for kind in kinds}) if all(said) else None

    def obstacle(self, needs: Collection[str]) -> str | None:
        """Why no order that needs these kinds is taken; None where somebody can take it."""
        name, required = self.pool.name, labels_text(self.pool.require)
        if not self.rows:
            labels = "".join(f" --label {key}={value}" for key, value in sorted(self.pool.require.items()))
            return f'no worker serves the pool "{name}": noetl worker start --pool {name}{labels}'
        if not self.fit:
            carried = "; ".join(labels_text(row.labels) or "none" for row in self.rows)
            return f'no worker of pool "{name}" carries {required}, which it requires; workers there carry: {carried}'
        if any(ability_of(row).runs(frozenset(needs)) for row in self.fit):
            return None
        runs = ", ".join(self.kinds or ()) or "nothing"
        if missing := sorted(set(needs).difference(self.kinds or ())):
            return f'no worker of pool "{name}" runs kind {", ".join(missing)}; workers there run: {runs}'
        return f'no one worker of pool "{name}" runs all of {", ".join(sorted(needs))}; workers there run: {runs}'


class Crews:
    """As of one moment."""

    def __init__(self, pools: Collection[Pool], rows: Collection[WorkerRow]) -> None:
        self._pools = {pool.name: pool for pool in pools}
        self._rows = rows

    def of(self, pool: str) -> Crew:
        serving = tuple(row for row in self._rows if pool in row.pools or EVERY in row.pools)
        return Crew(self._pools.get(pool) or Pool(name=pool), serving)

    def __iter__(self) -> Iterator[str]:
        """The pools with a setting, and those that some worker serves."""
        return iter(sorted({*self._pools, *(pool for row in self._rows for pool in row.pools)} - {EVERY}))


async def crews_of(services: Services) -> Crews:
    """The workers that were heard of within the last minute."""
    now = services.clock.now()
    rows = [row for row in await services.roster.list() if now - row.last_seen < LIVE_S]
    return Crews(await services.control.pools.all(), rows)


async def obstacles(services: Services, crew: Crew, waiting: int) -> list[str]:
    """Why nobody there can run what waits in a pool, `waiting` orders: each reason once, with how many wait for it."""
    if not waiting:
        return []
    if (why := crew.obstacle(())) is not None:  # whatever they need
        return [_waiting_line(waiting, why)]
    numbers: Counter[str] = Counter()
    for needs, number in (await _needed(services, crew.pool.name)).items():
        if (why := crew.obstacle(needs)) is not None:
            numbers[why] += number
    return [_waiting_line(number, why) for why, number in numbers.items()]


def _waiting_line(number: int, why: str) -> str:
    return f"{number} {'order waits' if number == 1 else 'orders wait'}: {why}"


async def _needed(services: Services, pool: str) -> Counter[Needs]:
    """How many orders of a pool wait for whoever runs these kinds: of the first ones as their executions say, of the
    others as far as it was found out when they were offered."""
    executions = services.control.executions
    rows = await services.store.claimable(now=services.clock.now(), limit=_LOOKED_AT, pools=[pool])
    ids = list(dict.fromkeys(row.execution_id for row in rows))
    found = await asyncio.gather(*map(executions.execution, ids), return_exceptions=True)
    # An execution that cannot be loaded is in quarantine: its orders wait for nobody.
    loaded = {one: state for one, state in zip(ids, found, strict=True) if isinstance(state, LoadedExecution)}
    known = [(row.order_id, loaded[row.execution_id]) for row in rows if row.execution_id in loaded]
    numbers = Counter(needs_of(state.plan, state.execution, order_id) for order_id, state in known)
    offered = services.control.decisions.ready.needed.items()
    return numbers | Counter({needs: number for (own, needs), number in offered if own == pool})


async def obstacles_of(services: Services, execution: Execution) -> list[str]:
    """Why nobody takes orders of it that are ready, each reason once."""
    waiting = [row for row in await services.store.orders(execution.execution_id) if row.state is OrderState.READY]
    if not waiting:
        return []
    plan, crews = await services.control.executions.plan(execution.origin.net_hash), await crews_of(services)
    found = {crews.of(row.pool).obstacle(needs_of(plan, execution, row.order_id)) for row in waiting}
    return sorted(why for why in found if why is not None)
