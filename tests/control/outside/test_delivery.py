"""Deliveries: messages reach one waiter, signals all of them, whatever ends in between (MSG, O-16, O-26)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import BackendError, InvalidError, NotFoundError, RefusedError, SettledError
from noetl.control.outside import delivery, messages
from noetl.engine.commands import CancelExecution, PauseExecution, ResumeExecution
from noetl.events.waits import MessageReceived
from noetl.operations.embedded import RunResult, driving
from noetl.store.memory import MemoryStore
from noetl.store.sqlite.store import SqliteStore
from noetl.store.waits import MessageRow
from tests.control.waiting import LISTENING, MESSAGE, SIGNAL, TIMER, ControlPlane
from tests.engine_script import playbook
from tests.fixtures.virtual_time import LoopClock, run_virtually
from tests.narrowing import payloads, present


def message(number: int, **correlation: Any) -> MessageRow:
    return MessageRow(
        message_id=f"m{number}", name="paid", correlation=correlation, sent_at=number, expires_at=9e9, payload=number
    )


async def received(control_plane: ControlPlane, execution_id: str = "x1") -> list[Any]:
    events = await control_plane.store.events(execution_id)
    return [one.payload for one in payloads(events, MessageReceived)]


@pytest.fixture(params=["memory", "sqlite"])
async def control_plane(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    store = MemoryStore() if request.param == "memory" else SqliteStore.open(tmp_path / "s.db")
    yield ControlPlane(store, shared=True)
    await store.close()


@pytest.mark.req("MSG-01")
async def test_a_message_continues_the_execution_with_its_correlation(control_plane: ControlPlane) -> None:
    await control_plane.start(MESSAGE)

    other = await control_plane.deliveries.send_message("paid", {"order": 8})
    unnamed = await control_plane.deliveries.send_message("billed", {"order": 7})
    right = await control_plane.deliveries.send_message("paid", {"order": 7, "customer": "ann"}, {"sum": 5})

    assert (other.delivered_to, unnamed.delivered_to, right.delivered_to) == (None, None, "x1")
    assert await control_plane.status() == "completed"
    assert await received(control_plane) == [{"sum": 5}]


@pytest.mark.req("MSG-01")
@pytest.mark.parametrize("order", ["7", 7.5, True, None, [7]])
async def test_a_correlation_matches_by_type_too(order: Any) -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.start(MESSAGE)

    assert (await control_plane.deliveries.send_message("paid", {"order": order})).delivered_to is None


@pytest.mark.req("MSG-02")
async def test_two_messages_for_two_waits_are_delivered_oldest_first(control_plane: ControlPlane) -> None:
    await control_plane.start(MESSAGE, "x1", "x2")

    first = await control_plane.deliveries.send_message("paid", {"order": 7}, 1)
    second = await control_plane.deliveries.send_message("paid", {"order": 7}, 2)

    assert (first.delivered_to, second.delivered_to) == ("x1", "x2")
    assert await received(control_plane, "x1") == [1]
    assert await received(control_plane, "x2") == [2]


@pytest.mark.req("MSG-02")
async def test_a_message_sent_again_with_its_id_changes_nothing(control_plane: ControlPlane) -> None:
    await control_plane.start(MESSAGE, "x1", "x2")

    first = await control_plane.deliveries.send_message("paid", {"order": 7}, 1, message_id="m1")
    again = await control_plane.deliveries.send_message("paid", {"order": 7}, 1, message_id="m1")

    assert (first.delivered_to, first.known) == ("x1", False)
    assert (again.delivered_to, again.known) == ("x1", True)
    assert await control_plane.status("x2") == "running"
    with pytest.raises(SettledError, match="another message was sent as m1"):
        await control_plane.deliveries.send_message("paid", {"order": 7}, 2, message_id="m1")


@pytest.mark.req("MSG-02")
async def test_a_stored_message_that_was_not_delivered_is_delivered_on_resending(
    control_plane: ControlPlane,
) -> None:
    """Its sender's process ended between the two, and tries again."""
    await control_plane.start(MESSAGE)
    await control_plane.store.waits.keep(message(1, order=7))

    again = await control_plane.deliveries.send_message("paid", {"order": 7}, 1, message_id="m1")

    assert (again.delivered_to, again.known) == ("x1", True)


@pytest.mark.req("MSG-03")
async def test_a_message_without_a_wait_is_stored_for_a_later_wait(control_plane: ControlPlane) -> None:
    await control_plane.deliveries.send_message("paid", {"order": 7}, 1)
    await control_plane.deliveries.send_message("paid", {"order": 7}, 2)

    serving = asyncio.create_task(control_plane.message_queue.serve())
    await control_plane.start(MESSAGE)
    await until(lambda: control_plane.status(), "completed")
    serving.cancel()

    assert await received(control_plane) == [1], "the oldest, and only one"


async def test_a_playbook_takes_no_message_older_than_its_limit(control_plane: ControlPlane) -> None:
    old, new = message(1, order=7), message(2, order=7)
    now = control_plane.clock.now()
    for row, age_s in ((old, 3_601.0), (new, 3_500.0)):
        await delivery.keep(control_plane.store, msgspec.structs.replace(row, sent_at=now - age_s))

    await control_plane.start("executor: {spec: {policy: {limits: {message_ttl: 1h}}}}\n" + MESSAGE)
    await control_plane.message_queue.sweep()

    assert await received(control_plane) == [2]
    kept = await control_plane.store.waits.message("m1")
    assert kept is not None
    assert kept.taken_by is None, "a step of another playbook may take it"


@pytest.mark.req("MSG-03")
async def test_a_message_is_stored_until_it_expires(control_plane: ControlPlane) -> None:
    await control_plane.deliveries.send_message("paid", {"order": 7}, ttl_s=60)
    control_plane.clock.advance(61)
    await control_plane.start(MESSAGE)

    await control_plane.message_queue.sweep()

    assert await control_plane.status() == "running"
    control_plane.clock.advance(messages.DISCARD_S)
    await control_plane.message_queue.sweep()
    assert await control_plane.store.waits.discard(before=9e9) == 0, "it is gone"


@pytest.mark.req("MSG-02", "MSG-03")
async def test_a_sweep_matches_messages_and_waits_that_missed_each_other(control_plane: ControlPlane) -> None:
    await control_plane.start(MESSAGE, "x1", "x2", "x3")
    for number in (1, 2):
        await control_plane.store.waits.keep(message(number, order=7, extra=number))

    await control_plane.message_queue.sweep()

    assert [await control_plane.status(one) for one in ("x1", "x2", "x3")] == ["completed", "completed", "running"]
    assert [await received(control_plane, one) for one in ("x1", "x2")] == [[1], [2]]


async def test_an_unreadable_execution_does_not_delay_messages_of_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.start(MESSAGE, "x1", "x2")
    told = control_plane.executions.submit

    async def tell(execution_id: str, command: Any) -> Any:
        if execution_id == "x1":
            raise BackendError("execution x1 cannot be read")
        return await told(execution_id, command)

    monkeypatch.setattr(control_plane.executions, "submit", tell)
    await control_plane.store.waits.keep(message(1, order=7))

    await control_plane.message_queue.sweep()

    assert await control_plane.status("x2") == "completed"
    assert "message m1 was not delivered to x1" in caplog.text


@pytest.mark.req("MSG-02")
async def test_two_servers_deliver_a_message_once(tmp_path: Path) -> None:
    clock = ManualClock()
    offices = [ControlPlane(SqliteStore.open(tmp_path / "s.db"), clock, shared=True) for _ in range(2)]
    await offices[0].start(MESSAGE, *(f"x{n}" for n in range(10)))
    for number in range(5):
        await offices[0].store.waits.keep(message(number, order=7))

    await asyncio.gather(*(control_plane.message_queue.sweep() for control_plane in offices))

    taken = [one for n in range(10) for one in await received(offices[0], f"x{n}")]
    assert sorted(taken) == [0, 1, 2, 3, 4]
    for control_plane in offices:
        await control_plane.store.close()


@pytest.mark.req("MSG-02", "SRV-07")
async def test_a_paused_execution_receives_its_message_when_it_is_resumed() -> None:
    control_plane = ControlPlane()
    await control_plane.start(MESSAGE)
    serving = asyncio.create_task(control_plane.message_queue.serve())
    await control_plane.executions.control("x1", PauseExecution(at=control_plane.clock.now()))

    sent = await control_plane.deliveries.send_message("paid", {"order": 7})
    assert sent.delivered_to is None
    assert await control_plane.status() == "paused"

    await control_plane.executions.control("x1", ResumeExecution(at=control_plane.clock.now()))
    await until(lambda: control_plane.status(), "completed")
    serving.cancel()


@pytest.mark.req("SRV-11")
async def test_the_end_of_an_execution_closes_its_waits(control_plane: ControlPlane) -> None:
    await control_plane.start(MESSAGE, "x1", "x2")
    await control_plane.executions.control("x1", CancelExecution(at=control_plane.clock.now()))

    assert await control_plane.store.waits.of("x1") == []
    assert (await control_plane.deliveries.send_message("paid", {"order": 7})).delivered_to == "x2"


@pytest.mark.req("MSG-01")
async def test_a_correlation_with_too_many_keys_is_refused() -> None:
    control_plane = ControlPlane()
    with pytest.raises(InvalidError, match="9 keys, and 8 is the limit"):
        await control_plane.deliveries.send_message("paid", {str(n): n for n in range(9)})
    with pytest.raises(InvalidError, match="name of a message"):
        await control_plane.deliveries.send_message("")
    with pytest.raises(InvalidError, match="a year at most"):
        await control_plane.deliveries.send_message("paid", ttl_s=-1)


@pytest.mark.req("MSG-03")
async def test_the_number_of_undelivered_messages_is_limited(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "MOST_KEPT", 2)
    for number in (1, 2):
        await control_plane.deliveries.send_message("paid", {"order": 8}, message_id=f"m{number}")

    with pytest.raises(RefusedError, match='2 messages "paid" wait for a receiver already'):
        await control_plane.deliveries.send_message("paid", {"order": 8}, message_id="m3")

    assert (await control_plane.deliveries.send_message("paid", {"order": 8}, message_id="m2")).known
    assert not (await control_plane.deliveries.send_message("billed")).known, "another name has room of its own"
    await control_plane.start(MESSAGE)
    assert (await control_plane.deliveries.send_message("paid", {"order": 7})).delivered_to == "x1", (
        "somebody takes it at once"
    )


@pytest.mark.req("MSG-01", "EVT-01")
async def test_waits_are_rebuilt_from_the_log(control_plane: ControlPlane) -> None:
    await control_plane.start(MESSAGE, "x1", "x2")
    await control_plane.deliveries.send_message("paid", {"order": 7})
    before = [await control_plane.store.waits.of(one) for one in ("x1", "x2")]

    await control_plane.store.rebuild()

    assert [await control_plane.store.waits.of(one) for one in ("x1", "x2")] == before
    assert [len(one) for one in before] == [0, 1]


@pytest.mark.req("MSG-05")
async def test_a_signal_reaches_every_waiting_execution_and_is_not_stored(control_plane: ControlPlane) -> None:
    await control_plane.start(SIGNAL, "x1", "x2")
    await control_plane.start(MESSAGE, "x3")

    heard = await control_plane.deliveries.send_signal("stop", {"why": "late"})
    await control_plane.start(SIGNAL, "x4")

    assert heard == ["x1", "x2"]
    assert [await control_plane.status(f"x{n}") for n in (1, 2, 3, 4)] == [
        "completed",
        "completed",
        "running",
        "running",
    ]


@pytest.mark.req("MSG-05")
async def test_a_signal_can_be_sent_to_one_execution(control_plane: ControlPlane) -> None:
    await control_plane.start(SIGNAL, "x1", "x2")

    assert await control_plane.deliveries.send_signal("stop", execution_id="x2") == ["x2"]

    assert [await control_plane.status(one) for one in ("x1", "x2")] == ["running", "completed"]
    with pytest.raises(SettledError):
        await control_plane.deliveries.send_signal("stop", execution_id="x2")
    with pytest.raises(RefusedError, match="no execution x9"):
        await control_plane.deliveries.send_signal("stop", execution_id="x9")


@pytest.mark.req("MSG-05", "ADV-02")
def test_event_handlers_receive_a_broadcast() -> None:
    async def ran() -> tuple[list[str], RunResult]:
        async with driving(":memory:", clock=LoopClock(), watch=events.extend) as driver:
            execution_id = await driver.start(LISTENING)
            await asyncio.sleep(60)
            heard = await driver.deliveries.send_signal("stop")
            return heard, await driver.result(execution_id)

    events: list[Any] = []
    heard, result = run_virtually(ran())

    assert heard == [result.execution_id]
    assert [event.step for event in events if event.event_type == "step.scheduled"] == ["start", "abort"]


@pytest.mark.req("MSG-06")
def test_event_handlers_receive_injected_events_and_system_events_are_refused() -> None:
    async def ran() -> tuple[list[bool], RunResult]:
        async with driving(":memory:", clock=LoopClock(), watch=events.extend) as driver:
            execution_id = await driver.start(LISTENING)
            await asyncio.sleep(60)
            with pytest.raises(InvalidError, match=r'"step\.done" is a name of the system itself'):
                await driver.deliveries.inject(execution_id, "step.done")
            told = [
                await driver.deliveries.inject(execution_id, "cat.seen", event_key="k1"),
                await driver.deliveries.inject(execution_id, "cat.seen", event_key="k1"),
                await driver.deliveries.inject(execution_id, "parcel.arrived", {"size": 3}),
            ]
            return told, await driver.result(execution_id)

    events: list[Any] = []
    told, result = run_virtually(ran())

    assert told == [True, False, True]
    assert result.ok
    assert [event.step for event in events if event.event_type == "step.scheduled"] == ["start", "open_it"]


@pytest.mark.req("TMR-04")
async def test_only_a_cancellable_timer_can_be_cancelled(control_plane: ControlPlane) -> None:
    await control_plane.start(TIMER, "x1")
    await control_plane.start(TIMER.replace("true", "false"), "x2")

    assert await control_plane.deliveries.cancel_timer("x1", "nap", actor="ann")
    with pytest.raises(RefusedError, match="cannot be cancelled"):
        await control_plane.deliveries.cancel_timer("x2", "nap", actor="ann")
    with pytest.raises(NotFoundError, match='no timer "siesta"'):
        await control_plane.deliveries.cancel_timer("x2", "siesta", actor="ann")

    assert await control_plane.ran("x1") == ["start", "stopped"]
    assert present(await control_plane.store.execution("x1")).wake_at is None


@pytest.mark.req("MSG-02")
def test_a_process_finds_messages_stored_by_another(tmp_path: Path) -> None:
    db = tmp_path / "s.db"

    async def ran() -> RunResult:
        async with driving(db, clock=LoopClock()) as driver:
            execution_id = await driver.start(playbook(MESSAGE))
            await asyncio.sleep(100)
            other = SqliteStore.open(db)
            await other.waits.keep(message(1, order=7))
            await other.close()
            return await driver.result(execution_id)

    result = run_virtually(ran())

    assert result.ok
    assert result.duration_s < 102, "its poll comes every half second"


@pytest.mark.req("MSG-02", "MSG-03")
def test_a_resumed_run_receives_a_message_sent_while_it_was_stopped(tmp_path: Path) -> None:
    db = tmp_path / "s.db"

    async def begun() -> str:
        async with driving(db, clock=LoopClock()) as driver:
            execution_id = await driver.start(playbook(MESSAGE))
            await asyncio.sleep(1)
            return execution_id

    async def taken_up(execution_id: str) -> RunResult:
        other = SqliteStore.open(db)
        await other.waits.keep(message(1, order=7))
        await other.close()
        async with driving(db, clock=LoopClock()) as driver:
            await driver.take_up(execution_id)
            return await driver.result(execution_id)

    execution_id = run_virtually(begun())
    assert run_virtually(taken_up(execution_id)).ok


async def until(look: Callable[[], Awaitable[str]], wanted: str) -> None:
    until = time.monotonic() + 60
    while (found := await look()) != wanted:
        assert time.monotonic() < until, f"it is {found}, not {wanted}"
        await asyncio.sleep(0)
