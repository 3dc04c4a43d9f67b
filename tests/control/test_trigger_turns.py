"""Triggers on a clock that tests move: exactly one execution for each item, whatever fails in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import BackendError, RefusedError, ToolError
from noetl.control import trigger_turns as module
from noetl.control.assembly import assemble
from noetl.control.executions import Executions
from noetl.control.trigger_turns import ENDS_POLL_S, MOST_TRIES, TriggerStore, TriggerTurns, execution_id_of
from noetl.events.triggers import SourceTrigger, TriggerProgress
from noetl.store.memory import MemoryStore
from noetl.store.results.files import MemoryResults
from noetl.store.wakeups import MemoryWakeups
from noetl.tools.contract import TriggerBatch, TriggerItem, TriggerPoll
from tests.engine_script import HEAD, net_of

NET = net_of(HEAD + "workflow: [{step: start, tool: {kind: noop, spec: {place: worker}}}]\n")


class Source:
    """A log of items with an offset as cursor. `refused` items cannot be started; `failure` is raised by a poll."""

    def __init__(self, count: int) -> None:
        self.items = [TriggerItem(item_id=f"i{number}", value={"n": number}) for number in range(count)]
        self.failure: Exception | None = None
        self.accepted: list[str] = []
        self.returned: list[str] = []
        self.polls: list[TriggerPoll] = []

    async def poll(self, trigger: SourceTrigger, poll: TriggerPoll) -> TriggerBatch:
        self.polls.append(poll)
        if self.failure is not None:
            raise self.failure
        after = poll.cursor or 0
        found = tuple(self.items[after : after + poll.limit])
        return TriggerBatch(items=found, cursor=after + len(found))

    async def settle(
        self, trigger: SourceTrigger, accepted: Sequence[TriggerItem], returned: Sequence[TriggerItem]
    ) -> None:
        self.accepted += [item.item_id for item in accepted]
        self.returned += [item.item_id for item in returned]


class Starter:
    """Starts real executions. `refused`: values of n that cannot be; `failure` is raised by every start."""

    def __init__(self, executions: Executions) -> None:
        self.executions = executions
        self.refused: set[int] = set()
        self.failure: Exception | None = None
        self.unable: Exception | None = None
        self.started: list[int] = []

    async def check(self, trigger: SourceTrigger) -> None:
        if self.unable is not None:
            raise self.unable

    async def start(self, trigger: SourceTrigger, execution_id: str, payload: dict[str, Any]) -> None:
        if self.failure is not None:
            raise self.failure
        if payload["item"]["n"] in self.refused:
            raise RefusedError("it does not fit")
        await self.executions.start(NET, execution_id=execution_id, trace_id="t", payload=payload)
        self.started.append(payload["item"]["n"])


class Place:
    def __init__(self, count: int = 3, **trigger: Any) -> None:
        self.store, self.clock = MemoryStore(), ManualClock(1_000.0)
        self.executions = assemble(self.store, MemoryResults(), MemoryWakeups(), self.clock).executions
        self.source, self.starter = Source(count), Starter(self.executions)
        given: dict[str, Any] = {"trigger_id": "t1", "name": "drop", "kind": "storage", "inputs": {}, "path": NET.path}
        self.trigger = SourceTrigger(**given, created_at=1.0, created_by="me", **trigger)
        self.turns = self.server()
        self.triggers = TriggerStore(self.store.key_values)

    def server(self) -> TriggerTurns:
        return TriggerTurns(self.store, self.starter, self.source, self.clock)

    async def turn(self) -> float:
        return await self.turns.turn(self.trigger, wait_s=0.0)

    async def progress(self) -> TriggerProgress:
        return (await self.triggers.progress(self.trigger))[0]


async def test_every_item_starts_one_execution_in_order_and_the_cursor_follows() -> None:
    place = Place(3)

    waits = [await place.turn(), await place.turn()]

    assert place.starter.started == [0, 1, 2]
    assert (await place.progress()).cursor == 3
    assert waits == [0.0, place.trigger.interval_s], "after a find it looks again at once"
    row = await place.store.execution(execution_id_of(place.trigger, "i0"))
    assert row is not None
    assert place.source.accepted == ["i0", "i1", "i2"]


async def test_items_read_again_after_a_crash_find_their_executions() -> None:
    """The cursor was not stored: the worst that a crash can leave."""
    place = Place(3)
    await place.turn()
    await place.store.key_values.delete("trigger_progress", "t1")

    await place.server().turn(place.trigger, wait_s=0.0)

    assert place.starter.started == [0, 1, 2]
    assert (await place.progress()).cursor == 3


async def test_two_servers_that_poll_at_once_start_nothing_twice() -> None:
    import asyncio

    place = Place(20, max_running=100)
    servers = [place.server() for _ in range(4)]

    await asyncio.gather(*(server.turn(place.trigger, wait_s=0.0) for server in servers))

    assert sorted(place.starter.started) == list(range(20))


async def test_nothing_is_read_while_enough_executions_are_open() -> None:
    place = Place(5, max_running=2)
    await place.turn()
    assert place.starter.started == [0, 1]

    assert await place.turn() == ENDS_POLL_S
    assert len(place.source.polls) == 1, "its source is not even asked"

    await place.executions.cancel(execution_id_of(place.trigger, "i0"), "for the test")
    await place.turn()
    assert place.starter.started == [0, 1, 2]


async def test_an_item_that_cannot_be_started_becomes_a_dead_letter_and_others_continue() -> None:
    place = Place(3)
    place.starter.refused = {1}
    for _ in range(MOST_TRIES):
        await place.turn()

    assert place.starter.started == [0, 2], "those behind it waited, so that their order is kept"
    [letter] = await place.triggers.dead_letters(place.trigger)
    assert (letter.item_id, letter.value, letter.error) == ("i1", {"n": 1}, "it does not fit")
    assert (await place.progress()).dead == 1
    assert "i1" in place.source.returned
    assert (await place.progress()).error is None


async def test_two_unstartable_items_of_a_batch_do_not_delay_each_other() -> None:
    place = Place(4)
    place.starter.refused = {0, 2}
    for _ in range(2 * MOST_TRIES):
        await place.turn()

    assert place.starter.started == [1, 3]
    assert [one.item_id for one in await place.triggers.dead_letters(place.trigger)] == ["i0", "i2"]


async def test_a_dead_letter_is_started_after_a_retry_request() -> None:
    place = Place(2)
    place.starter.refused = {1}
    for _ in range(MOST_TRIES):
        await place.turn()
    [letter] = await place.triggers.dead_letters(place.trigger)
    retried = type(letter)(item_id="i1", value=letter.value, error=letter.error, at=letter.at, retry=True)

    await place.triggers.keep_dead_letter(place.trigger, retried)
    await place.turn()
    [again] = await place.triggers.dead_letters(place.trigger)
    assert not again.retry, "it failed again and stays"

    place.starter.refused = set()
    await place.triggers.keep_dead_letter(place.trigger, retried)
    await place.turn()
    assert place.starter.started == [0, 1]
    assert await place.triggers.dead_letters(place.trigger) == []


async def test_too_many_dead_letters_stop_the_trigger_and_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_DEAD", 1)
    place = Place(3)
    place.starter.refused = {0, 1}
    for _ in range(8):
        await place.turn()

    assert place.starter.started == []
    assert "dead letters are kept" in str((await place.progress()).error)
    place.starter.refused = set()
    await place.turn()
    assert place.starter.started == [1, 2]


async def test_an_item_that_is_too_large_is_a_dead_letter_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_BYTES", 100)
    monkeypatch.setattr(module, "KEPT_BYTES", 50)
    place = Place(1)
    place.source.items = [TriggerItem(item_id="big", value={"n": 0, "text": "x" * 200})]
    for _ in range(MOST_TRIES):
        await place.turn()

    [letter] = await place.triggers.dead_letters(place.trigger)
    assert letter.is_cut
    assert letter.value is None


@pytest.mark.parametrize(
    "problem", [BackendError("the store is slow"), RefusedError("there is no such playbook"), None], ids=str
)
async def test_a_failure_outside_an_item_makes_no_dead_letter(problem: Exception | None) -> None:
    """The store is away, the playbook is gone, the source does not answer: it is told, and tried again."""
    place = Place(2)
    if isinstance(problem, BackendError):
        place.starter.failure = problem
    elif problem is not None:
        place.starter.unable = problem
    else:
        place.source.failure = ToolError("storage.denied", "access denied")
    for _ in range(MOST_TRIES + 1):
        await place.turn()
    assert place.starter.started == []
    assert (await place.progress()).error
    assert await place.triggers.dead_letters(place.trigger) == []

    place.starter.failure = place.starter.unable = place.source.failure = None
    await place.turn()
    assert place.starter.started == [0, 1]
    assert (await place.progress()).error is None


async def test_existing_items_start_nothing_if_they_are_to_be_skipped() -> None:
    place = Place(150, skip_existing=True)
    for _ in range(3):
        await place.turn()
    assert place.starter.started == []

    place.source.items.append(TriggerItem(item_id="new", value={"n": 999}))
    await place.turn()
    assert place.starter.started == [999]


async def test_one_server_polls_at_a_time_and_another_takes_over_when_it_is_gone() -> None:
    place = Place()
    polls = place.triggers.is_polled_by

    assert await polls(place.trigger, "a", now=0.0, for_s=60.0)
    assert not await polls(place.trigger, "b", now=30.0, for_s=60.0)
    assert await polls(place.trigger, "a", now=45.0, for_s=60.0)
    assert not await polls(place.trigger, "b", now=61.0, for_s=60.0), "it was renewed"
    assert await polls(place.trigger, "b", now=200.0, for_s=60.0)
    await place.triggers.leave(place.trigger, "b")
    assert await polls(place.trigger, "a", now=201.0, for_s=60.0)
