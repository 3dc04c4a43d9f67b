"""Many executions on one store, driven side by side, and steered (WRK-08, SRV-07, SRV-11)."""

from __future__ import annotations

import asyncio
import os
import select
from pathlib import Path
from typing import Any

import pytest

from noetl.base.errors import BackendError, RefusedError
from noetl.control.outside import requests
from noetl.events.envelope import Event
from noetl.operations.embedded import driving
from noetl.store.sqlite.store import SqliteStore
from noetl.tools.registry import Registry
from tests.engine_script import net_of, playbook
from tests.playbook_runs import Scripted

TWO = net_of(
    """
workload: {n: 0}
workflow:
  - step: start
    tool: {kind: python, code: x, args: {n: "{{ workload.n }}"}}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, args: {n: "{{ start.data }}"}}
"""
)


def same(inputs: Any, context: Any) -> Any:
    return inputs["args"]["n"]


async def test_many_executions_run_concurrently_with_their_own_results(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(60),
        driving(tmp_path / "s.db", tools=Registry({"python": Scripted(start_task=same)})) as driver,
    ):
        ids = await asyncio.gather(*(driver.start(TWO, {"n": n}) for n in range(50)))
        results = await asyncio.gather(*(driver.result(one) for one in ids))

    assert [result.result for result in results] == [{"n": n} for n in range(50)]
    assert [result.execution_id for result in results] == list(ids)


async def test_a_result_can_be_read_again_by_the_same_or_another_driver(tmp_path: Path) -> None:
    tools = Registry({"python": Scripted(start_task=same)})
    async with driving(tmp_path / "s.db", tools=tools) as driver:
        first = await driver.run(TWO, {"n": 3})
        again = await driver.result(first.execution_id)
    async with driving(tmp_path / "s.db") as other:
        elsewhere = await other.result(first.execution_id)

    assert first == again == elsewhere


async def test_an_execution_that_cannot_start_does_not_affect_the_others() -> None:
    async with driving(":memory:", tools=Registry({"python": Scripted(start_task=same)})) as driver:
        await driver.start(TWO, execution_id="x1")
        starts = [driver.start(TWO, {"n": 1}), driver.start(TWO, execution_id="x1"), driver.start(TWO, {"n": 2})]
        given = await asyncio.gather(*starts, return_exceptions=True)

        first, refused, third = given
        assert isinstance(refused, BackendError)
        assert isinstance(first, str)
        assert isinstance(third, str)
        assert [(await driver.result(one)).result for one in (first, third)] == [{"n": 1}, {"n": 2}]


async def test_a_net_that_cannot_run_is_refused_by_the_driver_before_anything_is_recorded(tmp_path: Path) -> None:
    net = net_of("workflow: [{step: start, tool: {kind: snowflake, command: here}}]")
    async with driving(tmp_path / "s.db") as driver:
        with pytest.raises(RefusedError, match="snowflake"):
            await driver.start(net)

    store = SqliteStore.open(tmp_path / "s.db")
    assert await store.executions() == []
    await store.close()


async def test_an_unfinished_execution_can_be_resumed_later(tmp_path: Path) -> None:
    class Endless(Scripted):
        async def run(self, inputs: Any, context: Any) -> Any:
            await asyncio.Event().wait()

    async with driving(tmp_path / "s.db", tools=Registry({"python": Endless()})) as driver:
        execution_id = await driver.start(TWO, {"n": 5})

    async with driving(tmp_path / "s.db", tools=Registry({"python": Scripted(start_task=same)})) as driver:
        await driver.take_up(execution_id)
        assert (await driver.result(execution_id)).result == {"n": 5}


@pytest.mark.req("SRV-11")
async def test_cancelling_stops_a_running_python_process(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    text = playbook(
        f"""
workflow:
  - step: start
    tool:
      kind: python
      code: |
        import os, time
        open({str(pid)!r} + ".part", "w").write(str(os.getpid()))
        os.rename({str(pid)!r} + ".part", {str(pid)!r})
        time.sleep(600)
    next: {{arcs: [{{step: after, when: "{{{{ event.name == 'step.failed' }}}}"}}]}}
  - step: after
"""
    )
    events: list[Event] = []
    async with asyncio.timeout(110), driving(tmp_path / "s.db", watch=events.extend) as driver:
        execution_id = await driver.start(text)
        while not pid.exists():
            await asyncio.sleep(0.01)
        process = os.pidfd_open(int(pid.read_text()))
        await driver.cancel(execution_id)
        result = await driver.result(execution_id)
        ended = await asyncio.to_thread(lambda: select.select([process], [], [], 100))
        os.close(process)

    assert result.status == "cancelled"
    assert ended[0], "the process is stopped"
    types = [event.event_type for event in events]
    assert types.index("playbook.cancelled") < types.index("workflow.finished")
    assert "task.started" not in types[types.index("playbook.cancelled") :]
    assert "step.failed" not in types


@pytest.mark.req("SRV-07")
async def test_another_process_pauses_and_resumes_a_run_through_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "POLL_S", 0.01)
    begun, gate = asyncio.Event(), asyncio.Event()

    class Gated(Scripted):
        async def run(self, inputs: Any, context: Any) -> Any:
            begun.set()
            await gate.wait()
            return await super().run(inputs, context)

    chain = net_of(
        """
workflow:
  - {step: start, tool: {kind: python, code: x}, next: {arcs: [{step: second}]}}
  - {step: second, tool: {kind: python, code: x}}
"""
    )
    tools = Registry({"python": (tool := Gated())})
    async with asyncio.timeout(60), driving(tmp_path / "s.db", tools=tools) as driver:
        execution_id = await driver.start(chain)
        await begun.wait()
        elsewhere = SqliteStore.open(tmp_path / "s.db")
        assert await _asked(elsewhere, execution_id, "pause") == "accepted"
        gate.set()
        while len(tool.calls) < 1:
            await asyncio.sleep(0)
        row = await elsewhere.execution(execution_id)
        assert row is not None
        assert row.status == "paused"
        assert [name for name, _ in tool.calls] == ["start_task"]
        assert await _asked(elsewhere, execution_id, "resume") == "accepted"
        result = await driver.result(execution_id)
        await elsewhere.close()

    assert result.status == "completed"
    assert [name for name, _ in tool.calls] == ["start_task", "second_task"]


async def _asked(store: SqliteStore, execution_id: str, action: str) -> str:
    number = await store.requests.ask(execution_id, action, reason=None, at=1.0)
    while True:
        request = await store.requests.get(number)
        assert request is not None
        if request.answer is not None:
            return request.answer
        await asyncio.sleep(0.005)


PIPELINES = {
    "a pipeline": "    tool: [{name: one, kind: python, code: x}, {name: two, kind: python, code: x}]",
    "a loop": "    loop: {in: [1, 2, 3, 4], iterator: i}\n    tool: [{name: one, kind: python, code: x}]",
}


@pytest.mark.req("SRV-07")
@pytest.mark.parametrize("kind", list(PIPELINES))
@pytest.mark.parametrize("ending", ["resume", "cancel"])
async def test_a_pause_takes_effect_at_the_next_task_and_frees_the_slot(kind: str, ending: str) -> None:
    """Otherwise pausing a long loop, which is one order, would change nothing until it is over."""
    begun, gate = asyncio.Event(), asyncio.Event()

    class Gated(Scripted):
        async def run(self, inputs: Any, context: Any) -> Any:
            if context.task_run.task == "one":
                begun.set()
                await gate.wait()
            return await super().run(inputs, context)

    tools = Registry({"python": (tool := Gated(start_task=same))})
    slots = 1 if kind == "a pipeline" else 2
    async with asyncio.timeout(60), driving(":memory:", tools=tools, slots=slots) as driver:
        execution_id = await driver.start(net_of("workflow:\n  - step: start\n" + PIPELINES[kind] + "\n"))
        await begun.wait()
        await driver.pause(execution_id)
        gate.set()
        assert (await driver.run(TWO, {"n": 1})).ok, "others go on in the slot"
        assert [name for name, _ in tool.calls].count("one") == 1
        assert "two" not in [name for name, _ in tool.calls]
        await getattr(driver, ending)(execution_id)
        result = await driver.result(execution_id)

    assert result.status == ("completed" if ending == "resume" else "cancelled")
    expected = {"a pipeline": ["one", "two"], "a loop": ["one"] * 4}[kind]
    ran = [name for name, _ in tool.calls if name in ("one", "two")]
    assert ran == (expected if ending == "resume" else ["one"])
