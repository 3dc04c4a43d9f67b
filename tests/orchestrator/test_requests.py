"""Requests of other processes: what cannot be done is answered, and a server outlives its store's absence."""

from __future__ import annotations

import asyncio

import pytest

from noetl.engine.commands import CancelTimer, DeliverSignal
from noetl.errors import BackendError
from noetl.orchestrator import presence, requests, telling
from noetl.orchestrator.requests import attend, take
from noetl.records.orders import Verdict
from noetl.store.memory import MemoryStore
from noetl.store.requests import MemoryRequests, RequestRow
from noetl.store.shelf import MemoryShelf
from tests.orchestrator.waiting import SIGNAL, TIMER, Office


async def answer(office: Office, action: str, reason: str | None, execution_id: str = "x1") -> tuple[Verdict, str]:
    asked = office.store.requests
    number = await asked.ask(execution_id, action, reason=reason, at=0.0)
    row = await asked.get(number)
    assert row is not None
    verdict = await take(office.conductor, asked, row, office.clock)
    row = await asked.get(number)
    assert row is not None
    assert row.answer is not None
    return verdict, row.answer


async def test_what_an_execution_is_told_by_another_process_is_recorded_and_answered() -> None:
    office = Office()
    await office.start(SIGNAL)
    command = DeliverSignal(at=0.0, signal_id="s1", name="stop")

    verdict, text = await answer(office, telling.action_of(command), telling.written(command))

    assert verdict is Verdict.ACCEPTED
    assert telling.answered(text).verdict is Verdict.ACCEPTED
    [heard] = [event for event in await office.store.events("x1") if event.event_type == "signal.received"]
    assert heard.ts == office.clock.now(), "the moment is that of who records it"


async def test_why_something_was_not_done_is_told() -> None:
    office = Office()
    await office.start(TIMER)
    command = CancelTimer(at=0.0, timer_id="siesta", actor="ann")

    _, text = await answer(office, "cancel_timer", telling.written(command))

    assert telling.answered(text).verdict is Verdict.NOT_FOUND
    assert telling.answered(text).detail == 'no timer "siesta" is running in this execution'


@pytest.mark.parametrize(
    ("action", "reason", "execution_id"),
    [("signal", "{}", "x1"), ("signal", None, "x1"), ("dance", None, "x1"), ("pause", None, "x9")],
)
async def test_what_nobody_can_do_is_refused_and_not_asked_for_ever(
    action: str, reason: str | None, execution_id: str
) -> None:
    office = Office()
    await office.start(TIMER)

    verdict, text = await answer(office, action, reason, execution_id)

    assert verdict is Verdict.REFUSED
    assert "refused" in text
    assert await office.store.requests.pending() == []


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


async def test_a_server_waits_for_its_store_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "POLL_S", 0.0)
    office, away = Office(shared=True), Away()
    await office.start(TIMER)
    number = await away.ask("x1", "pause", reason=None, at=0.0)

    attending = asyncio.create_task(attend(office.conductor, away, office.clock, reaches=lambda _: True))
    while (row := await away.get(number)) is not None and row.answer is None:
        await asyncio.sleep(0)
    attending.cancel()

    assert await office.status() == "paused"


async def test_a_process_is_known_for_as_long_as_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "AFTER_S", 0.0)
    office, shelf = Office(), MemoryShelf()
    now = office.clock.now()
    assert not await presence.is_anybody_there(shelf, lambda _: False, now=now)

    here = asyncio.create_task(presence.be_present(shelf, "host/1/2", office.clock))
    while not await shelf.list(presence.KIND):
        await asyncio.sleep(0)
    assert await presence.is_anybody_there(shelf, lambda _: False, now=now)
    here.cancel()
    await asyncio.wait({here})

    assert not await presence.is_anybody_there(shelf, lambda _: False, now=now)


@pytest.mark.parametrize(("gone", "later"), [(True, 0.0), (False, presence.STALE_S + 1)])
async def test_a_process_that_ended_without_a_word_is_forgotten(gone: bool, later: float) -> None:
    store = MemoryStore()
    await store.shelf.put(presence.KIND, "host/1/2", b"{}", over=0, at=100.0)

    assert not await presence.is_anybody_there(store.shelf, lambda _: gone, now=100.0 + later)
    assert await store.shelf.list(presence.KIND) == []


async def test_who_watches_a_run_hears_what_another_process_has_recorded_of_it() -> None:
    """Whoever lost patience has recorded it himself; the run shows it all the same, and once."""
    here = Office()
    await here.start(SIGNAL)
    other = Office(here.store, here.clock)
    await other.conductor.tell("x1", DeliverSignal(at=here.clock.now(), signal_id="s1", name="stop"))

    await here.conductor.catch_up()
    await here.conductor.catch_up()

    assert [event.seq for event in here.events] == list(range(1, len(here.events) + 1))
    assert [event.event_type for event in here.events] == await here.types()
