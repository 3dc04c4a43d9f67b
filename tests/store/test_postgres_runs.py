"""Whole playbooks on PostgreSQL: what they leave in the log is what they leave in SQLite (WRK-08, EVT-03)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from noetl.events.envelope import Event
from noetl.events.orders import ReportResult
from noetl.events.tasks import TaskStarted
from noetl.operations.embedded import RunResult, driving, resume, run_net
from noetl.store.open_store import open_records, open_store
from noetl.store.postgres.store import PostgresStore
from noetl.tools.registry import Registry
from tests.contracts.stores import borrowed_url, fresh_url
from tests.crash_runs import Recording, drive
from tests.engine_script import net_of, playbook
from tests.narrowing import payloads
from tests.playbook_runs import Scripted, broken

REPOSITORY = Path(__file__).parents[2]

CHAIN = """
workflow:
  - {step: start, tool: {name: a, kind: python, code: x}, next: {arcs: [{step: two}]}}
  - step: two
    tool: [{name: b, kind: python, code: x}, {name: c, kind: python, code: x}]
    set_ctx: {seen: "{{ two.data }}"}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop, args: {seen: "{{ ctx.seen }}"}}}
"""
LOOP = """
workflow:
  - step: start
    loop: {in: [1, 2, 3, 4], iterator: n}
    tool: {name: a, kind: python, code: x, args: {n: "{{ iter.n }}"}}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop}}
"""
PARALLEL = LOOP.replace("iterator: n}", "iterator: n, spec: {mode: parallel}}")
FORKED = """
workflow:
  - step: start
    tool: {name: a, kind: python, code: x}
    next: {spec: {mode: inclusive}, arcs: [{step: b}, {step: c}]}
  - {step: b, tool: {name: b, kind: python, code: x}, next: {arcs: [{step: end}]}}
  - {step: c, tool: {name: c, kind: python, code: x}, next: {arcs: [{step: end}]}}
  - {step: end, spec: {join: all}, tool: {kind: noop}}
"""
RETRIED = """
workflow:
  - step: start
    tool:
      name: a
      kind: python
      code: x
      spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 3, delay: 0}}]}}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop}}
"""
FAILED = """
workflow:
  - step: start
    tool:
      name: a
      kind: python
      code: x
      spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: fail}}]}}
"""
ROUTED = """
workload: {n: 3}
workflow:
  - step: start
    tool: {name: a, kind: python, code: x}
    next: {arcs: [{step: low, when: "{{ workload.n < 2 }}"}, {step: high, when: "{{ workload.n > 2 }}"}]}
  - {step: low, tool: {kind: noop}}
  - {step: high, tool: {name: b, kind: python, code: x}}
"""
LARGE = """
executor: {spec: {policy: {limits: {max_payload_bytes: 200}}}}
workflow:
  - {step: start, tool: {name: a, kind: python, code: x}, next: {arcs: [{step: end}]}}
  - {step: end, tool: {kind: noop, args: {n: "{{ start.data | length }}"}}}
"""
CHILD = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: child, path: jobs/child}
workflow: [{step: start, tool: {name: b, kind: python, code: x}}]
"""
NESTED = """
workflow:
  - step: start
    tool: {kind: playbook, path: jobs/child}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop, args: {child: "{{ start.data }}"}}}
"""

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "chain": (CHAIN, {"a": 1, "b": 2, "c": {"é": [None, 2.5]}}),
    "loop": (LOOP, {"a": 7}),
    "parallel": (PARALLEL, {"a": 7}),
    "forked": (FORKED, {"a": 1, "b": 2, "c": 3}),
    "retried": (RETRIED, {"a": [broken(), broken(), 5]}),
    "failed": (FAILED, {"a": broken()}),
    "routed": (ROUTED, {"a": 1, "b": 2}),
    "large": (LARGE, {"a": "x" * 5_000}),
}
AT_ONCE = ("parallel", "forked")  # whose tasks may end in any order


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))


async def ran(text: str, answers: dict[str, Any], db: str) -> tuple[RunResult, list[Event]]:
    """The run and its log as another process reads it."""
    given = {name: list(one) if isinstance(one, list) else one for name, one in answers.items()}
    result = await run_net(net_of(text), payload={}, db=db, tools=Registry({"python": Scripted(**given)}))
    records = await open_records(db)
    events = await records.events(result.execution_id)
    await records.close()
    return result, events


def names(events: Sequence[Event]) -> list[tuple[str | None, str]]:
    return [(event.step, event.event_type) for event in events]


@pytest.mark.req("WRK-08", "EVT-02")
@pytest.mark.parametrize("name", list(RUNS))
async def test_a_run_on_postgres_has_the_same_log_as_on_sqlite(name: str, tmp_path: Path) -> None:
    text, answers = RUNS[name]

    async with borrowed_url() as url:
        there, stored = await ran(text, answers, url)
    here, expected = await ran(text, answers, str(tmp_path / "s.db"))

    assert (there.status, there.result, there.ctx) == (here.status, here.result, here.ctx)
    assert [event.seq for event in stored] == list(range(1, len(stored) + 1))
    if name in AT_ONCE:
        assert Counter(names(stored)) == Counter(names(expected))
    else:
        assert names(stored) == names(expected)


@pytest.mark.req("WRK-08")
async def test_a_nested_playbook_is_found_in_the_catalogue_and_run(tmp_path: Path) -> None:
    logs = []
    for db in (fresh_url(), str(tmp_path / "s.db")):
        async with asyncio.timeout(60), driving(db, tools=Registry({"python": Scripted(b=41)})) as driver:
            await driver.register(playbook(CHILD))
            result = await driver.run(net_of(NESTED))
        assert result.result == {"child": 41}
        store, _ = await open_store(db)
        children = await store.children(result.execution_id)
        logs.append([names(await store.events(one)) for one in (result.execution_id, children[0].execution_id)])
        await store.close()

    assert logs[0] == logs[1]


@pytest.mark.req("SRV-07", "SRV-11")
async def test_a_run_is_paused_resumed_and_cancelled() -> None:
    url, gate = fresh_url(), asyncio.Event()

    class Waiting(Scripted):
        async def run(self, inputs: Any, context: Any) -> Any:
            await gate.wait()
            return await super().run(inputs, context)

    async with asyncio.timeout(60), driving(url, tools=Registry({"python": Waiting(a=1, b=2, c=3)})) as driver:
        first, second = [await driver.start(net_of(CHAIN)) for _ in range(2)]
        assert await driver.pause(first) is ReportResult.ACCEPTED
        assert await driver.pause(first) is ReportResult.DUPLICATE
        assert await driver.cancel(second, "enough") is ReportResult.ACCEPTED
        gate.set()
        assert (await driver.result(second)).status == "cancelled"
        records = await open_records(url)
        row = await records.execution(first)
        assert row is not None
        assert row.status == "paused"
        assert await driver.resume(first) is ReportResult.ACCEPTED
        assert (await driver.result(first)).ok
        kinds = [event.event_type for event in await records.events(first)]
        await records.close()

    assert [kind for kind in kinds if kind in ("playbook.paused", "playbook.resumed", "workflow.finished")] == [
        "playbook.paused",
        "playbook.resumed",
        "workflow.finished",
    ]


async def test_many_executions_run_concurrently_on_one_database() -> None:
    net = net_of(CHAIN)
    async with asyncio.timeout(60), driving(fresh_url(), tools=Registry({"python": Scripted(a=1, b=2, c=3)})) as driver:
        results = await asyncio.gather(*(driver.run(net) for _ in range(40)))

    assert {result.status.value for result in results} == {"completed"}
    assert len({result.execution_id for result in results}) == 40


@pytest.mark.req("WRK-04", "EVT-07")
@pytest.mark.parametrize("text", [CHAIN, FORKED, LOOP], ids=["chain", "forked", "loop"])
async def test_a_run_stopped_after_any_commit_is_resumed_and_ends(text: str) -> None:
    net, recording = net_of(text), Recording()
    await drive(net, recording, Scripted(a=1, b=2, c=3), resumed=False)
    whole = Counter(names(await recording.events("x1")))

    for kept in range(1, len(recording.commits)):
        store = await PostgresStore.open(fresh_url())
        for commits in recording.commits[:kept]:
            await store.commit(commits)
        ended = await drive(net, store, Scripted(a=1, b=2, c=3), resumed=True)
        stored = Counter(names(await store.events("x1")))
        await store.close()

        assert ended.lifecycle.status == "completed"
        repeated = {kind for _, kind in stored - whole}
        assert repeated <= {"task.started", "step.started", "token.claimed", "loop.iteration.started"}, kept
        assert not whole - stored, kept


VICTIM = """
import asyncio, sys
from tests.engine_script import net_of
from noetl.operations.embedded import run_net
asyncio.run(run_net(net_of(sys.argv[1]), payload={}, db=sys.argv[2], execution_id="x1"))
"""
ENDLESS = """
workflow:
  - step: start
    tool:
      - {name: one, kind: python, code: "result = 1"}
      - {name: two, kind: python, code: "import time; time.sleep(99)"}
"""


@pytest.mark.req("WRK-04", "O-06")
async def test_another_process_resumes_the_run_of_a_killed_one() -> None:
    url = fresh_url()
    store = await PostgresStore.open(url)
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    victim = subprocess.Popen([sys.executable, "-c", VICTIM, ENDLESS, url], cwd=REPOSITORY, env=environment)
    async with asyncio.timeout(60):
        while names(await store.events("x1")).count(("start", "task.started")) < 2:
            await asyncio.sleep(0.02)
    victim.send_signal(signal.SIGKILL)
    victim.wait()

    result = await resume("x1", db=url, tools=Registry({"python": Scripted(two=3)}))

    events = await store.events("x1")
    await store.close()
    assert result.result == 3
    tasks = [one.task for one in payloads(events, TaskStarted)]
    assert tasks == ["one", "two", "two"]
