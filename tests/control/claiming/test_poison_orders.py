"""Only the order that kills its workers is given up, not those that ran beside it (reliability.md §2.7, 3.3)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from noetl.control.claiming.poison_orders import EMPTIED_S
from noetl.engine.reports import MOST_LEASES
from noetl.events.orders import Order
from tests.control.control_plane import ControlPlane

ONE = "workflow:\n  - {step: start, tool: {kind: python, code: x}}"
TTL_S = 31


class Yard:
    """An office, and workers of four slots that die at once when they are given the poison; a fresh one comes then."""

    def __init__(self, *executions: str) -> None:
        self.control_plane, self.executions = ControlPlane(shared=True), executions
        self.deaths = 0
        self.held: list[Order] = []
        self.given: list[list[str]] = []  # what each of the workers had when it died

    async def begin(self) -> None:
        for one in self.executions:
            await self.control_plane.start(ONE, execution_id=one)

    @property
    def worker_id(self) -> str:
        return f"w{self.deaths}"

    async def turn(self, *done: Order, slots: int = 4) -> Sequence[Order]:
        reports = [self.control_plane.done(one, worker_id=self.worker_id) for one in done]
        self.held = [one for one in self.held if one not in done]
        answer = await self.control_plane.turn(*reports, capacity=slots - len(self.held), worker_id=self.worker_id)
        self.held += answer.orders
        return answer.orders

    async def die(self) -> None:
        self.given.append([one.execution_id for one in self.held])
        self.held, self.deaths = [], self.deaths + 1
        self.control_plane.clock.advance(TTL_S)
        await self.control_plane.background_jobs.lost_work.sweep()

    async def status(self, execution_id: str) -> str:
        row = await self.control_plane.store.execution(execution_id)
        assert row is not None
        return row.status


@pytest.mark.req("SRV-08", "WRK-03")
async def test_only_the_poison_order_is_given_up_and_not_its_victims() -> None:
    yard = Yard("poison", "a", "b", "c")
    await yard.begin()
    for _ in range(50):
        orders = await yard.turn()
        if any(one.execution_id == "poison" for one in orders):
            await yard.die()
        elif orders:
            await yard.turn(*orders, slots=0)
        elif await yard.status("poison") == "failed":
            break

    assert [await yard.status(one) for one in yard.executions] == ["failed", "completed", "completed", "completed"]
    assert yard.deaths == MOST_LEASES
    assert [set(one) for one in yard.given] == [set(yard.executions)] * 2 + [{"poison"}] * 3


@pytest.mark.req("SRV-08")
async def test_a_worker_with_a_suspect_order_gets_nothing_else_until_it_ends() -> None:
    yard = Yard("suspect")
    await yard.begin()
    for _ in range(2):
        await yard.turn()
        await yard.die()
    [suspect] = await yard.turn()
    await yard.control_plane.start(ONE, execution_id="other")

    assert await yard.turn() == ()
    [other] = (await yard.control_plane.turn(worker_id="another")).orders
    assert other.execution_id == "other", "others are served by others"
    await yard.control_plane.start(ONE, execution_id="third")
    [third] = await yard.turn(suspect)
    assert third.execution_id == "third"


@pytest.mark.req("SRV-08")
async def test_if_all_workers_are_busy_one_is_drained_for_a_suspect_order() -> None:
    yard = Yard("suspect")
    await yard.begin()
    for _ in range(2):
        await yard.turn()
        yard.held.clear()
        yard.deaths += 1
        yard.control_plane.clock.advance(TTL_S)
    for one in ("a", "b", "c", "d"):
        await yard.control_plane.start(ONE, execution_id=one)
    busy = await yard.turn(slots=2)
    assert len((await yard.control_plane.turn(worker_id="another", capacity=2)).orders) == 2
    await yard.control_plane.background_jobs.lost_work.sweep()
    for one in ("e", "f", "g"):
        await yard.control_plane.start(ONE, execution_id=one)

    assert {one.execution_id for one in busy} <= {"a", "b", "c", "d"}
    assert await yard.turn(busy[0], slots=2) == (), "it is the first to have room: it is emptied"
    elsewhere = (await yard.control_plane.turn(worker_id="another", capacity=1)).orders
    assert [one.execution_id for one in elsewhere] == ["e"], "one is enough"
    [suspect] = await yard.turn(busy[1], slots=2)
    assert suspect.execution_id == "suspect"


async def test_a_worker_that_goes_silent_while_drained_is_not_waited_for() -> None:
    control_plane = ControlPlane(shared=True)
    for one in ("a", "b"):
        await control_plane.start(ONE, execution_id=one)
    await control_plane.start(ONE, execution_id="suspect")
    for worker_id in ("first", "second"):
        await control_plane.turn(worker_id=worker_id)  # a and b, whose leases are prolonged below
    for victim in ("v1", "v2"):
        await control_plane.turn(worker_id=victim)
        control_plane.clock.advance(TTL_S - 2)
        for worker_id in ("first", "second"):
            [row] = await control_plane.store.held_by(worker_id)
            await control_plane.for_workers.renew(worker_id, {row.order_id: 1})
        control_plane.clock.advance(2)
    await control_plane.background_jobs.lost_work.sweep()
    for one in ("c", "d"):
        await control_plane.start(ONE, execution_id=one)

    assert (await control_plane.turn(worker_id="first")).orders == ()
    [taken] = (await control_plane.turn(worker_id="second")).orders
    control_plane.clock.advance(EMPTIED_S + 1)
    assert (await control_plane.turn(worker_id="second")).orders == (), "now it is this one that is emptied"
    [suspect] = (await control_plane.turn(worker_id="third")).orders
    assert (taken.execution_id, suspect.execution_id) == ("c", "suspect"), "whoever is free has it at once"


@pytest.mark.req("SRV-08", "WRK-03")
async def test_a_worker_that_silently_drops_its_suspect_order_gets_orders_again() -> None:
    """It lives on under its name, so nobody takes its place: a lone worker would be given nothing ever after."""
    control_plane = ControlPlane(shared=True)
    await control_plane.start(ONE, execution_id="suspect")
    for _ in range(3):
        [order] = (await control_plane.turn()).orders
        assert order.execution_id == "suspect"
        control_plane.clock.advance(TTL_S)
        await control_plane.background_jobs.lost_work.sweep()
    await control_plane.start(ONE, execution_id="other")

    given: list[str] = []
    for _ in range(2):
        orders = (await control_plane.turn()).orders
        given += [one.execution_id for one in orders]
        await control_plane.turn(*map(control_plane.done, orders), capacity=0)

    assert given == ["suspect", "other"]
