"""The search for lost work: each record by itself; a record that fails is quarantined, and the others continue
(reliability.md §2.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import BackendError, UnreadableError
from noetl.control.background.lost_work import EVERY_S, INCIDENT, LostWork
from noetl.control.commit.quarantine import FAILURES, Incident, Quarantine
from noetl.events.envelope import Event
from noetl.events.orders import ReportResult
from noetl.store.contract import EventFilter
from noetl.store.memory import MemoryStore
from tests.control.control_plane import ControlPlane


class Numbers:
    """A chore with one record that always breaks."""

    def __init__(self, poison: int | None) -> None:
        self.poison, self.done, self.tried = poison, list[int](), 0

    async def find(self) -> Sequence[int]:
        return [1, 2, 3]

    def name_of(self, record: int) -> str:
        return f"number {record}"

    async def do(self, record: int) -> None:
        if record == self.poison:
            self.tried += 1
            raise ZeroDivisionError("poison")
        self.done.append(record)


class Away:
    async def find(self) -> Sequence[int]:
        raise BackendError("the store is away")

    def name_of(self, record: int) -> str:
        return ""

    async def do(self, record: int) -> None: ...


async def test_a_failing_record_does_not_stop_the_others_and_becomes_an_incident() -> None:
    clock, store, numbers = ManualClock(), MemoryStore(), Numbers(poison=2)
    quarantine = Quarantine(clock)
    sweep = LostWork([Away(), numbers], quarantine, store.key_values, clock)
    for _ in range(60):
        await sweep.sweep()
        clock.advance(1)

    assert numbers.done == [1, 3] * 60
    assert FAILURES <= numbers.tried < 10, "tried again, but less and less often"
    [thing] = await store.key_values.list(INCIDENT)
    incident = msgspec.json.decode(thing.body, type=Incident)
    assert (incident.record, incident.problem) == ("number 2", "ZeroDivisionError: poison")
    assert [one.record for one in quarantine.incidents] == ["number 2"]


async def test_a_record_that_works_again_leaves_quarantine() -> None:
    clock, numbers = ManualClock(), Numbers(poison=2)
    quarantine = Quarantine(clock)
    sweep = LostWork([numbers], quarantine, MemoryStore().key_values, clock)
    await sweep.sweep()
    numbers.poison = None
    await sweep.sweep()
    assert 2 not in numbers.done, "let be for a while"
    clock.advance(2)
    await sweep.sweep()

    assert numbers.done.count(2) == 1
    assert not quarantine.holds("number 2")


async def test_the_sweep_runs_until_it_is_cancelled() -> None:
    numbers, slept = Numbers(poison=None), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise asyncio.CancelledError
        await asyncio.sleep(0)

    serving = LostWork(
        [numbers], Quarantine(ManualClock()), MemoryStore().key_values, ManualClock(), sleep=sleep
    ).serve()
    with pytest.raises(asyncio.CancelledError):
        await serving

    assert slept == [EVERY_S] * 3
    assert len(numbers.done) == 9


class Corrupt(MemoryStore):
    """A store in which the log of x1 cannot be read back."""

    async def events(self, execution_id: str, *, after: int = 0, only: EventFilter | None = None) -> list[Event]:
        events = await super().events(execution_id, after=after, only=only)
        return events[:1] + events[2:] if execution_id == "x1" else events


@pytest.fixture
async def poisoned() -> ControlPlane:
    """A server that has not yet met the execution whose log is broken."""
    first = ControlPlane(Corrupt(), shared=True)
    for name in ("x1", "x2", "x3"):
        await first.start(execution_id=name)
    return ControlPlane(first.store, shared=True, clock=first.clock)


async def test_a_worker_receives_orders_although_an_earlier_execution_is_unreadable(poisoned: ControlPlane) -> None:
    orders = (await poisoned.turn(capacity=3)).orders

    assert sorted(order.execution_id for order in orders) == ["x2", "x3"]
    answer = await poisoned.turn(*map(poisoned.done, orders), capacity=2)
    assert answer.verdicts == (ReportResult.ACCEPTED, ReportResult.ACCEPTED)


async def test_an_execution_that_stays_unreadable_becomes_an_incident(poisoned: ControlPlane) -> None:
    sweep = poisoned.background_jobs.lost_work.sweep
    for _ in range(40):
        await sweep()
        await poisoned.turn(capacity=1, worker_id="w2")
        poisoned.clock.advance(1)

    assert [thing.name for thing in await poisoned.store.key_values.list(INCIDENT)] == ["x1"]


async def test_a_report_on_a_broken_execution_does_not_affect_the_other_reports(poisoned: ControlPlane) -> None:
    first = ControlPlane(MemoryStore(), shared=True)
    first.store._events, first.store._executions = poisoned.store._events, poisoned.store._executions
    first.store._orders, first.store._nets = poisoned.store._orders, poisoned.store._nets
    orders = (await first.turn(capacity=3)).orders
    assert len(orders) == 3

    answer = await poisoned.turn(*map(poisoned.done, orders), capacity=0)

    verdicts = dict(zip((order.execution_id for order in orders), answer.verdicts, strict=True))
    assert verdicts == {"x1": ReportResult.REFUSED, "x2": ReportResult.ACCEPTED, "x3": ReportResult.ACCEPTED}


async def test_a_command_on_an_unreadable_execution_raises_an_error(poisoned: ControlPlane) -> None:
    with pytest.raises(UnreadableError, match="x1 cannot be read"):
        await poisoned.executions.cancel("x1", "it is broken")
