"""A long poll receives orders that a batch makes ready, in the commit of that batch (performance.md §2, SRV-05)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

import pytest

from noetl.base.errors import BackendError
from noetl.events.orders import Order, Turn
from noetl.store.contract import Commit
from tests.control.control_plane import ControlPlane, Counting


async def present() -> bool:
    return False


async def gone() -> bool:
    return True


class Slow(Counting):
    """A store whose commits can be held up."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_go = asyncio.Event(), asyncio.Event()
        self.may_go.set()

    async def commit(self, commits: Sequence[Commit]) -> None:
        self.begun.set()
        await self.may_go.wait()
        await super().commit(commits)


def waiting(
    control_plane: ControlPlane,
    wakeups: Awaitable[bool] | None = None,
    *,
    worker_id: str = "w1",
    capacity: int = 1,
    is_gone: bool = False,
) -> asyncio.Task[tuple[Order, ...]]:
    turn = Turn(worker_id=worker_id, capacity=capacity)
    silent: Awaitable[bool] = wakeups or asyncio.get_running_loop().create_future()
    return asyncio.create_task(control_plane.for_workers.polls.wait(turn, gone if is_gone else present, silent))


async def test_a_start_and_its_first_claim_by_a_waiting_poll_are_one_commit() -> None:
    control_plane = ControlPlane(shared=True)
    poll = waiting(control_plane)
    await asyncio.sleep(0)

    await control_plane.start()

    [order] = await poll
    assert (order.step, order.lease_epoch) == ("start", 1)
    assert len(control_plane.store.commits) == 1
    assert (await control_plane.turn(worker_id="w2")).orders == (), "it is offered to nobody else"


async def test_every_poll_receives_as_many_orders_as_it_requests() -> None:
    control_plane = ControlPlane(shared=True)
    polls = waiting(control_plane, capacity=2), waiting(control_plane, worker_id="w2", capacity=2)
    await asyncio.sleep(0)

    await asyncio.gather(*(control_plane.start(execution_id=f"x{n}") for n in range(5)))

    first, second = await polls[0], await polls[1]
    assert [len(first), len(second)] == [2, 2]
    [left] = (await control_plane.turn(capacity=5)).orders
    assert {one.execution_id for one in (*first, *second, left)} == {f"x{n}" for n in range(5)}


async def test_a_poll_of_a_disconnected_worker_receives_nothing() -> None:
    control_plane = ControlPlane(shared=True)
    poll = waiting(control_plane, is_gone=True)
    await asyncio.sleep(0)

    await control_plane.start()

    assert not poll.done()
    assert (await control_plane.claim()).step == "start"
    poll.cancel()


@pytest.mark.req("SRV-05")
async def test_a_poll_receives_no_orders_of_a_failed_commit() -> None:
    control_plane = ControlPlane(shared=True)
    poll = waiting(control_plane)
    await asyncio.sleep(0)
    control_plane.store.broken += [BackendError("the disk is full")] * 3

    with pytest.raises(BackendError, match="disk is full"):
        await control_plane.start()

    assert not poll.done()
    control_plane.store.broken.clear()
    await control_plane.start(execution_id="x2")
    assert [order.execution_id for order in await poll] == ["x2"]


@pytest.mark.req("SRV-05")
async def test_a_poll_that_times_out_during_a_commit_still_returns_its_orders() -> None:
    """They are stored under its worker's lease: an empty answer would leave them with nobody until that runs out."""
    store = Slow()
    control_plane = ControlPlane(store, shared=True)
    wakeups: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    poll = waiting(control_plane, wakeups)
    await asyncio.sleep(0)
    store.may_go.clear()
    starting = asyncio.create_task(control_plane.start())
    await store.begun.wait()

    wakeups.set_result(False)
    await asyncio.sleep(0.01)
    assert not poll.done()
    store.may_go.set()

    await starting
    assert [order.step for order in await poll] == ["start"]


async def test_a_wake_up_ends_a_poll_without_orders() -> None:
    """Whoever waits then claims by itself: the order came from elsewhere."""
    control_plane = ControlPlane(shared=True)
    wakeups: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    poll = waiting(control_plane, wakeups)
    wakeups.set_result(True)

    assert await poll == ()
