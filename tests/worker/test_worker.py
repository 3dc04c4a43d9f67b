"""A worker's slots: they claim, run, report, and let go of what is no longer theirs (WRK-03)."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec
import pytest

from noetl.base.clock import ManualClock
from noetl.events.orders import Order, Report, ReportResult, Turn, TurnAnswer
from noetl.net.net import Net
from noetl.store.wakeups import MemoryWakeups
from noetl.tools.registry import Registry
from noetl.worker import worker as service
from noetl.worker.identity import is_gone, own_worker_id
from noetl.worker.leases import HeldLeases
from noetl.worker.slots import WorkerHandle
from noetl.worker.worker import Worker
from tests.engine_script import net_of
from tests.playbook_runs import Scripted
from tests.worker.accepting_control_plane import AcceptingControlPlane
from tests.worker.orders import an_order

TWO = net_of("workflow: [{step: start, tool: [{name: a, kind: python, code: x}, {name: b, kind: python, code: x}]}]")


class Desk(AcceptingControlPlane):
    """An office with a few orders to give and one verdict for every report."""

    def __init__(self, orders: int, verdict: ReportResult = ReportResult.ACCEPTED, net: Net | None = None) -> None:
        self._net = net or TWO
        self.waiting = [_order(number) for number in range(orders)]
        self.reports: list[Report] = []
        self.quiet = asyncio.Event()
        self._verdict, self.lost = verdict, False
        self.renewed: list[dict[str, int]] = []

    async def turn(self, turn: Turn) -> TurnAnswer:
        self.reports += turn.reports
        given = [self.waiting.pop(0) for _ in range(min(turn.capacity, len(self.waiting)))]
        if turn.capacity and not given:
            self.quiet.set()
        return TurnAnswer(verdicts=(self._verdict,) * len(turn.reports), orders=tuple(given))

    async def renew(
        self, worker_id: str, leases: dict[str, int], ttls: dict[str, float] | None = None
    ) -> frozenset[str]:
        self.renewed.append(leases)
        return frozenset(leases) if self.lost else frozenset()

    async def net(self, net_hash: str) -> Net:
        return self._net


def _order(number: int) -> Order:
    return an_order("a", order_id=f"o{number}", step_run_id=f"r{number}")


async def serve(desk: Desk, tool: Scripted, *, slots: int = 1, leases: HeldLeases | None = None) -> None:
    tools = Registry({"python": tool})
    handle = WorkerHandle("w", lambda _: None, leases)
    worker = Worker(desk, MemoryWakeups(), tools, handle, clock=ManualClock(), slots=slots)
    serving = asyncio.create_task(worker.serve())
    async with asyncio.timeout(60):
        await desk.quiet.wait()
    serving.cancel()
    await asyncio.wait({serving})


async def test_the_first_task_is_reported_before_the_second_and_the_end_with_the_next_claim() -> None:
    desk, seen = Desk(1), []
    tool = Scripted(b=lambda inputs, context: seen.append(len(desk.reports)))

    await serve(desk, tool)

    assert seen == [1]
    assert [[timed.entry.event_type for timed in report.entries] for report in desk.reports] == [
        ["task.started", "task.processed"],
        ["task.started", "task.processed", "step.done"],
    ]


async def test_a_fenced_worker_stops_its_order_and_claims_the_next() -> None:
    desk, tool = Desk(2, ReportResult.FENCED), Scripted()

    await serve(desk, tool)

    assert [name for name, _ in tool.calls] == ["a", "a"]


class Stopped(Desk):
    """Its worker was stopped for a minute, after it had taken an order and before it began."""

    def __init__(self, orders: int = 1) -> None:
        super().__init__(orders)
        self.uptime_s = 0.0
        self.leases = HeldLeases(monotonic=lambda: self.uptime_s)

    async def net(self, net_hash: str) -> Net:
        self.uptime_s += 60.0
        return await super().net(net_hash)


@pytest.mark.req("WRK-03", "WRK-04")
async def test_a_worker_frozen_past_its_lease_does_not_start_the_first_task() -> None:
    desk, tool = Stopped(), Scripted()
    desk.lost = True

    await serve(desk, tool, leases=desk.leases)

    assert tool.calls == []
    assert desk.reports == []
    assert desk.renewed == [{"o0": 1}]


@pytest.mark.req("WRK-03")
async def test_a_worker_frozen_within_its_lease_asks_once_and_continues() -> None:
    desk, tool = Stopped(), Scripted()

    await serve(desk, tool, leases=desk.leases)

    assert [name for name, _ in tool.calls] == ["a", "b"]
    assert desk.renewed == [{"o0": 1}]


@pytest.mark.req("WRK-03", "WRK-04")
@pytest.mark.parametrize("written", ["{name: b, kind: python, code: x}", "{name: b, kind: noop}"])
async def test_the_lease_is_checked_before_every_task(written: str) -> None:
    desk = Desk(1, net=net_of(f"workflow: [{{step: start, tool: [{{name: a, kind: python, code: x}}, {written}]}}]"))
    uptime_s = [0.0]

    def stopped(inputs: Any, context: Any) -> None:
        uptime_s[0] += 60.0
        desk.lost = True

    tool = Scripted(a=stopped)
    await serve(desk, tool, leases=HeldLeases(monotonic=lambda: uptime_s[0]))

    assert [name for name, _ in tool.calls] == ["a"]
    assert [timed.entry.event_type for report in desk.reports for timed in report.entries] == [
        "task.started",
        "task.processed",
    ]


@pytest.mark.req("WRK-03", "OUT-04")
async def test_a_tool_is_not_retried_under_an_expired_lease() -> None:
    desk = Desk(1, net=net_of("workflow: [{step: start, tool: [{name: a, kind: python, code: x, spec: {retry: 3}}]}]"))
    uptime_s = [0.0]

    def broken(inputs: Any, context: Any) -> Any:
        uptime_s[0] += 60.0
        desk.lost = True
        raise ValueError

    tool = Scripted(a=broken)
    await serve(desk, tool, leases=HeldLeases(monotonic=lambda: uptime_s[0]))

    assert [name for name, _ in tool.calls] == ["a"]


async def test_a_lease_found_lost_by_the_heartbeat_stops_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "HEARTBEAT_S", 0.01)
    stopped: list[bool] = []
    desk = Desk(1)

    class Endless(Scripted):
        async def run(self, inputs: Any, context: Any) -> Any:
            desk.lost = True  # not before: a tool that has not begun is not there to be stopped
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped.append(True)
                raise

    await serve(desk, Endless())

    assert stopped == [True]


@pytest.mark.req("SRV-11")
@pytest.mark.parametrize("yields", [True, False], ids=["stopped", "ended all the same"])
async def test_a_slot_whose_order_is_stopped_claims_the_next(yields: bool) -> None:
    """An order runs in its slot's own task: what stops the one must not end the other."""
    desk, begun = Desk(2), list[str]()

    class Waiting(Scripted):
        async def run(self, inputs: Any, context: Any) -> Any:
            begun.append(context.task_run.task)
            if len(begun) == 1:
                handle.stop(["o0", "o0"])
                if yields:
                    await asyncio.Event().wait()
            return await super().run(inputs, context)

    handle = WorkerHandle("w", lambda _: None)
    worker = Worker(desk, MemoryWakeups(), Registry({"python": Waiting()}), handle, clock=ManualClock(), slots=1)
    serving = asyncio.create_task(worker.serve())
    async with asyncio.timeout(60):
        await desk.quiet.wait()
    serving.cancel()
    await asyncio.wait({serving})

    ended = [report.order_id for report in desk.reports if report.entries[-1].entry.event_type == "step.done"]
    assert ended == ["o1"]


@pytest.mark.req("SRV-11")
@pytest.mark.parametrize("stopped", [True, False])
async def test_a_worker_stopped_while_it_loses_an_order_ends(stopped: bool) -> None:
    """The server's word takes the place of the cancellation that it met; the slot must hear of that all the same."""
    begun, answer = asyncio.Event(), asyncio.Event()

    class SlowDesk(Desk):
        async def turn(self, turn: Turn) -> TurnAnswer:
            if turn.reports:
                begun.set()
                await answer.wait()
            return await super().turn(turn)

    class Endless(Scripted):
        async def run(self, inputs: Any, context: Any) -> Any:
            try:
                await asyncio.Event().wait()
            finally:
                if stopped:  # what it runs takes a while to end
                    await asyncio.Event().wait()

    desk = SlowDesk(1, ReportResult.CANCELLED)
    handle = WorkerHandle("w", lambda _: None)
    worker = Worker(desk, MemoryWakeups(), Registry({"python": Endless()}), handle, clock=ManualClock(), slots=1)
    serving = asyncio.create_task(worker.serve())
    async with asyncio.timeout(60):
        await begun.wait()
        if stopped:
            handle.stop(["o0"])
            await asyncio.sleep(0)
        serving.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        answer.set()
        await asyncio.wait({serving})

    assert serving.cancelled()


async def test_the_start_of_a_slow_task_is_reported_before_its_end() -> None:
    """An event that nobody waits for waits at most a moment (design.md §3)."""
    desk, told = Desk(1), asyncio.Event()

    class Slow(Scripted):
        async def run(self, inputs: Any, context: Any) -> Any:
            async with asyncio.timeout(60):
                while not desk.reports:
                    await asyncio.sleep(0)
            told.set()
            return await super().run(inputs, context)

    await serve(desk, Slow())

    assert told.is_set()
    assert [timed.entry.event_type for timed in desk.reports[0].entries] == ["task.started"]


async def test_several_slots_claim_several_orders() -> None:
    meeting = asyncio.Barrier(3)

    class Meeting(Scripted):
        async def run(self, inputs: Any, context: Any) -> Any:
            if context.task_run.task == "a":
                await meeting.wait()
            return await super().run(inputs, context)

    desk = Desk(3)
    handle = WorkerHandle("w", lambda _: None)
    worker = Worker(desk, MemoryWakeups(), Registry({"python": Meeting()}), handle, clock=ManualClock(), slots=3)
    serving = asyncio.create_task(worker.serve())
    async with asyncio.timeout(60):
        while sum(1 for report in desk.reports if report.entries[-1].entry.event_type == "step.done") < 3:
            await asyncio.sleep(0)
    serving.cancel()
    await asyncio.wait({serving})


def test_a_worker_recognises_itself_as_alive_and_a_dead_one_as_gone() -> None:
    host = own_worker_id().split("/")[0]

    assert not is_gone(own_worker_id())
    assert is_gone(f"{host}/{os.getpid()}/1"), "the number was given to another process since"
    assert is_gone(f"{host}/99999999/5")
    assert not is_gone("elsewhere/1/1"), "nobody can tell from here"


async def test_no_wake_up_is_lost_and_each_wakes_one_slot() -> None:
    wakeups = MemoryWakeups()
    wakeups.notify_workers(3)
    await asyncio.wait_for(wakeups.wait(), 60)

    waiting = [asyncio.create_task(wakeups.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    wakeups.notify_workers(1)
    for _ in range(20):
        await asyncio.sleep(0)

    assert sum(1 for task in waiting if task.done() and not task.cancelled()) == 1
    wakeups.notify_workers(1)
    await asyncio.wait(waiting)


@pytest.mark.req("WRK-03")
async def test_an_order_offered_again_under_a_later_lease_while_it_runs_is_harmless() -> None:
    """The server was away for longer than a lease lasts, and gives the order to the same worker once more."""
    desk = Desk(2)
    desk.waiting[1] = msgspec.structs.replace(desk.waiting[0], lease_epoch=2)
    handle = WorkerHandle("w", lambda _: None)
    worker = Worker(desk, MemoryWakeups(), Registry({"python": Scripted()}), handle, clock=ManualClock(), slots=2)
    serving = asyncio.create_task(worker.serve())
    async with asyncio.timeout(60):
        while not desk.reports or handle.leases.epochs():
            await asyncio.sleep(0)

    assert not serving.done()
    assert {report.lease_epoch for report in desk.reports} == {2}, "nothing begins under the earlier one"
    serving.cancel()
    await asyncio.wait({serving})
