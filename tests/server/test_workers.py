"""An order is given only to a worker that can run it and may have it; if there is none, the reason is shown
(SRV-08)."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec
import pytest

from noetl.base.clock import ManualClock
from noetl.events.orders import Turn, TurnAnswer
from noetl.operations.administration_shapes import Role
from noetl.server.workers import WorkerRow
from noetl.store.memory import MemoryStore
from tests.server.talking import Talk, talking

MIXED = """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: code}, {step: query}]}
  - {step: code, tool: {kind: python, code: "result = 1"}}
  - {step: query, tool: [{name: q, kind: duckdb, query: "select 1"}, {name: c, kind: python, code: "result = 1"}]}
"""
MOVING = """
workflow:
  - step: start
    tool:
      kind: transfer
      source: {kind: duckdb, query: "select 1"}
      target: {kind: artifact, name: rows}
"""
SHELL = """
workflow: [{step: start, tool: {kind: shell, cmds: ["true"]}}]
"""
ON_GPU = """
workflow: [{step: start, spec: {pool: gpu}, tool: {kind: python, code: "result = 1"}}]
"""


class Crew:
    """Workers of one token, each with a name."""

    def __init__(self, talk: Talk, client: httpx2.AsyncClient) -> None:
        self._talk, self.client = talk, client
        self._ids: dict[str, str] = {}

    async def announce(self, name: str, status: int = 201, **more: Any) -> dict[str, Any]:
        answer = await self.client.post("/api/workers", json={"name": name, **more})
        assert answer.status_code == status, answer.text
        told: dict[str, Any] = answer.json()
        self._ids[name] = told.get("worker_id", "")
        return told

    async def steps(self, name: str, *, pools: tuple[str, ...] = ("default",), wait_s: float = 0) -> list[str]:
        """The steps whose orders it is given."""
        asked = msgspec.json.encode(Turn(worker_id=self._ids[name], capacity=9, pools=pools))
        headers = {"content-type": "application/json"}
        answer = await self.client.post("/api/orders/turn", content=asked, headers=headers, params={"wait_s": wait_s})
        assert answer.status_code == 200, answer.text
        return sorted(order.step for order in msgspec.json.decode(answer.content, type=TurnAnswer).orders)


async def crew_of(talk: Talk, *pools: str) -> Crew:
    return Crew(talk, await talk.as_role(Role.WORKER, pools=pools or ("default",)))


async def started(talk: Talk, text: str) -> str:
    await talk.register(text)
    return str((await talk.start())["execution_id"])


@pytest.mark.req("SRV-08", "WRK-05")
async def test_an_order_is_offered_to_a_worker_with_all_kinds_of_its_step() -> None:
    async with talking(workers=0) as talk:
        crew = await crew_of(talk)
        await crew.announce("small", kinds=["python", "http"])
        await crew.announce("large", kinds=["python", "duckdb"])
        await started(talk, MIXED)

        assert await crew.steps("small") == ["code"]
        assert await crew.steps("small") == [], "asked again, it is still not for it"
        assert await crew.steps("large") == ["query"]


@pytest.mark.parametrize("announced", [{}, {"kinds": []}])
async def test_a_worker_that_announces_no_kinds_is_offered_everything(announced: dict[str, Any]) -> None:
    async with talking(workers=0) as talk:
        crew = await crew_of(talk)
        await crew.announce("old", **announced)
        await started(talk, MIXED)

        assert await crew.steps("old") == ["code", "query"]


async def test_a_transfer_needs_the_kinds_of_its_ends() -> None:
    async with talking(workers=0) as talk:
        crew = await crew_of(talk)
        await crew.announce("small", kinds=["transfer", "artifact"])
        await crew.announce("large", kinds=["transfer", "artifact", "duckdb"])
        await started(talk, MOVING)

        assert await crew.steps("small") == []
        assert await crew.steps("large") == ["start"]


async def test_an_order_without_a_capable_worker_stays_ready_and_is_explained() -> None:
    """Until somebody comes who can."""
    async with talking(workers=0) as talk:
        crew = await crew_of(talk)
        await crew.announce("small", kinds=["python", "http"])
        execution_id = await started(talk, MIXED)
        await crew.steps("small")

        told = await talk.get(f"/api/executions/{execution_id}/explain")
        why = 'no worker of pool "default" runs kind duckdb; workers there run: http, python'
        assert why in told["sentences"]
        assert told["stuck"] is True
        [pool] = (await talk.get("/api/pools"))["pools"]
        assert pool["obstacles"] == [f"1 order waits: {why}"]
        assert (pool["workers"], pool["kinds"]) == (1, ["http", "python"])

        await crew.announce("large", kinds=["python", "duckdb"])
        assert (await talk.get(f"/api/executions/{execution_id}/explain"))["stuck"] is False
        assert await crew.steps("large") == ["query"]
        [pool] = (await talk.get("/api/pools"))["pools"]
        assert pool["obstacles"] == []


async def test_the_only_worker_of_a_pool_is_named_before_and_after_draining() -> None:
    async with talking(workers=0) as talk:
        crew = await crew_of(talk)
        worker_id = (await crew.announce("small", kinds=["python", "duckdb"]))["worker_id"]
        execution_id = await started(talk, MIXED)
        [before] = (await talk.get("/api/workers"))["workers"]
        await talk.post(f"/api/workers/{worker_id}/drain")

        told = await talk.get(f"/api/executions/{execution_id}/explain")
        [pool] = (await talk.get("/api/pools"))["pools"]
        overview = await talk.get("/api/overview")
        await crew.announce("large", kinds=["python", "duckdb"])
        freed = await talk.get(f"/api/executions/{execution_id}/explain")

    why = f'the only worker of pool "default" is drained: noetl worker resume {worker_id}'
    assert before["alone_in"] == ["default"]
    assert (told["stuck"], told["sentences"][-1]) == (True, why)
    assert (pool["workers"], pool["obstacles"]) == (0, [f"2 orders wait: {why}"])
    assert overview["workers"] == 0
    assert freed["stuck"] is False


async def test_an_in_process_worker_shows_its_orders_without_heartbeats() -> None:
    async with talking(workers=0) as talk:
        await talk.services.roster.register(WorkerRow(worker_id="own", pools=("*",), capacity=9))
        await started(talk, MIXED)
        answer = await talk.services.control.for_workers.turn(Turn(worker_id="own", capacity=9))

        [worker] = (await talk.get("/api/workers"))["workers"]

    assert len(answer.orders) == 2
    assert worker["leases"] == sorted(order.order_id for order in answer.orders)


async def test_an_order_that_no_worker_can_run_is_reported_before_it_is_offered() -> None:
    async with talking(workers=0) as talk:
        crew = await crew_of(talk)
        await crew.announce("small", kinds=["python", "http"])
        await started(talk, MIXED)

        why = 'no worker of pool "default" runs kind duckdb; workers there run: http, python'
        [pool] = (await talk.get("/api/pools"))["pools"]
        assert pool["obstacles"] == [f"1 order waits: {why}"]


async def test_a_pool_without_workers_is_listed_if_orders_wait_there() -> None:
    async with talking(workers=0) as talk:
        crew = await crew_of(talk)
        await crew.announce("small", kinds=["python"])
        await started(talk, ON_GPU)
        await talk.start()

        told = {pool["name"]: pool["obstacles"] for pool in (await talk.get("/api/pools"))["pools"]}
        why = 'no worker serves the pool "gpu": noetl worker start --pool gpu'
        assert told == {"default": [], "gpu": [f"2 orders wait: {why}"]}


async def test_kinds_split_over_several_workers_do_not_match() -> None:
    async with talking(workers=0) as talk:
        crew = await crew_of(talk)
        await crew.announce("one", kinds=["python"])
        await crew.announce("two", kinds=["duckdb"])
        execution_id = await started(talk, MIXED)

        told = await talk.get(f"/api/executions/{execution_id}/explain")
        assert any('no one worker of pool "default" runs all of duckdb, python' in one for one in told["sentences"])


async def test_orders_created_by_another_server_are_matched_too() -> None:
    """Its memory does not know what they need; whoever is offered one first finds out."""
    store = MemoryStore()
    async with talking(workers=0, store=store) as first, talking(workers=0, store=store) as second:
        crew = await crew_of(second)
        await crew.announce("small", kinds=["python"])
        await crew.announce("large", kinds=["python", "duckdb"])
        await started(first, MIXED)

        assert await crew.steps("small", wait_s=30) == ["code"]
        assert await crew.steps("large", wait_s=30) == ["query"]


async def test_orders_that_a_worker_cannot_run_do_not_block_its_other_orders() -> None:
    async with talking(workers=0) as talk:
        crew = await crew_of(talk)
        await crew.announce("small", kinds=["python"])
        for _ in range(30):
            await started(talk, MIXED)

        taken = [step for _ in range(4) for step in await crew.steps("small")]
        assert taken == ["code"] * 30


async def test_a_kind_that_only_a_remote_worker_allows_can_be_started() -> None:
    async with talking(workers=0) as talk:
        crew = await crew_of(talk)
        await talk.register(SHELL)
        refused = await talk.client.post("/api/executions", json={"path": "tests/test"})
        await crew.announce("brave", kinds=["python", "shell"])
        await talk.start()

        assert refused.status_code == 422
        assert "--allow shell" in refused.json()["detail"]
        assert await crew.steps("brave") == ["start"]


async def test_the_in_process_worker_announces_its_kinds() -> None:
    async with talking(workers=2) as talk:
        await talk.ran()
        [row] = (await talk.get("/api/workers"))["workers"]

        assert {"python", "http", "noop", "playbook"} <= set(row["kinds"])
        assert "shell" not in row["kinds"], "nobody turned it on"


@pytest.mark.req("SRV-08")
async def test_a_pool_with_required_labels_serves_only_workers_with_them() -> None:
    async with talking(workers=0) as talk:
        crew = await crew_of(talk, "gpu", "default")
        await crew.announce("early", pools=["gpu"])
        put = await talk.client.put("/api/pools/gpu", json={"require": {"gpu": "yes"}})
        assert put.json()["require"] == {"gpu": "yes"}
        execution_id = await started(talk, ON_GPU)

        refused = await crew.announce("plain", 403, pools=["default", "gpu"], labels={"gpu": "no"})
        assert refused["detail"] == (
            'pool "gpu" requires the labels gpu=yes; this one carries gpu=no: start it with --label gpu=yes, '
            "or for another pool"
        )
        assert await crew.steps("early", pools=("gpu",)) == [], "it was there before the label was asked for"
        told = await talk.get(f"/api/executions/{execution_id}/explain")
        assert (
            'no worker of pool "gpu" carries gpu=yes, which it requires; workers there carry: none' in told["sentences"]
        )
        await crew.announce("right", pools=["gpu"], labels={"gpu": "yes", "zone": "a"})
        assert await crew.steps("right", pools=("gpu",)) == ["start"]


async def test_an_in_process_worker_claims_no_orders_of_a_pool_whose_labels_it_lacks() -> None:
    async with talking(workers=2) as talk:
        await talk.client.put("/api/pools/gpu", json={"require": {"gpu": "yes"}})
        execution_id = await started(talk, ON_GPU)
        crew = await crew_of(talk, "gpu")
        await crew.announce("right", pools=["gpu"], labels={"gpu": "yes"})

        assert await crew.steps("right", pools=("gpu",)) == ["start"]
        assert (await talk.get(f"/api/executions/{execution_id}"))["status"] == "running"


async def test_changing_other_limits_keeps_the_labels_and_an_empty_mapping_removes_them() -> None:
    async with talking(workers=0) as talk:
        await talk.client.put("/api/pools/gpu", json={"require": {"gpu": "yes"}})
        kept = (await talk.client.put("/api/pools/gpu", json={"capacity": 3})).json()
        lifted = (await talk.client.put("/api/pools/gpu", json={"capacity": 3, "require": {}})).json()
        tokenless = await talk.client.put("/api/pools/gpu", json={"require": {"": "yes"}})

        assert (kept["capacity"], kept["require"]) == (3, {"gpu": "yes"})
        assert lifted["require"] == {}
        assert tokenless.status_code == 409


async def test_the_kinds_of_a_compensation_are_needed_only_when_it_runs() -> None:
    text = """
workflow:
  - step: start
    tool: {kind: python, code: "result = 1"}
    compensate: {tool: {kind: duckdb, query: "select 1"}}
"""
    async with talking(workers=0) as talk:
        crew = await crew_of(talk)
        await crew.announce("small", kinds=["python"])
        await started(talk, text)

        assert await crew.steps("small") == ["start"]


LEASE_S = 30.0


async def lost_worker(talk: Talk, clock: ManualClock, *, silent_s: float) -> tuple[str, str]:
    """An execution of which a worker has taken the order, and that worker, silent since."""
    crew = await crew_of(talk)
    worker_id = (await crew.announce("w-alpha", kinds=["python"]))["worker_id"]
    await talk.register(SHELL.replace('kind: shell, cmds: ["true"]', 'kind: python, code: "result = 1"'))
    execution_id = str((await talk.start())["execution_id"])
    assert await crew.steps("w-alpha") == ["start"]
    clock.advance(silent_s)
    return execution_id, worker_id


async def test_an_execution_with_a_lost_worker_is_queued_and_stuck_after_its_lease() -> None:
    clock = ManualClock()
    async with talking(workers=0, clock=clock, lease_ttl_s=LEASE_S) as talk:
        execution_id, worker_id = await lost_worker(talk, clock, silent_s=LEASE_S + 1)

        told = await talk.get(f"/api/executions/{execution_id}/explain")
        stuck = await talk.get("/api/stuck")
        alone = await talk.get("/api/stuck", params={"execution_id": execution_id})
        another = await talk.get("/api/stuck", params={"execution_id": "another"})
        overview = await talk.get("/api/overview")

    why = 'no worker serves the pool "default": noetl worker start --pool default'
    assert told["sentences"][0] == (
        'step start is queued: it waits for a worker of the pool "default" to take it again: '
        f"worker {worker_id}, which held it, is lost"
    )
    assert (told["stuck"], told["obstacles"]) == (True, [why])
    assert stuck["executions"] == [{"execution_id": execution_id, "orders": 1, "obstacles": [why]}]
    assert (stuck["orders"], overview["workers"]) == (1, 0)
    assert (alone, another["executions"]) == (stuck, [])


async def test_a_worker_whose_order_was_requeued_is_lost_and_holds_nothing() -> None:
    clock = ManualClock()
    async with talking(workers=0, clock=clock, lease_ttl_s=LEASE_S) as talk:
        await lost_worker(talk, clock, silent_s=LEASE_S + 1)

        [worker] = (await talk.get("/api/workers"))["workers"]
        [pool] = (await talk.get("/api/pools"))["pools"]

    assert (worker["live"], worker["leases"]) == (False, [])
    assert (pool["workers"], pool["leased"]) == (0, 0)
    assert pool["obstacles"] == [
        '1 order waits: no worker serves the pool "default": noetl worker start --pool default'
    ]


async def test_a_silent_worker_within_its_lease_is_live_and_its_execution_not_stuck() -> None:
    clock = ManualClock()
    async with talking(workers=0, clock=clock, lease_ttl_s=LEASE_S) as talk:
        execution_id, worker_id = await lost_worker(talk, clock, silent_s=LEASE_S - 1)

        told = await talk.get(f"/api/executions/{execution_id}/explain")
        [worker] = (await talk.get("/api/workers"))["workers"]
        stuck = await talk.get("/api/stuck")

    assert told["sentences"][0].endswith(f"it waits for worker {worker_id} to report")
    assert (told["stuck"], worker["live"], stuck["executions"]) == (False, True, [])


async def test_an_order_offered_to_no_capable_worker_is_listed_as_stuck() -> None:
    async with talking(workers=0) as talk:
        crew = await crew_of(talk)
        await crew.announce("small", kinds=["python", "http"])
        execution_id = await started(talk, MIXED)
        await crew.steps("small")

        stuck = await talk.get("/api/stuck")

    why = 'no worker of pool "default" runs kind duckdb; workers there run: http, python'
    assert stuck["executions"] == [{"execution_id": execution_id, "orders": 1, "obstacles": [why]}]
