"""Leases without a single process: handed out again, given back, timed by the step or by the clock of the database
(WRK-03)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import BackendError
from noetl.control.assembly import assemble
from noetl.control.claiming.local_control_plane import LocalControlPlane
from noetl.control.claiming.orders import terms_of
from noetl.control.commit.sharing import SharedExecutions
from noetl.engine.reports import MOST_LEASES
from noetl.events.orders import LeaseTerms, PlaybookCall, Report, ReportResult, Timed, Turn, TurnAnswer
from noetl.events.outcomes import Error, TaskResult
from noetl.events.steps import ReportRefused, StepDone, StepFailed
from noetl.server.backends import StoreClock
from noetl.store.memory import MemoryStore
from noetl.store.postgres.store import PostgresStore
from noetl.store.results.files import MemoryResults
from noetl.store.wakeups import MemoryWakeups
from noetl.worker.control_plane import RetryingControlPlane
from noetl.worker.leases import Heartbeat, HeldLeases
from tests.contracts.stores import fresh_url
from tests.control.control_plane import CHAIN, ControlPlane, Counting
from tests.control.servers import BACKENDS, servers
from tests.engine_script import Conversation, net_of

LEASED = """
workflow:
  - step: start
    spec: {lease: {mode: single_owner, ttl: 90, heartbeat: 9}}
    tool: {kind: python, code: x}
    next: {arcs: [{step: b}]}
  - {step: b, tool: {kind: python, code: x}}
"""


async def swept(control_plane: ControlPlane) -> None:
    await control_plane.background_jobs.lost_work.sweep()


@pytest.mark.req("WRK-03")
@pytest.mark.parametrize("backend", BACKENDS)
async def test_an_order_in_a_lost_response_is_offered_again_by_any_server(backend: str, tmp_path: Path) -> None:
    async with servers(backend, tmp_path) as (first, second):
        await first.start()
        [lost] = (await first.turn()).orders

        assert not (await second.turn()).orders, "who does not say what it holds is given nothing of its own"
        answer = await second.for_workers.turn(Turn(worker_id="w1", capacity=2, holding={}))
        assert [(one.order_id, one.lease_epoch) for one in answer.orders] == [(lost.order_id, 1)]
        for turn in (Turn(worker_id="w1", capacity=2, holding={lost.order_id: 1}), Turn(worker_id="w2", holding={})):
            assert not (await second.for_workers.turn(turn)).orders


@pytest.mark.req("WRK-03")
@pytest.mark.parametrize("backend", BACKENDS)
async def test_an_order_in_a_delayed_response_does_not_hide_a_lost_order(backend: str, tmp_path: Path) -> None:
    """Two requests of a worker were under way at once. It asks for one order again, and does not know of either."""
    async with servers(backend, tmp_path) as (first, second):
        for execution_id in ("x1", "x2", "x3"):
            await first.start(execution_id=execution_id)
        known = {(await first.turn()).orders[0].order_id, (await first.turn()).orders[0].order_id}

        for capacity in (1, 2, 3):
            answer = await second.for_workers.turn(Turn(worker_id="w1", capacity=capacity, holding={}))
            assert known <= {one.order_id for one in answer.orders}
            assert len(answer.orders) == max(2, capacity), "others are for whoever has room for them"


@pytest.mark.req("WRK-03")
@pytest.mark.parametrize("backend", BACKENDS)
async def test_orders_of_a_worker_that_signs_off_are_reassigned_at_once(backend: str, tmp_path: Path) -> None:
    async with servers(backend, tmp_path) as (first, second):
        await first.start()
        [order] = (await first.turn()).orders

        await second.for_workers.give_back("w1")

        [taken] = (await second.turn(worker_id="w2")).orders
        assert (taken.order_id, taken.lease_epoch) == (order.order_id, 2)
        late = await first.turn(first.done(order))
        assert late.verdicts == (ReportResult.FENCED,)


async def test_workers_that_sign_off_are_not_counted_as_lost() -> None:
    """A long task that meets one deployment after another is not poison."""
    control_plane = ControlPlane(shared=True)
    await control_plane.start()
    for number in range(MOST_LEASES + 3):
        await swept(control_plane)
        [order] = (await control_plane.turn(worker_id=f"w{number}")).orders
        await control_plane.for_workers.give_back(f"w{number}")

    assert order.lease_epoch == MOST_LEASES + 3


@pytest.mark.req("WRK-03")
async def test_a_step_sets_the_duration_of_its_lease() -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.start(LEASED)
    order = await control_plane.claim()

    assert order.terms == LeaseTerms(ttl_s=90, heartbeat_s=9)
    [row] = await control_plane.store.held_by("w1")
    assert row.lease_until == control_plane.clock.now() + 90
    control_plane.clock.advance(80)
    await control_plane.for_workers.renew("w1", {order.order_id: 1}, {order.order_id: order.terms.ttl_s})
    [row] = await control_plane.store.held_by("w1")
    assert row.lease_until == control_plane.clock.now() + 90


@pytest.mark.parametrize(
    ("written", "terms"),
    [
        ("{ttl: 60}", LeaseTerms(ttl_s=60, heartbeat_s=10)),
        ("{heartbeat: 1}", LeaseTerms(ttl_s=30, heartbeat_s=1)),
        ("{ttl: 3, heartbeat: 5}", LeaseTerms(ttl_s=3, heartbeat_s=1)),
        ("{ttl: 0.01}", LeaseTerms(ttl_s=0.5, heartbeat_s=0.5 / 6)),
    ],
)
def test_a_heartbeat_interval_allows_for_two_lost_heartbeats(written: str, terms: LeaseTerms) -> None:
    talk = Conversation(LEASED.replace("{mode: single_owner, ttl: 90, heartbeat: 9}", written))

    assert terms_of(talk.plan, "start", LeaseTerms()) == terms
    assert terms_of(talk.plan, "b", LeaseTerms(ttl_s=2)) == LeaseTerms(ttl_s=2), (
        "the server's, where a step says nothing"
    )


@pytest.mark.req("WRK-03")
@pytest.mark.parametrize("written", ["{lease: {ttl: 60}}", "{policy: {limits: {lease: {ttl: 60}}}}"])
def test_lease_terms_of_the_playbook_apply_to_steps_without_their_own(written: str) -> None:
    """O-33: what stands among its limits is a default that an inner one replaces."""
    talk = Conversation(LEASED + f"executor: {{spec: {written}}}\n")

    assert terms_of(talk.plan, "start", LeaseTerms()) == LeaseTerms(ttl_s=90, heartbeat_s=9)
    assert terms_of(talk.plan, "b", LeaseTerms()) == LeaseTerms(ttl_s=60, heartbeat_s=10)


@pytest.mark.req("WRK-03", "WRK-04")
async def test_duplicated_late_and_reordered_reports_count_once() -> None:
    control_plane = ControlPlane(shared=True)
    await control_plane.start()
    order = await control_plane.claim()
    done = control_plane.done(order)

    verdicts = [(await control_plane.turn(done, done, capacity=0)).verdicts for _ in range(50)]
    assert verdicts[0] == (ReportResult.ACCEPTED, ReportResult.DUPLICATE)
    assert set(verdicts[1:]) == {(ReportResult.DUPLICATE, ReportResult.DUPLICATE)}

    [following] = (await control_plane.turn()).orders
    control_plane.clock.advance(60)
    await swept(control_plane)
    [again] = (await control_plane.turn(worker_id="w2")).orders
    assert again.order_id == following.order_id
    late = await control_plane.turn(control_plane.done(following), done, capacity=0)
    assert late.verdicts == (ReportResult.FENCED, ReportResult.DUPLICATE), "the older one comes after the newer one"
    assert (await control_plane.turn(control_plane.done(again, worker_id="w2"), worker_id="w2")).verdicts == (
        ReportResult.ACCEPTED,
    )
    log = await control_plane.store.events("x1")
    assert sum(isinstance(event.payload, StepDone) for event in log) == 2
    assert sum(isinstance(event.payload, ReportRefused) for event in log) == 1


class Flaky:
    """An office whose answers are lost, though it has done what was asked."""

    def __init__(self, control_plane: LocalControlPlane) -> None:
        self._control_plane, self.lost = control_plane, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._control_plane, name)

    async def turn(self, turn: Turn) -> TurnAnswer:
        answer = await self._control_plane.turn(turn)
        if self.lost:
            self.lost -= 1
            raise BackendError("the connection was lost")
        return answer


async def test_an_in_process_worker_survives_a_store_outage_and_receives_what_it_missed() -> None:
    control_plane, leases, pauses = ControlPlane(Counting(), shared=True), HeldLeases(), list[float]()

    async def sleep(pause_s: float) -> None:
        pauses.append(pause_s)

    flaky = Flaky(control_plane.for_workers)
    patient = RetryingControlPlane(flaky, leases, sleep=sleep)
    await control_plane.start()
    flaky.lost = 1
    [order] = (await patient.turn(Turn(worker_id="w1", capacity=1))).orders
    assert order.lease_epoch == 1, "it is the one of the answer that was lost"
    leases.hold(order.order_id, order.lease_epoch)

    control_plane.store.broken = [BackendError("restarting")] * 3
    answer = await patient.turn(Turn(worker_id="w1", capacity=1, reports=(control_plane.done(order),)))

    assert answer.verdicts == (ReportResult.ACCEPTED,)
    assert [one.step for one in answer.orders] == ["b"]
    assert len(pauses) == 4


async def test_servers_read_the_database_clock_and_advance_it_locally() -> None:
    class Elsewhere(MemoryStore):
        time = 5_000.0

        async def now(self) -> float | None:
            return self.time

    ticks, store = [100.0], Elsewhere()
    clock = StoreClock(store, monotonic=lambda: ticks[0])
    await clock.synchronise()
    assert clock.now() == 5_000.0
    ticks[0] += 7
    assert clock.now() == 5_007.0
    store.time = 5_008.5  # ours went slow
    await clock.synchronise()
    assert clock.now() == 5_008.5


CALLING = """
workflow:
  - step: start
    tool: {kind: playbook, path: tests/child}
    next: {arcs: [{step: rescue, when: "{{ event.name == 'step.failed' }}"}]}
  - step: rescue
"""


class StoredNets:
    async def find(self, path: str, version: str | None, *, beside: str) -> Any:
        return net_of(CHAIN)


@pytest.mark.req("TOOL-11", "O-02")
async def test_a_child_is_cancelled_when_another_server_ends_the_step_that_waits_for_it() -> None:
    store, clock = MemoryStore(), ManualClock()
    first = assemble(store, MemoryResults(), MemoryWakeups(), clock, library=StoredNets(), sharing=SharedExecutions())
    second = assemble(store, MemoryResults(), MemoryWakeups(), clock, library=StoredNets(), sharing=SharedExecutions())
    await first.executions.start(net_of(CALLING), execution_id="x1", trace_id="t", payload={})
    [order] = (await first.for_workers.turn(Turn(worker_id="w1", capacity=1))).orders
    call = PlaybookCall(
        worker_id="w1",
        execution_id="x1",
        step_run_id=order.step_run_id,
        order_id=order.order_id,
        lease_epoch=1,
        task_run_id="run-1",
        path="tests/child",
    )
    waiting = asyncio.create_task(first.for_workers.call(call))
    while not (children := await store.children("x1")):
        await asyncio.sleep(0)
    sweep = first.background_jobs.lost_work
    await sweep.sweep()
    assert not waiting.done()

    failed = StepFailed(error=Error(kind="timeout", message="too long"))
    report = Report(
        order_id=order.order_id,
        execution_id="x1",
        lease_epoch=1,
        worker_id="w1",
        entries=(Timed(clock.now(), failed),),
    )
    clock.advance(2)
    assert (await second.for_workers.turn(Turn(worker_id="w1", reports=(report,)))).verdicts == (ReportResult.ACCEPTED,)
    await sweep.sweep()

    assert (await waiting).status == "cancelled"
    child = await store.execution(children[0].execution_id)
    assert child is not None
    assert child.status == "cancelled"


class Full(MemoryResults):
    """A results store whose disk is full."""

    def put(self, value: Any) -> Any:
        raise BackendError("no space left on device")


@pytest.mark.req("RES-01")
async def test_a_large_value_that_cannot_be_stored_does_not_fail_others_in_the_same_batch() -> None:
    store, clock = Counting(), ManualClock()
    executions, for_workers, *_ = assemble(store, Full(), MemoryWakeups(), clock, sharing=SharedExecutions())
    await executions.start(net_of(CHAIN), execution_id="x1", trace_id="t", payload={})
    [order] = (await for_workers.turn(Turn(worker_id="w1", capacity=1))).orders
    large = StepDone(result=TaskResult(result="x" * 200_000))
    report = Report(
        order_id=order.order_id,
        execution_id="x1",
        lease_epoch=1,
        worker_id="w1",
        entries=(Timed(clock.now(), large),),
    )
    begun = len(store.commits)

    spoiled, started = await asyncio.gather(
        for_workers.turn(Turn(worker_id="w1", reports=(report,))),
        executions.start(net_of(CHAIN), execution_id="x2", trace_id="t", payload={}),
        return_exceptions=True,
    )

    assert isinstance(spoiled, BackendError)
    assert started is None
    assert await store.execution("x2") is not None
    assert len(store.commits) == begun + 1


async def test_an_order_offered_again_after_it_ran_is_not_run_twice() -> None:
    """Its end is said and not yet heard when another turn, whose answer was lost, is asked for again."""
    control_plane, leases = ControlPlane(shared=True), HeldLeases()
    flaky = Flaky(control_plane.for_workers)

    async def sleep(pause_s: float) -> None:
        leases.drop(order.order_id)  # it ends meanwhile

    patient = RetryingControlPlane(flaky, leases, sleep=sleep)
    await control_plane.start()
    [order] = (await patient.turn(Turn(worker_id="w1", capacity=1))).orders
    leases.hold(order.order_id, order.lease_epoch, order.terms)
    flaky.lost = 1

    assert not (await patient.turn(Turn(worker_id="w1", capacity=1))).orders


@pytest.mark.req("WRK-03")
def test_a_short_lease_is_renewed_in_time() -> None:
    """The heartbeat waits for its usual moment when the order comes."""
    beaten, leases = threading.Event(), HeldLeases()
    told: list[dict[str, float]] = []

    def renew(held: dict[str, int]) -> list[str]:
        told.append(leases.ttls())
        beaten.set()
        return []

    heartbeat = Heartbeat(leases, renew, lambda ids: None)
    heartbeat.start()
    try:
        leases.hold("o1", 1, LeaseTerms(ttl_s=60, heartbeat_s=0.05))
        assert beaten.wait(60)
    finally:
        heartbeat.end()
    assert told[0] == {"o1": 60}


def test_the_shortest_lease_sets_the_renewal_interval() -> None:
    leases = HeldLeases()
    assert leases.every_s(5.0) == 5.0
    leases.hold("long", 1, LeaseTerms(ttl_s=300, heartbeat_s=60))
    assert leases.every_s(5.0) == 60
    leases.hold("usual", 1)
    assert leases.every_s(5.0) == 5.0
    leases.hold("short", 1, LeaseTerms(ttl_s=3, heartbeat_s=1))
    assert leases.every_s(5.0) == 1
    for order_id in ("usual", "short"):
        leases.drop(order_id)
    assert leases.every_s(5.0) == 60


@pytest.mark.req("SRV-12")
async def test_a_driver_error_after_a_lost_connection_does_not_stop_the_server() -> None:
    """asyncpg has an error of its own for a connection that ends in the middle of its work; it is like any other."""
    store = await PostgresStore.open(fresh_url())
    failures = iter([True])

    async def work(connection: Any) -> int:
        if next(failures, False):
            raise asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress")
        return int(await connection.fetchval("SELECT 1"))

    try:
        assert await store._db.read(work) == 1
        failures = iter([True])
        with pytest.raises(BackendError, match="may be stored or not"):
            await store._db.write(work)
    finally:
        await store.close()
