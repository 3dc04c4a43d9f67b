"""Playbooks that call playbooks (TOOL-11, O-02, O-08, O-16, O-17)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from noetl.events.control import PlaybookCancelled
from noetl.events.envelope import Event
from noetl.events.executions import ExecutionRequested
from noetl.events.side_runs import AsyncDone
from noetl.operations.embedded import Driver, RunResult, driving
from noetl.tools.registry import Registry
from tests.engine_script import net_of, playbook
from tests.narrowing import payload, payloads
from tests.playbook_runs import Scripted, broken
from tests.stalled_timeouts import no_time_passes_until

HEAD = "apiVersion: noetl.io/v10\nkind: Playbook\n"


def named(path: str, text: str) -> str:
    return HEAD + f"metadata: {{name: {path.rsplit('/')[-1]}, path: {path}}}\n" + text


def calling(inputs: str, *, spec: str = "{}", more: str = "") -> str:
    return playbook(
        f"""
workflow:
  - step: start
    tool:
      - {{name: child, kind: playbook, {inputs}, spec: {spec}}}
      - {{name: read, kind: noop, args: {{got: "{{{{ child.data }}}}", all: "{{{{ child.result }}}}"}}}}
{more}"""
    )


CHILD = named(
    "jobs/child",
    """
workload: {n: 1, deep: {x: 1, y: 2}}
workflow:
  - step: start
    tool:
      kind: python
      code: x
      args: {n: "{{ workload.n }}", deep: "{{ workload.deep }}", ctx: "{{ ctx.k | default('none') }}"}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: noop, args: {doubled: "{{ start.data }}"}}
""",
)


class World:
    """A driver with everything beside it that a test looks at."""

    def __init__(self, driver: Driver, events: list[Event], tool: Scripted) -> None:
        self.driver, self.events, self.tool = driver, events, tool

    def of(self, execution_id: str) -> list[Event]:
        return [event for event in self.events if event.execution_id == execution_id]

    def children(self) -> list[str]:
        requested = [(event, event.payload) for event in self.events if isinstance(event.payload, ExecutionRequested)]
        return [event.execution_id for event, request in requested if request.parent_execution_id]

    async def until(self, there: Callable[[], Any]) -> None:
        async with asyncio.timeout(60):
            while not there():
                await asyncio.sleep(0)


@asynccontextmanager
async def world(*registered: str, tool: Scripted | None = None, slots: int = 8, **answers: Any) -> AsyncIterator[World]:
    events: list[Event] = []
    tool = tool or Scripted(**answers)
    async with driving(":memory:", tools=Registry({"python": tool}), watch=events.extend, slots=slots) as driver:
        for text in registered:
            await driver.register(text)
        yield World(driver, events, tool)


def double(inputs: Any, context: Any) -> Any:
    return inputs["args"]["n"] * 2


async def ran(text: str, *registered: str, **answers: Any) -> tuple[RunResult, World]:
    async with asyncio.timeout(60), world(*registered, **answers) as here:
        return await here.driver.run(text), here


@pytest.mark.req("TOOL-11", "O-08", "TOK-01")
async def test_a_parent_reads_the_result_of_its_child() -> None:
    result, here = await ran(calling("path: jobs/child, args: {n: 4, deep: {y: 3}}"), CHILD, start_task=double)

    [child] = here.children()
    assert result.status == "completed"
    assert result.result["got"] == {"doubled": 8}
    assert result.result["all"] == {"execution_id": child, "status": "completed", "data": {"doubled": 8}}
    assert here.tool.inputs_of("start_task")[0]["args"]["deep"] == {"x": 1, "y": 3}
    assert len({event.trace_id for event in here.events}) == 1, "one trace over parent and child"
    requested = payload(here.of(child)[0], ExecutionRequested)
    assert requested.parent_execution_id == result.execution_id
    assert requested.depth == 1


@pytest.mark.req("TOOL-11")
async def test_resources_that_tools_hold_for_a_child_are_released_when_it_ends() -> None:
    """Not only when its parent does, which may be much later."""
    kept: list[str] = []

    class Keeping(Scripted):
        def release(self, execution_id: str) -> None:
            kept.append(execution_id)

    async with asyncio.timeout(60), world(CHILD, tool=Keeping(child=double)) as here:
        parent = await here.driver.start(calling("path: jobs/child"))
        await here.driver.result(parent)

        assert kept[:2] == [*here.children(), parent]


async def test_a_parent_and_its_child_complete_with_one_slot() -> None:
    result, _ = await ran(calling("path: jobs/child"), CHILD, slots=1, start_task=double)

    assert result.status == "completed"


@pytest.mark.req("TOOL-11")
async def test_slots_lent_while_waiting_are_returned() -> None:
    """Parents wait in every slot; no more orders are worked on at a time than there are slots."""
    at_work, most = 0, 0

    class Counting(Scripted):
        async def run(self, inputs: Any, context: Any) -> Any:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            for _ in range(5):
                await asyncio.sleep(0)
            at_work -= 1
            return await super().run(inputs, context)

    text = playbook(
        """
workflow:
  - step: start
    tool: [{name: child, kind: playbook, path: jobs/child}, {name: work, kind: python, code: x}]
"""
    )
    async with asyncio.timeout(60), world(CHILD, tool=Counting(start_task=double), slots=2) as here:
        ids = await asyncio.gather(*(here.driver.start(text) for _ in range(12)))
        results = [await here.driver.result(one) for one in ids]

    assert {result.status for result in results} == {"completed"}
    assert most == 2


@pytest.mark.req("TOOL-11")
async def test_a_policy_handles_a_failed_child_as_an_error() -> None:
    rule = """{when: "{{ outcome.error.kind == 'playbook.failed' }}", then: {do: continue, set_ctx: {why: WHY}}}"""
    policy = f"{{policy: {{rules: [{rule}]}}}}".replace("WHY", '"{{ outcome.error.details }}"')
    result, here = await ran(
        calling("path: jobs/child", spec=policy), CHILD, start_task=broken("py.exception", "no luck")
    )

    assert result.status == "completed"
    assert result.ctx["why"]["child_status"] == "failed"
    assert result.ctx["why"]["execution_id"] == here.children()[0]
    assert result.ctx["why"]["child_error"]["message"] == "no luck"


@pytest.mark.req("TOOL-11")
async def test_without_a_policy_a_failed_child_fails_its_parent() -> None:
    result, _ = await ran(calling("path: jobs/child"), CHILD, start_task=broken("py.exception", "no luck"))

    assert result.status == "failed"
    assert result.error is not None
    assert result.error.message == '"jobs/child" failed: py.exception: no luck'


async def test_a_child_without_a_required_input_fails_and_names_it() -> None:
    child = CHILD.replace("workload: {n: 1,", "executor: {spec: {required_inputs: [n]}}\nworkload: {n: null,")
    lacking, here = await ran(calling("path: jobs/child"), child, start_task=7)
    bringing, _ = await ran(calling("path: jobs/child, args: {n: 2}"), child, start_task=7)

    assert lacking.error is not None
    assert '"jobs/child" needs the input "n", which this start does not bring' in lacking.error.message
    assert [event.event_type for event in here.of(here.children()[0])][-1] == "playbook.processed"
    assert bringing.status == "completed"


@pytest.mark.req("TOOL-11")
async def test_nesting_beyond_max_depth_is_refused() -> None:
    text = named(
        "jobs/again",
        """
executor: {spec: {policy: {limits: {max_depth: 3}}}}
workflow:
  - step: start
    tool: {kind: playbook, path: jobs/again}
""",
    )
    result, here = await ran(text)

    assert result.status == "failed"
    assert len(here.children()) == 3
    assert result.error is not None
    assert '"jobs/again" would be nested 4 deep, and executor.spec.policy.limits.max_depth is 3' in result.error.message


async def test_an_unknown_playbook_is_an_error_that_names_the_searched_places() -> None:
    result, _ = await ran(calling("path: jobs/none"))
    assert result.error is not None
    assert 'no playbook "jobs/none" beside the one that calls it, nor registered here' in result.error.message

    result, _ = await ran(calling("path: jobs/child, version: 7"), CHILD)
    assert result.error is not None
    assert 'no version 7 of "jobs/child" is registered here' in result.error.message


@pytest.mark.req("O-17")
async def test_a_call_uses_the_named_version_or_the_newest() -> None:
    newer = CHILD.replace("doubled:", "tripled:")
    both = playbook(
        """
workflow:
  - step: start
    tool:
      - {name: old, kind: playbook, path: jobs/child, version: 1}
      - {name: new, kind: playbook, path: jobs/child}
      - {name: read, kind: noop, args: {old: "{{ old.data }}", new: "{{ new.data }}"}}
"""
    )
    result, _ = await ran(both, CHILD, newer, start_task=5)

    assert result.result == {"old": {"doubled": 5}, "new": {"tripled": 5}}


async def test_return_step_returns_the_result_of_that_step() -> None:
    result, _ = await ran(calling("path: jobs/child, return_step: start"), CHILD, start_task=7)
    assert result.result["got"] == 7

    result, _ = await ran(calling("path: jobs/child, return_step: nope"), CHILD, start_task=7)
    assert result.error is not None
    assert 'return_step "nope" is not a step of "jobs/child"' in result.error.message


@pytest.mark.req("SCOPE-02")
async def test_a_child_has_its_own_ctx() -> None:
    rules = "[{else: {then: {do: continue, set_ctx: {k: 1}}}}]"
    first = f"    tool:\n      - {{name: first, kind: noop, spec: {{policy: {{rules: {rules}}}}}}}\n"
    text = calling("path: jobs/child").replace("    tool:\n", first)
    _, here = await ran(text, CHILD, start_task=1)

    assert here.tool.inputs_of("start_task")[0]["args"]["ctx"] == "none"


@pytest.mark.req("O-08", "TOOL-12")
async def test_an_async_call_returns_at_once_and_the_execution_ends_after_the_child() -> None:
    held = asyncio.Event()

    class Slow(Scripted):
        async def run(self, inputs: Any, context: Any) -> Any:
            if context.task_run.task == "start_task":
                await held.wait()
            return await super().run(inputs, context)

    text = calling("path: jobs/child", spec="{async: true}")
    async with asyncio.timeout(60), world(CHILD, tool=Slow(start_task=1)) as here:
        running = asyncio.ensure_future(here.driver.run(text))
        await here.until(lambda: any(event.event_type == "token.consumed" for event in here.events))
        [child] = here.children()
        assert not any(event.event_type == "workflow.finished" for event in here.events), "its step has gone on"
        held.set()
        result = await running

    assert result.result["all"] == {"execution_id": child}
    [done] = payloads(here.of(result.execution_id), AsyncDone)
    assert done.result.result["execution_id"] == child


class Endless(Scripted):
    """A tool of the child that never ends by itself, and notices that it was stopped."""

    def __init__(self, **answers: Any) -> None:
        super().__init__(**answers)
        self.stopped = 0

    async def run(self, inputs: Any, context: Any) -> Any:
        if context.task_run.task != "start_task":
            return await super().run(inputs, context)
        self.calls.append((context.task_run.task, dict(inputs)))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.stopped += 1
            raise


@pytest.mark.req("O-02", "SRV-11")
async def test_cancelling_a_parent_cancels_its_children_in_the_same_commit() -> None:
    async with asyncio.timeout(60), world(CHILD, tool=(tool := Endless())) as here:
        parent = await here.driver.start(calling("path: jobs/child"))
        await here.until(lambda: tool.calls)
        await here.driver.cancel(parent, "enough")
        result = await here.driver.result(parent)
        [child] = here.children()
        ended = await here.driver.result(child)
        await here.until(lambda: tool.stopped)

    assert (result.status, ended.status) == ("cancelled", "cancelled")
    assert ended.error is not None
    assert ended.error.message == "its parent was cancelled"


@pytest.mark.req("O-16")
async def test_pausing_a_parent_pauses_its_children() -> None:
    held = asyncio.Event()

    class Slow(Scripted):
        async def run(self, inputs: Any, context: Any) -> Any:
            self.calls.append((context.task_run.task, {}))
            await held.wait()
            return await super().run(inputs, context)

    steps = "[{step: start, TOOL, next: {arcs: [{step: b}]}}, {step: b, TOOL}]"
    text = named("jobs/child", f"workflow: {steps}".replace("TOOL", "tool: {kind: python, code: x}"))
    async with asyncio.timeout(60), world(text, tool=(tool := Slow())) as here:
        parent = await here.driver.start(calling("path: jobs/child"))
        await here.until(lambda: tool.calls)
        await here.driver.pause(parent)
        [child] = here.children()
        held.set()
        await here.until(lambda: any(event.event_type == "next.enqueued" for event in here.of(child)))
        types = [event.event_type for event in here.of(child)]
        assert "playbook.paused" in types
        assert types.count("step.scheduled") == 1, "the second step of the child waits"
        await here.driver.resume(parent)
        assert (await here.driver.result(parent)).status == "completed"


@pytest.mark.req("TOOL-11")
async def test_a_call_that_times_out_cancels_its_child(monkeypatch: pytest.MonkeyPatch) -> None:
    no_time_passes_until(lambda: tool.calls, monkeypatch)
    async with world(CHILD, tool=(tool := Endless())) as here:
        result = await here.driver.run(calling("path: jobs/child", spec="{timeout: 0.05}"))
        await here.driver.drained()
        [child] = here.children()

    assert result.error is not None
    assert result.error.kind == "timeout"
    assert tool.stopped == 1
    assert [event.event_type for event in here.of(child)].count("playbook.cancelled") == 1


@pytest.mark.req("WRK-07", "O-02")
async def test_a_step_that_times_out_cancels_its_child(monkeypatch: pytest.MonkeyPatch) -> None:
    no_time_passes_until(lambda: tool.calls, monkeypatch)
    text = calling("path: jobs/child").replace(
        "  - step: start\n", "  - step: start\n    spec: {policy: {lifecycle: {timeout_s: 0.05}}}\n"
    )
    async with world(CHILD, tool=(tool := Endless())) as here:
        result = await here.driver.run(text)
        await here.driver.drained()
        [child] = here.children()

    assert result.error is not None
    assert result.error.kind == "timeout"
    cancelled = payloads(here.of(child), PlaybookCancelled)
    assert cancelled[0].reason == "the step that waited for it has ended"


@pytest.mark.req("TOOL-11")
async def test_a_loop_calls_a_child_for_each_item() -> None:
    text = playbook(
        """
workflow:
  - step: start
    loop: {in: [1, 2, 3], iterator: x, spec: {mode: parallel}}
    tool: {kind: playbook, path: jobs/child, args: {n: "{{ iter.x }}"}}
"""
    )
    result, here = await ran(text, CHILD, start_task=double)

    assert result.result == [{"doubled": 2}, {"doubled": 4}, {"doubled": 6}]
    assert len(here.children()) == 3


def test_a_nested_net_with_an_unavailable_tool_is_loaded_with_a_warning() -> None:
    net = net_of("workflow: [{step: start, tool: {kind: snowflake, command: here}}]")
    assert net.path == "tests/test"

    async def scene() -> RunResult:
        async with world() as here:
            await here.driver.register(net)
            return await here.driver.run(
                calling("path: tests/test").replace("path: tests/test}\n", "path: tests/caller}\n", 1)
            )

    result = asyncio.run(scene())
    assert result.error is not None
    assert 'tool kind "snowflake"' in result.error.message
