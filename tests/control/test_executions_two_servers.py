"""Two servers on one PostgreSQL: each tries everything, and everything happens once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import SettledError
from noetl.control.schedules import Schedules, ScheduleStore
from noetl.events.waits import MessageReceived
from noetl.net.net import content_hash, to_json
from noetl.store.installation import Registration
from noetl.store.postgres.store import PostgresStore
from noetl.store.waits import MessageRow
from tests.contracts.stores import fresh_url
from tests.control.waiting import MESSAGE, SIGNAL, TASK, TIMER, ControlPlane
from tests.engine_script import HEAD, net_of
from tests.narrowing import payloads

Servers = tuple[ControlPlane, ControlPlane]


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    url, clock = fresh_url(), ManualClock()
    stores = [await PostgresStore.open(url) for _ in range(2)]
    yield ControlPlane(stores[0], clock, shared=True), ControlPlane(stores[1], clock, shared=True)
    for store in stores:
        await store.close()


async def count(control_plane: ControlPlane, event_type: str, *ids: str) -> list[int]:
    return [(await control_plane.types(one)).count(event_type) for one in ids]


@pytest.mark.req("TMR-06")
async def test_timers_fire_once(servers: Servers) -> None:
    one, other = servers
    ids = [f"x{n}" for n in range(20)]
    await one.start(TIMER, *ids)
    one.clock.advance(4000)

    await asyncio.gather(one.timer_queue.wake_due(), other.timer_queue.wake_due())

    assert await count(other, "timer.fired", *ids) == [1] * 20
    assert await other.timer_queue.wake_due() == 0


@pytest.mark.req("MSG-02")
async def test_messages_are_delivered_once(servers: Servers) -> None:
    one, other = servers
    ids = [f"x{n}" for n in range(10)]
    await one.start(MESSAGE, *ids)
    for number in range(6):
        row = MessageRow(
            message_id=f"m{number}", name="paid", correlation={"order": 7}, sent_at=float(number), expires_at=9e9
        )
        await one.store.waits.keep(row)

    await asyncio.gather(one.message_queue.sweep(), other.message_queue.sweep())

    received: list[Any] = []
    for execution_id in ids:
        events = await one.store.events(execution_id)
        received += [one.message_id for one in payloads(events, MessageReceived)]
    assert sorted(received) == [f"m{number}" for number in range(6)]


@pytest.mark.req("MSG-02")
async def test_a_message_sent_twice_at_once_is_delivered_once(servers: Servers) -> None:
    one, other = servers
    await one.start(MESSAGE, "x1", "x2")

    sent = await asyncio.gather(
        *(control_plane.deliveries.send_message("paid", {"order": 7}, message_id="m1") for control_plane in servers)
    )

    assert {one.delivered_to for one in sent} == {"x1"}
    assert await count(other, "message.received", "x1", "x2") == [1, 0]


@pytest.mark.req("MSG-05")
async def test_a_broadcast_reaches_executions_started_on_the_other_server(servers: Servers) -> None:
    one, other = servers
    await one.start(SIGNAL, "x1", "x2")
    await other.start(SIGNAL, "x3")

    assert sorted(await other.deliveries.send_signal("stop")) == ["x1", "x2", "x3"]


@pytest.mark.req("HUM-02")
async def test_a_task_is_completed_by_one_of_two_servers(servers: Servers) -> None:
    one, other = servers
    await one.start(TASK)
    [task] = await other.inbox.list()

    done = await asyncio.gather(
        *(
            control_plane.inbox.complete(task.task_id, {"decision": "yes_please"}, actor=who, roles=["boss"])
            for control_plane, who in zip(servers, ("ann", "bob"), strict=True)
        ),
        return_exceptions=True,
    )

    assert sum(isinstance(answer, SettledError) for answer in done) == 1
    assert await count(one, "task.completed", "x1") == [1]


@pytest.mark.req("TMR-01")
async def test_a_schedule_starts_one_execution_for_each_time(servers: Servers) -> None:
    one, other = servers
    trigger = 'trigger: {timer: {cron: "0 * * * *"}}\n'
    net = net_of(HEAD + trigger + "workflow: [{step: start, tool: {kind: noop}}]\n")
    row = await one.store.catalog.register(
        Registration(path=net.path, net_hash=content_hash(net), net=to_json(net), at=one.clock.now())
    )
    await ScheduleStore(one.store.key_values).enter(net, row, at=one.clock.now())
    clockworks = [
        Schedules(control_plane.store, control_plane.executions, control_plane.clock) for control_plane in (one, other)
    ]

    for _ in range(5):
        one.clock.advance(3600)
        await asyncio.gather(*(background_jobs.turn() for background_jobs in clockworks))

    rows = await other.store.executions(limit=100)
    assert [row.status for row in rows] == ["completed"] * 5
