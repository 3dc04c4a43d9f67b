"""Jobs on quantum backends, wherever the execution runs: polled until done, cancelled with it (SRV-11, QNT-02)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from noetl.client.async_client import AsyncClient
from noetl.events.envelope import Event
from noetl.events.tasks import TaskProcessed
from noetl.operations.embedded import driving
from noetl.tools.quantum.tool import QuantumTool
from noetl.tools.registry import Registry
from tests.cli.processes_here import Here
from tests.contracts.stores import fresh_url
from tests.fixtures.running import fixture
from tests.servers import nats

pytestmark = pytest.mark.timeout(400)
_POLL_S = 0.03
_ENDS_S = 180.0
_QUEUE_S = 3.0
SWEEP = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: sweep, path: tests/sweep }
workflow:
  - step: start
    loop: { in: [0.0, 1.5, 3.1], iterator: theta, spec: { mode: parallel, max_in_flight: 3 } }
    tool:
      - name: submit
        kind: quantum
        circuit: [{ gate: rx, target: 0, theta: "{{ iter.theta }}" }]
        spec: { queue_s: 3600 }
      - name: poll
        kind: quantum
        op: status
        job_id: "{{ submit.data.job_id }}"
        spec:
          policy:
            rules:
              - when: "{{ outcome.status == 'success' and outcome.result.state == 'QUEUED' }}"
                then: { do: retry, attempts: 9999, delay: DELAY }
"""
LATER = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: later, path: tests/later }
workflow:
  - step: start
    tool: { kind: quantum, circuit: [{ gate: h, target: 0 }], spec: { queue_s: 3600 } }
    next: { arcs: [{ step: wait }] }
  - { step: wait, timer: { duration: 1h }, next: { arcs: [{ step: poll }] } }
  - { step: poll, tool: { kind: quantum, op: status, job_id: "{{ start.job_id }}" } }
"""
LOOK = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: look, path: tests/look }
workload: { job_id: none }
workflow:
  - step: start
    tool: { kind: quantum, op: status, job_id: "{{ workload.job_id }}" }
"""


def ran(task: str, events: list[Event]) -> list[Any]:
    processed: list[Any] = [one.payload for one in events if one.event_type == "task.processed"]
    return [one for one in processed if one.task == task]


def polls(events: list[Event]) -> list[Any]:
    return ran("poll", events)


def polled(events: list[Event]) -> set[str]:
    """The jobs that have been asked about."""
    return {one.outcome.result["job_id"] for one in polls(events)}


@pytest.mark.req("SRV-11", "QNT-02")
@pytest.mark.parametrize("delay", ["0.05", "600"])
async def test_cancelling_an_embedded_run_cancels_its_jobs(delay: str) -> None:
    """Whether it is told between two polls or stopped while it waits for the next."""
    events: list[Event] = []
    tool = QuantumTool()
    async with (
        asyncio.timeout(_ENDS_S),
        driving(":memory:", watch=events.extend, tools=Registry({"quantum": tool})) as here,
    ):
        execution_id = await here.start(SWEEP.replace("DELAY", delay))
        while len(polled(events)) < 3:
            await asyncio.sleep(_POLL_S)
        await here.cancel(execution_id)
        assert (await here.result(execution_id)).status == "cancelled"
        jobs = sorted(polled(events))
        states = {(await here.run(LOOK, {"job_id": job_id})).result["state"] for job_id in jobs}
        while states != {"CANCELLED"}:
            states = {(await here.run(LOOK, {"job_id": job_id})).result["state"] for job_id in jobs}

    assert len(jobs) == 3


@pytest.mark.req("SRV-11", "QNT-02")
async def test_cancelling_an_embedded_run_between_two_steps_cancels_its_job() -> None:
    """Nobody works on it: its submitting is over, and it is asked about when a timer has run out."""
    events: list[Event] = []
    async with asyncio.timeout(_ENDS_S), driving(":memory:", watch=events.extend) as here:
        execution_id = await here.start(LATER)
        while "timer.scheduled" not in {one.event_type for one in events}:
            await asyncio.sleep(_POLL_S)
        await here.cancel(execution_id)
        assert (await here.result(execution_id)).status == "cancelled"
        [job_id] = [one.payload.outcome.result["job_id"] for one in events if isinstance(one.payload, TaskProcessed)][
            :1
        ]
        look = await here.run(LOOK, {"job_id": job_id})

    assert look.result["state"] == "CANCELLED"
    assert [one.step for one in events if one.event_type == "compensation.done"] == ["start"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    """A server on PostgreSQL, rung by NATS, and a worker."""
    place = Here(tmp_path_factory.mktemp("cluster"))
    try:
        place.server("--db", fresh_url(), "--nats", nats.server().url)
        place.worker("--concurrency", "8")
        yield place
    finally:
        place.end()


@pytest.mark.req("SRV-11", "QNT-02")
@pytest.mark.parametrize("delay", ["0.2", "600"])
async def test_cancelling_an_execution_of_the_cluster_cancels_its_jobs(cluster: Here, delay: str) -> None:
    async with asyncio.timeout(_ENDS_S), AsyncClient(cluster.url, cluster.token) as client:
        states = await _states_after_cancelling(client, SWEEP.replace("DELAY", delay))

    assert states == ["CANCELLED"] * 3


@pytest.mark.req("SRV-11", "QNT-02")
async def test_cancelling_an_execution_of_the_cluster_between_two_steps_cancels_its_job(cluster: Here) -> None:
    async with asyncio.timeout(_ENDS_S), AsyncClient(cluster.url, cluster.token) as client:
        later, look = await client.register(LATER), await client.register(LOOK)
        execution_id = (await client.start(later.path)).execution_id
        events: list[Event] = []
        while "timer.scheduled" not in {one.event_type for one in events}:
            events = [event async for event in client.events(execution_id)]
        await client.cancel(execution_id)
        ended = await client.wait(execution_id)
        [job_id] = [one.payload.outcome.result["job_id"] for one in events if isinstance(one.payload, TaskProcessed)]
        looked = await client.wait((await client.start(look.path, {"job_id": job_id})).execution_id)

    assert (ended and ended.status, looked and looked.result["state"]) == ("cancelled", "CANCELLED")


@pytest.mark.req("QNT-02", "QNT-04", "QNT-06")
async def test_a_cluster_sweep_waits_in_a_queue_and_is_counted(cluster: Here) -> None:
    """F-R-QUANTUM, on the backend with a queue. However late a job is asked about, it is queued for its time."""
    queue = f"queue_s: {_QUEUE_S:g}"
    edits = {"prefer: cost": "prefer: cost, min_qubits: 3", "queue_s: 4": queue, "delay: 1": "delay: 0.2"}
    text = fixture("F-R-QUANTUM", edits)
    async with asyncio.timeout(_ENDS_S), AsyncClient(cluster.url, cluster.token) as client:
        started = await client.start((await client.register(text)).path)
        ended = await client.wait(started.execution_id)
        events = [event async for event in client.events(started.execution_id)]

    assert ended is not None
    assert ended.status == "completed"
    for index in range(3):
        [submitted] = [one.outcome.meta for one in ran("submit", events) if one.path == (index,)]
        outcomes = [one.outcome for one in polls(events) if one.path == (index,)]
        states = [one.result["state"] for one in outcomes]
        assert states == ["QUEUED"] * (len(states) - 1) + ["DONE"]
        assert outcomes[-1].meta.finished_at >= submitted.started_at + _QUEUE_S
    counted: list[Any] = [one.payload for one in events if one.event_type == "loop.done"]
    shares = [one["counts"].get("1", 0) / one["shots"] for one in counted[0].results]
    assert shares == [0, pytest.approx(0.5, abs=0.06), 1]


async def _states_after_cancelling(client: AsyncClient, text: str) -> list[str]:
    sweep, look = await client.register(text), await client.register(LOOK)
    execution_id = (await client.start(sweep.path)).execution_id
    jobs: set[str] = set()
    while len(jobs) < 3:
        jobs = polled([event async for event in client.events(execution_id)])
    await client.cancel(execution_id)
    states: list[str] = []
    while "QUEUED" in states or not states:  # a worker that only waits hears of it with its next heartbeat
        states = []
        for job_id in sorted(jobs):
            started = await client.start(look.path, {"job_id": job_id})
            ended = await client.wait(started.execution_id)
            assert ended is not None
            states.append(ended.result["state"])
    return states
