"""Requests of other processes: every request gets an answer, and a server survives an outage of its store."""

from __future__ import annotations

import asyncio

import pytest

from noetl.base.errors import BackendError
from noetl.control.background import presence
from noetl.control.outside import requests
from noetl.control.outside.requests import serve_requests, take
from noetl.engine.commands import CancelTimer, DeliverSignal
from noetl.events.control import PlaybookPaused
from noetl.events.orders import ReportResult
from noetl.store.installation import MemoryKeyValues
from noetl.store.memory import MemoryStore
from noetl.store.waits import MemoryRequests, RequestRow
from tests.control.waiting import SIGNAL, TIMER, ControlPlane


async def answer(
    control_plane: ControlPlane, action: str, reason: str | None, execution_id: str = "x1"
) -> tuple[ReportResult, str]:
    asked = control_plane.store.requests
    number = await asked.ask(execution_id, action, reason=reason, at=0.0)
    row = await asked.get(number)
    assert row is not None
    verdict = await take(control_plane.executions, asked, row, control_plane.clock)
    row = await asked.get(number)
    assert row is not None
    assert row.answer is not None
    return verdict, row.answer


async def test_a_command_from_another_process_is_recorded_and_answered() -> None:
    control_plane = ControlPlane()
    await control_plane.start(SIGNAL)
    command = DeliverSignal(at=0.0, signal_id="s1", name="stop")

    verdict, text = await answer(control_plane, requests.action_of(command), requests.encoded_command(command))

    assert verdict is ReportResult.ACCEPTED
    assert requests.decoded_result(text).verdict is ReportResult.ACCEPTED
    [heard] = [event for event in await control_plane.store.events("x1") if event.event_type == "signal.received"]
    assert heard.ts == control_plane.clock.now(), "the moment is that of who records it"


async def test_a_refused_request_is_answered_with_its_reason() -> None:
    control_plane = ControlPlane()
    await control_plane.start(TIMER)
    command = CancelTimer(at=0.0, timer_id="siesta", actor="ann")

    _, text = await answer(control_plane, "cancel_timer", requests.encoded_command(command))

    assert requests.decoded_result(text).verdict is ReportResult.NOT_FOUND
    assert requests.decoded_result(text).detail == 'no timer "siesta" is running in this execution'


@pytest.mark.parametrize(
    ("body", "reason", "actor"),
    [
        (requests.control_body("lunch", "ann"), "lunch", "ann"),
        (requests.control_body(None, "ann"), None, "ann"),
        ("lunch", "lunch", None),  # as an earlier version asks
        ('{"reason": "lunch"}', '{"reason": "lunch"}', None),
        (None, None, None),
    ],
)
async def test_a_pause_records_its_reason_and_who_asked_for_it(
    body: str | None, reason: str | None, actor: str | None
) -> None:
    control_plane = ControlPlane()
    await control_plane.start(TIMER)

    verdict, _ = await answer(control_plane, "pause", body)

    assert verdict is ReportResult.ACCEPTED
    [paused] = [event for event in await control_plane.store.events("x1") if event.event_type == "playbook.paused"]
    assert paused.payload == PlaybookPaused(reason=reason, actor=actor)


@pytest.mark.parametrize(
    ("action", "reason", "execution_id"),
    [("signal", "{}", "x1"), ("signal", None, "x1"), ("dance", None, "x1"), ("pause", None, "x9")],
)
async def test_an_impossible_request_is_refused_and_not_repeated(
    action: str, reason: str | None, execution_id: str
) -> None:
    control_plane = ControlPlane()
    await control_plane.start(TIMER)

    verdict, text = await answer(control_plane, action, reason, execution_id)

    assert verdict is ReportResult.REFUSED
    assert "refused" in text
    assert await control_plane.store.requests.pending() == []


class Away(MemoryRequests):
    """A store that is away at first."""

    def __init__(self) -> None:
        super().__init__()
        self.looked = 0

    async def pending(self) -> list[RequestRow]:
        self.looked += 1
        if self.looked < 3:
            raise BackendError("the store is away")
        return await super().pending()


async def test_a_server_waits_for_its_store_to_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "POLL_S", 0.0)
    control_plane, away = ControlPlane(shared=True), Away()
    await control_plane.start(TIMER)
    number = await away.ask("x1", "pause", reason=None, at=0.0)

    attending = asyncio.create_task(
        serve_requests(control_plane.executions, away, control_plane.clock, reaches=lambda _: True)
    )
    while (row := await away.get(number)) is not None and row.answer is None:
        await asyncio.sleep(0)
    attending.cancel()

    assert await control_plane.status() == "paused"


async def test_a_process_is_registered_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "AFTER_S", 0.0)
    control_plane, key_values = ControlPlane(), MemoryKeyValues()
    now = control_plane.clock.now()
    assert not await presence.is_anybody_there(key_values, lambda _: False, now=now)

    here = asyncio.create_task(presence.announce_presence(key_values, "host/1/2", control_plane.clock))
    while not await key_values.list(presence.KIND):
        await asyncio.sleep(0)
    assert await presence.is_anybody_there(key_values, lambda _: False, now=now)
    here.cancel()
    await asyncio.wait({here})

    assert not await presence.is_anybody_there(key_values, lambda _: False, now=now)


@pytest.mark.parametrize(("gone", "later"), [(True, 0.0), (False, presence.STALE_S + 1)])
async def test_a_process_that_died_is_forgotten(gone: bool, later: float) -> None:
    store = MemoryStore()
    await store.key_values.put(presence.KIND, "host/1/2", b"{}", over=0, at=100.0)

    assert not await presence.is_anybody_there(store.key_values, lambda _: gone, now=100.0 + later)
    assert await store.key_values.list(presence.KIND) == []


async def test_watching_a_run_shows_events_recorded_by_another_process() -> None:
    """Whoever lost patience has recorded it himself; the run shows it all the same, and once."""
    here = ControlPlane()
    await here.start(SIGNAL)
    other = ControlPlane(here.store, here.clock)
    await other.executions.submit("x1", DeliverSignal(at=here.clock.now(), signal_id="s1", name="stop"))

    await here.executions.catch_up()
    await here.executions.catch_up()

    assert [event.seq for event in here.events] == list(range(1, len(here.events) + 1))
    assert [event.event_type for event in here.events] == await here.types()
