"""Pools: who may take an order, and how many of them at once, across all servers (SRV-08)."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import RefusedError
from noetl.control.claiming.pools import Pool, PoolRate, Pools
from noetl.events.orders import Order
from noetl.events.steps import StepScheduled
from noetl.store.memory import MemoryStore
from tests.control.control_plane import CHAIN, ControlPlane
from tests.control.servers import BACKENDS, servers
from tests.engine_script import Conversation, net_of

FIVE = """
workload: {where: gpu}
EXECUTOR
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}, {step: d}, {step: e}]}
  - {step: a, tool: {kind: python, code: x}}
  - {step: b, tool: {kind: python, code: x}}
  - {step: c, tool: {kind: python, code: x}}
  - {step: d, tool: {kind: python, code: x}}
  - {step: e, tool: {kind: python, code: x}}
"""
PLAIN = FIVE.replace("EXECUTOR", "")
CHOSEN = """
workload: {where: gpu}
executor: {kind: distributed, spec: {pool: slow}}
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}
  - {step: a, spec: {pool: "{{ workload.where }}"}, tool: {kind: python, code: x}}
  - {step: b, tool: {kind: python, code: x}}
  - step: c
    spec: {pool: gpu}
    loop: {in: [1, 2], iterator: item, spec: {mode: parallel, max_in_flight: 2}}
    tool: {kind: python, code: x}
"""


async def test_all_pools_are_listed_over_many_pages() -> None:
    """A page of the key-value table has at most 1,000 entries."""
    pools = Pools(MemoryStore(), ManualClock())
    for number in range(1_001):
        await pools.put(Pool(name=f"p{number}", capacity=1))

    assert len(await pools.all()) == 1_001


@pytest.mark.req("SRV-08")
@pytest.mark.parametrize("backend", BACKENDS)
async def test_the_number_of_leased_orders_never_exceeds_the_capacity_of_the_pool(backend: str, tmp_path: Path) -> None:
    """Five runnable step runs, two servers, a worker at each that asks for everything: never more than two claimed."""
    async with servers(backend, tmp_path) as (first, second):
        await first.pools.put(Pool(name="default", capacity=2))
        await first.start(PLAIN)
        held: list[tuple[ControlPlane, Order, str]] = []
        most = done = 0
        while done < 5:
            answers = await asyncio.gather(first.turn(capacity=5), second.turn(capacity=5, worker_id="w2"))
            held += [(first, order, "w1") for order in answers[0].orders]
            held += [(second, order, "w2") for order in answers[1].orders]
            most = max(most, len(held))
            leased = await first.store.leased(now=first.clock.now())
            assert leased.get("default", 0) == len(held) <= 2
            control_plane, order, worker_id = held.pop()
            await control_plane.turn(control_plane.done(order, worker_id=worker_id), capacity=0, worker_id=worker_id)
            done += 1
            first.clock.advance(0.11)

        assert most == 2
        row = await first.store.execution("x1")
        assert row is not None
        assert row.status == "completed"


async def test_an_expired_lease_uses_no_capacity() -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.pools.put(Pool(name="default", capacity=1))
    await control_plane.start(PLAIN)
    await control_plane.claim()
    assert (await control_plane.turn()).orders == ()
    control_plane.clock.advance(31)

    assert len((await control_plane.turn(worker_id="w2", capacity=5)).orders) == 1


async def test_a_capacity_can_be_changed_while_orders_are_leased() -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.pools.put(Pool(name="default", capacity=1))
    await control_plane.start(PLAIN)
    await control_plane.claim()
    assert (await control_plane.turn(capacity=5)).orders == ()

    other = Pools(control_plane.store, control_plane.clock)  # that of another server, or of the command line
    await other.put(Pool(name="default", capacity=3))
    control_plane.clock.advance(2)

    assert len((await control_plane.turn(capacity=5)).orders) == 2


async def test_a_pool_of_capacity_zero_is_closed() -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.pools.put(Pool(name="default", capacity=0))
    await control_plane.start(PLAIN)

    assert (await control_plane.turn(capacity=5)).orders == ()


async def test_a_rate_limit_applies_across_servers() -> None:
    clock, store = ManualClock(), MemoryStore()
    first, second = ControlPlane(store, shared=True, clock=clock), ControlPlane(store, shared=True, clock=clock)
    await first.pools.put(Pool(name="default", rate=PoolRate(limit=3, per=10.0)))
    await first.start(PLAIN)

    taken = [len((await control_plane.turn(capacity=2)).orders) for control_plane in (first, second, first, second)]
    clock.advance(10)
    later = [len((await control_plane.turn(capacity=2)).orders) for control_plane in (first, second)]

    assert taken == [2, 1, 0, 0]
    assert sum(later) == 2


async def test_changing_a_rate_and_back_keeps_the_count_of_claimed_orders() -> None:
    clock, store = ManualClock(), MemoryStore()
    pools = Pools(store, clock)

    async def taken(rate: PoolRate, wanted: int) -> int:
        await pools.put(Pool(name="p", rate=rate))
        gate, _ = await pools.gate(["p"], wanted)
        number = 0
        while "p" in gate.open:
            gate.count_claimed("p")
            number += 1
        return number

    minute, second = PoolRate(limit=6, per=60.0), PoolRate(limit=2, per=1.0)
    assert [await taken(minute, 3), await taken(second, 5), await taken(minute, 9)] == [3, 2, 1]
    clock.advance(1)
    assert [await taken(second, 1), await taken(minute, 9)] == [1, 0]
    clock.advance(59)
    assert [await taken(second, 1), await taken(minute, 9)] == [1, 5], "a minute that began meanwhile is counted, too"


async def test_a_stored_rate_without_a_window_length_is_readable() -> None:
    clock, store = ManualClock(), MemoryStore()
    body = msgspec.json.encode({"window": int(clock.now() // 10.0), "number": 2})
    await store.key_values.put("pool-used", "p", body, over=0, at=clock.now())
    pools = Pools(store, clock)
    await pools.put(Pool(name="p", rate=PoolRate(limit=3, per=10.0)))

    gate, _ = await pools.gate(["p"], 5)
    gate.count_claimed("p")

    assert gate.open == set()


@pytest.mark.req("SRV-08")
async def test_the_pool_of_a_step_is_rendered_recorded_and_stored_with_its_orders() -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.start(CHOSEN)

    rows = await control_plane.store.orders("x1")
    assert Counter(row.pool for row in rows) == {"gpu": 3, "slow": 1}
    scheduled = {
        event.step: event.payload.pool for event in control_plane.heard if isinstance(event.payload, StepScheduled)
    }
    assert scheduled == {"start": "slow", "a": "gpu", "b": "slow", "c": "gpu"}
    await control_plane.store.rebuild()
    assert Counter(row.pool for row in await control_plane.store.orders("x1")) == {"gpu": 3, "slow": 1}


@pytest.mark.req("SRV-08")
async def test_a_worker_receives_orders_of_its_pools_only() -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.start(CHOSEN)

    assert (await control_plane.turn(capacity=9)).orders == ()
    assert [one.step for one in (await control_plane.turn(capacity=9, pools=("slow",))).orders] == ["b"]
    assert sorted(one.step for one in (await control_plane.turn(capacity=9, pools=("*",))).orders) == ["a", "c", "c"]


async def test_an_embedded_run_claims_orders_of_every_pool() -> None:
    control_plane = ControlPlane()
    await control_plane.start(CHOSEN)

    assert len((await control_plane.turn(capacity=9)).orders) == 4


@pytest.mark.req("SRV-08")
@pytest.mark.parametrize(("pool", "found"), [("5", "5"), ('"a\\x00"', "'a\\x00'")])
def test_an_invalid_pool_name_fails_the_step_at_its_admission(pool: str, found: str) -> None:
    talk = Conversation(
        f"workflow: [{{step: start, spec: {{pool: '{{{{ {pool} }}}}'}}, tool: {{kind: python, code: x}}}}]",
    )
    talk.start()

    assert talk.status == "failed"
    assert talk.execution.lifecycle.error is not None
    assert f"expected the name of a pool, found {found}" in talk.execution.lifecycle.error.message


@pytest.mark.parametrize(
    "pool",
    [
        Pool(name="p", capacity=-1),
        Pool(name="p", rate=PoolRate(limit=0, per=1)),
        Pool(name="p", rate=PoolRate(limit=1, per=0)),
    ],
)
async def test_invalid_pool_settings_are_refused(pool: Pool) -> None:
    with pytest.raises(RefusedError, match='pool "p"'):
        await Pools(MemoryStore(), ManualClock()).put(pool)


async def test_a_pool_without_settings_has_no_limits() -> None:
    pools = Pools(MemoryStore(), ManualClock())

    assert await pools.get("p") == Pool(name="p")
    await pools.put(Pool(name="p", capacity=4))
    await pools.put(Pool(name="p", capacity=5))
    assert await pools.all() == [Pool(name="p", capacity=5)]


async def test_an_execution_with_many_orders_does_not_starve_others() -> None:
    control_plane = ControlPlane(shared=True)
    for name in ("x1", "x2"):
        await control_plane.start(PLAIN, execution_id=name)
    for n in range(3):
        await control_plane.executions.start(net_of(CHAIN), execution_id=f"small{n}", trace_id="t", payload={})

    claimed = [order.execution_id for order in (await control_plane.turn(capacity=10)).orders]

    assert sorted(claimed[:5]) == ["small0", "small1", "small2", "x1", "x2"]
    assert claimed[5:9] == ["x1", "x2", "x1", "x2"]
