"""What all wake-ups promise: a waiter is woken for its pools, in this process or another; wake-ups may be lost."""

from __future__ import annotations

import asyncio

import pytest

from noetl.store import nats_wakeups
from noetl.store import wakeups as wakeups_module
from noetl.store.wakeups import Wakeups
from tests.store.linked_wakeups import KINDS, LINKED, linked_wakeups

SHORT_S, LONG_S = 0.05, 60.0
kinds = pytest.mark.parametrize("kind", KINDS)
linked = pytest.mark.parametrize("kind", LINKED)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No link is given up because a busy machine stood still for some seconds: what it had to carry may be lost then,
    and a wake-up that is sent once would be lost."""
    for kind in (nats_wakeups, wakeups_module):
        monkeypatch.setattr(kind, "_PATIENCE_S", 60.0)


async def heard(wakeups: Wakeups, *pools: str, within: float = LONG_S) -> bool:
    return await wakeups.wait(pools or None, timeout=within)


@kinds
async def test_a_waiter_is_woken_from_any_process(kind: str) -> None:
    async with linked_wakeups(kind) as (near, far):
        waiting = asyncio.create_task(heard(near, "default"))
        await asyncio.sleep(0)
        far.notify_workers()
        assert await waiting


@kinds
async def test_a_wake_up_without_a_waiter_is_kept_for_the_next_one(kind: str) -> None:
    async with linked_wakeups(kind) as (near, far):
        far.notify_workers(9)
        assert await heard(near, "default")
        times = 1
        while await heard(near, "default", within=SHORT_S):
            times += 1
        assert times <= 2, "those that came when nobody waited are remembered as one"


@kinds
async def test_a_wake_up_is_for_its_pool_and_for_waiters_of_any_pool(kind: str) -> None:
    async with linked_wakeups(kind) as (near, far):
        gpu = asyncio.create_task(heard(near, "gpu", "tpu"))
        default = asyncio.create_task(heard(near, "default", within=LONG_S))
        await asyncio.sleep(0)
        far.notify_workers(pool="tpu")
        assert await gpu
        assert not default.done()
        far.notify_workers(pool="a name. of * words")
        assert await heard(near, "*")
        far.notify_workers()
        assert await default


@kinds
async def test_a_wake_up_wakes_the_given_number_of_waiters(kind: str) -> None:
    async with linked_wakeups(kind) as (near, far):
        waiting = {asyncio.create_task(heard(near, "default")) for _ in range(4)}
        await asyncio.sleep(0)
        far.notify_workers(3)
        async with asyncio.timeout(LONG_S):
            while len([one for one in waiting if one.done()]) < 3:
                await asyncio.sleep(0.001)
        assert sum(one.done() for one in waiting) == 3
        far.notify_workers()
        assert await asyncio.gather(*waiting) == [True] * 4


@kinds
async def test_a_waiter_that_timed_out_consumes_no_wake_up(kind: str) -> None:
    async with linked_wakeups(kind) as (near, far):
        assert not await heard(near, "default", within=0.001)
        gone = asyncio.create_task(heard(near, "default"))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait({gone})
        stays = asyncio.create_task(heard(near, "default"))
        await asyncio.sleep(0)
        far.notify_workers()
        assert await stays


@linked
async def test_a_wake_up_consumed_locally_is_not_sent(kind: str) -> None:
    async with linked_wakeups(kind) as (near, far):
        here = asyncio.create_task(heard(near, "default"))
        await asyncio.sleep(0)
        near.notify_workers()
        assert await here
        assert not await heard(far, "default", within=0.2)


@linked
async def test_a_link_does_not_receive_its_own_wake_ups(kind: str) -> None:
    async with linked_wakeups(kind) as (near, far):
        near.notify_workers()
        assert await heard(far, "default"), "it went out"
        assert await heard(near, "default"), "and is remembered here, once"
        assert not await heard(near, "default", within=0.2)
