"""Leases that a worker holds: how old each is by the worker's own clock, and what may begin under it (WRK-03)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection
from typing import Any

import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import BackendError
from noetl.events.orders import LeaseTerms
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.registry import Registry
from noetl.worker import remote_worker
from noetl.worker.leases import Heartbeat, HeldLeases
from noetl.worker.remote_worker import RemoteWorker, WorkerSpec
from noetl.worker.server_connection import PlainServerConnection
from tests.playbook_runs import Scripted
from tests.worker.http_app import TWO, wire_server
from tests.worker.orders import an_order

TERMS = LeaseTerms(ttl_s=30.0, heartbeat_s=5.0)


class Watch:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.req("WRK-03")
def test_a_lease_expires_by_the_monotonic_clock_of_the_worker() -> None:
    watch = Watch()
    leases = HeldLeases(monotonic=watch)
    leases.hold("o1", 1, TERMS)

    watch.now += 29.9
    assert not leases.is_over("o1", 1)
    watch.now += 0.1
    assert leases.is_over("o1", 1)
    assert leases.is_over("o1", 2), "another epoch"


@pytest.mark.req("WRK-03")
def test_the_remaining_time_of_a_lease_is_in_the_order() -> None:
    """The answer may have waited in a socket while the worker was stopped."""
    watch, clock = Watch(), ManualClock()
    leases = HeldLeases(clock, watch)

    leases.receive(an_order("a", order_id="o1", lease_until=clock.now() - 1.0))
    leases.receive(an_order("a", order_id="o2", lease_until=clock.now() + 10.0))

    assert leases.is_over("o1", 1)
    assert not leases.is_over("o2", 1)
    watch.now += 10.0
    assert leases.is_over("o2", 1)


@pytest.mark.req("WRK-03")
def test_a_lease_is_renewed_from_the_time_of_the_request() -> None:
    watch = Watch()
    leases = HeldLeases(monotonic=watch)
    leases.hold("o1", 1, TERMS)
    asked_at = watch.now + 5.0
    watch.now += 40.0  # the worker was stopped before it saw the answer

    leases.renewed({"o1": 1, "gone": 1}, asked_at)

    assert leases.is_over("o1", 1)
    leases.renewed({"o1": 1}, watch.now)
    assert not leases.is_over("o1", 1)


def test_holding_the_same_lease_again_does_not_renew_it() -> None:
    watch = Watch()
    leases = HeldLeases(monotonic=watch)
    leases.hold("o1", 1, TERMS)
    watch.now += 30.0

    leases.hold("o1", 1, TERMS)
    assert leases.is_over("o1", 1)
    leases.hold("o1", 2, TERMS)
    assert not leases.is_over("o1", 2)


# The heartbeat thread: prolongs, stops what is lost, and stops by itself when it cannot prolong (reliability.md
# §3.3).


class Heart:
    """A heartbeat whose beats a test asks for, at a time it says."""

    def __init__(self, lost: Collection[str] = ()) -> None:
        self.leases, self.now, self.is_down, self.lost = HeldLeases(), 0.0, False, lost
        self.stopped: list[set[str]] = []
        self.cut_off: list[int] = []
        self.renewed: list[dict[str, int]] = []
        self.beating = Heartbeat(
            self.leases,
            self._renew,
            lambda ids: self.stopped.append(set(ids)),
            monotonic=lambda: self.now,
            cut_off=self.cut_off.append,
        )

    def _renew(self, leases: dict[str, int]) -> Collection[str]:
        if self.is_down:
            raise BackendError("nobody there")
        self.renewed.append(leases)
        return self.lost

    def beat_at(self, now: float) -> None:
        self.now = now
        self.beating.beat()


def test_held_leases_are_renewed_and_nothing_is_sent_without_any() -> None:
    heart = Heart()
    heart.beat_at(5)
    heart.leases.hold("o1", 3)
    heart.beat_at(10)

    assert heart.renewed == [{"o1": 3}]
    assert heart.stopped == []


@pytest.mark.req("WRK-03")
def test_an_order_with_a_lost_lease_is_stopped() -> None:
    heart = Heart(lost=["o1"])
    heart.leases.hold("o1", 1)
    heart.leases.hold("o2", 1)
    heart.beat_at(5)

    assert heart.stopped == [{"o1"}]


@pytest.mark.req("WRK-03")
def test_an_unreachable_server_stops_the_tools_at_two_thirds_of_the_lease() -> None:
    """Another worker may begin the same at its end; by then the first one must have stopped."""
    heart = Heart()
    heart.leases.hold("o1", 1)
    heart.beat_at(5)
    heart.is_down = True
    heart.beat_at(10)
    heart.leases.hold("o2", 1)
    heart.beat_at(15)
    heart.beat_at(20)
    assert heart.stopped == []

    heart.beat_at(25)
    assert heart.stopped == [{"o1"}]
    heart.beat_at(30)
    assert heart.stopped[1:] == [{"o1", "o2"}]
    assert heart.cut_off == [1, 2]


def test_a_server_that_returns_in_time_stops_nothing() -> None:
    heart = Heart()
    heart.leases.hold("o1", 1)
    heart.is_down = True
    heart.beat_at(5)
    heart.beat_at(15)
    heart.is_down = False
    heart.beat_at(19)
    heart.is_down = True
    heart.beat_at(38)

    assert heart.stopped == []


def test_a_new_lease_of_the_same_order_has_its_own_time() -> None:
    heart = Heart()
    heart.is_down = True
    heart.leases.hold("o1", 1)
    heart.beat_at(5)
    heart.leases.hold("o1", 2)
    heart.beat_at(21)

    assert heart.stopped == []


@pytest.mark.req("WRK-03")
async def test_a_tool_that_blocks_the_event_loop_keeps_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_worker, "EVERY_S", 0.02)
    asked, beating = PlainServerConnection.ask, threading.Event()

    def noted(line: PlainServerConnection, method: str, path: str, **more: Any) -> Any:
        if path.endswith("/heartbeat"):
            beating.set()  # what is held is in its body by now
        return asked(line, method, path, **more)

    monkeypatch.setattr(PlainServerConnection, "ask", noted)

    class Blocking(Scripted):
        async def run(self, inputs: Any, context: ToolContext) -> ToolResult:
            if context.task_run.task == "a":
                assert beating.wait(60)
                while not server.beats:  # the server shares this event loop, so the first answer is after the blocking
                    await asyncio.sleep(0.01)
            return await super().run(inputs, context)

    async with wire_server() as server:
        worker = RemoteWorker(WorkerSpec(url=server.url, name="w", concurrency=1), Registry({"python": Blocking()}))
        serving = asyncio.ensure_future(worker.serve())
        ended = await server.run(TWO)
        worker.drain()
        await serving

    assert ended.lifecycle.status == "completed"


@pytest.mark.req("WRK-03", "SRV-11")
async def test_a_lease_reported_lost_by_the_server_stops_the_tool_without_a_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_worker, "EVERY_S", 0.02)
    stopped = asyncio.Event()

    class Endless(Scripted):
        async def run(self, inputs: Any, context: ToolContext) -> ToolResult:
            server.lost.update(server.claimed())
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
            raise AssertionError

    async with wire_server() as server:
        worker = RemoteWorker(WorkerSpec(url=server.url, name="w", concurrency=1), Registry({"python": Endless()}))
        serving = asyncio.ensure_future(worker.serve())
        await server.start(TWO)
        async with asyncio.timeout(60):
            await stopped.wait()
        worker.drain()
        await serving

    assert "step.done" not in server.names()
    assert "step.failed" not in server.names()
