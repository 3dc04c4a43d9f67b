"""The shell around the engine: nothing takes effect before it is stored (SRV-05, DESIGN §3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from noetl.clock import ManualClock
from noetl.dispatch.memory import MemoryDispatch
from noetl.errors import BackendError, RefusedError
from noetl.orchestrator.conduct import Conductor
from noetl.pipeline.progress import task_run_id
from noetl.records.envelope import Event
from noetl.records.orders import Answer, Entry, Order, Report, Timed, Turn, Verdict
from noetl.records.outcomes import Meta, Outcome, Status, TaskResult
from noetl.records.steps import StepDone
from noetl.records.tasks import Decided, TaskProcessed
from noetl.store.contract import Commit, ConflictError
from noetl.store.memory import MemoryStore
from noetl.store.results import MemoryResults
from tests.conversing import net_of

CHAIN = """
workflow:
  - step: start
    tool: {kind: python, code: x}
    next: {arcs: [{step: b}]}
  - step: b
    tool: {kind: python, code: x}
"""


class Counting(MemoryStore):
    """A store that counts its commits, and can be made to refuse them."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[Sequence[Commit]] = []
        self.broken: list[Exception] = []

    async def commit(self, commits: Sequence[Commit]) -> None:
        if self.broken:
            raise self.broken.pop(0)
        await super().commit(commits)
        self.commits.append(commits)


class Office:
    """A conductor with everything beside it that a test looks at."""

    def __init__(self, store: Any = None, *, shared: bool = False, clock: ManualClock | None = None) -> None:
        self.store = store if store is not None else Counting()
        self.clock = clock or ManualClock()
        self.heard: list[Event] = []
        self.bell = MemoryDispatch()
        self.conductor = Conductor(
            self.store, MemoryResults(), self.bell, self.clock, watch=self.heard.extend, shared=shared
        )

    async def start(self, text: str = CHAIN, *, execution_id: str = "x1") -> None:
        await self.conductor.start(net_of(text), execution_id=execution_id, trace_id="t1", payload={})

    async def turn(
        self, *reports: Report, capacity: int = 1, worker_id: str = "w1", pools: tuple[str, ...] = ("default",)
    ) -> Answer:
        turn = Turn(worker_id=worker_id, reports=reports, capacity=capacity, pools=pools)
        return await self.conductor.turn(turn)

    async def claim(self) -> Order:
        [order] = (await self.turn()).orders
        return order

    def done(self, order: Order, result: object = None, *, worker_id: str = "w1") -> Report:
        return self.report(order, StepDone(result=TaskResult(result=result)), worker_id=worker_id)

    def report(self, order: Order, *entries: Entry, worker_id: str = "w1") -> Report:
        return Report(
            order_id=order.order_id,
            execution_id=order.execution_id,
            lease_epoch=order.lease_epoch,
            worker_id=worker_id,
            entries=tuple(Timed(self.clock.now(), entry) for entry in entries),
        )


@pytest.mark.req("SRV-05")
async def test_no_order_reaches_a_worker_when_its_decision_cannot_be_stored() -> None:
    office = Office()
    await office.start()
    order = await office.claim()
    heard = len(office.heard)
    office.store.broken = [BackendError("the store is read-only")]

    with pytest.raises(BackendError, match="read-only"):
        await office.turn(office.done(order))

    assert len(office.heard) == heard, "nobody hears of events that are not stored"
    answer = await office.turn(office.done(order))
    assert [one.step for one in answer.orders] == ["b"], "once the store works, the same report is decided anew"


async def test_a_start_that_cannot_be_stored_is_no_execution() -> None:
    office = Office()
    office.store.broken = [BackendError("disk full")]

    with pytest.raises(BackendError):
        await office.start()

    assert await office.store.execution("x1") is None
    assert office.heard == []


async def test_a_conflict_is_decided_again_from_the_log() -> None:
    office = Office()
    await office.start()
    order = await office.claim()
    office.store.broken = [ConflictError("moved"), ConflictError("moved")]

    answer = await office.turn(office.done(order))

    assert answer.verdicts == (Verdict.ACCEPTED,)
    assert [one.step for one in answer.orders] == ["b"]
    assert [event.seq for event in await office.store.events("x1")] == list(range(1, len(office.heard) + 1))


async def test_a_claim_that_could_not_be_stored_is_offered_again() -> None:
    office = Office()
    await office.start()
    office.store.broken = [ConflictError("moved")]

    order = await office.claim()

    assert order.lease_epoch == 1
    office.store.broken = [BackendError("disk full")]
    with pytest.raises(BackendError):
        await office.turn(office.done(order))
    assert [one.step for one in (await office.turn(office.done(order))).orders] == ["b"]


async def test_a_worker_that_lost_its_execution_to_another_process_is_fenced() -> None:
    """Two processes on one file: the log decides, whoever believes to own it."""
    first = Office()
    await first.start()
    stale = await first.claim()
    second = Office(first.store)
    await second.conductor.take_up("x1", is_gone=lambda owner: True)
    [order] = (await second.turn(worker_id="w2")).orders
    await second.turn(second.done(order, worker_id="w2"), worker_id="w2", capacity=0)

    answer = await first.turn(first.done(stale))

    assert answer.verdicts == (Verdict.FENCED,)


async def test_reporting_the_end_of_a_step_and_claiming_the_next_is_one_commit() -> None:
    office = Office()
    await office.start()
    order = await office.claim()
    before = len(office.store.commits)

    answer = await office.turn(office.done(order))

    assert len(answer.orders) == 1
    assert len(office.store.commits) == before + 1


async def test_a_claim_gives_the_scopes_as_they_are_now_and_later_writes_do_not_reach_it() -> None:
    office = Office()
    await office.start(
        """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
  - {step: a, tool: {kind: python, code: x}}
  - {step: b, tool: {kind: python, code: start + a}, next: {arcs: [{step: c}]}}
  - {step: c, tool: {kind: python, code: start + a + b}}
"""
    )
    a, b = (await office.turn(capacity=2)).orders
    run_id = task_run_id(a.step_run_id, a.position)
    now = office.clock.now()
    meta = Meta(attempt=1, started_at=now, finished_at=now, trace_id="t1", task_run_id=run_id)
    processed = TaskProcessed(
        task="a_task",
        visit=1,
        attempt=1,
        task_run_id=run_id,
        outcome=Outcome(status=Status.SUCCESS, meta=meta),
        decision=Decided(rule=0, do="continue", set_ctx={"k": {"deep": 1}}),
    )
    await office.turn(office.report(a, processed, StepDone(result=TaskResult(result=1))), capacity=0)

    assert b.ctx == {}
    assert b.results.keys() == {"start"}
    [c] = (await office.turn(office.done(b))).orders
    assert c.ctx == {"k": {"deep": 1}}
    assert c.results.keys() == {"start", "a", "b"}


@pytest.mark.req("WRK-03")
async def test_taking_up_a_run_that_somebody_is_running_is_refused() -> None:
    first = Office()
    await first.start()
    await first.claim()
    second = Office(first.store)

    with pytest.raises(RefusedError, match=r"is being run by w1; its lease ends in 30 s"):
        await second.conductor.take_up("x1", is_gone=lambda owner: False)

    second.clock.advance(31)
    await second.conductor.take_up("x1", is_gone=lambda owner: False)
    [order] = (await second.turn(worker_id="w2")).orders
    assert order.lease_epoch == 2


async def test_taking_up_an_unknown_run_is_refused() -> None:
    with pytest.raises(RefusedError, match="no execution x9"):
        await Office().conductor.take_up("x9", is_gone=lambda owner: True)


@pytest.mark.req("WRK-03")
async def test_nobody_prolongs_the_lease_of_another() -> None:
    """An order whose holder is gone would wait for as long as the other goes on."""
    office = Office()
    await office.start()
    order = await office.claim()
    office.clock.advance(20)

    assert await office.conductor.renew("w2", {order.order_id: 1}) == {order.order_id}
    office.clock.advance(20)
    assert len(await office.store.claimable(now=office.clock.now(), limit=9)) == 1


async def test_a_renewed_lease_lasts_and_a_lost_one_is_told() -> None:
    office = Office()
    await office.start()
    order = await office.claim()
    office.clock.advance(20)

    lost = await office.conductor.renew("w1", {order.order_id: 1, "gone": 1})

    assert lost == {"gone"}
    office.clock.advance(20)
    assert await office.store.claimable(now=office.clock.now(), limit=9) == []


async def test_an_execution_that_is_over_is_told_to_whoever_waits_for_it() -> None:
    office = Office()
    await office.start("workflow: [{step: start}]")

    execution = await office.conductor.ended("x1")

    assert execution.status == "completed"
