"""`kind: log`: one line in the execution's log."""

from __future__ import annotations

import asyncio

import pytest

from noetl.events.envelope import Event
from noetl.events.tasks import TaskProcessed
from noetl.operations.embedded import RunResult, run_net
from noetl.tools.internal import log_line
from tests.engine_script import net_of


@pytest.mark.req("TOOL-14")
def test_a_log_line_is_the_message_followed_by_the_other_inputs() -> None:
    assert log_line({"message": "stored", "level": "info", "args": {"n": 2}}) == 'stored level="info" args={"n":2}'
    assert log_line({"message": {"n": 1}}) == '{"n":1}'
    assert log_line({"n": None}) == "n=null"


@pytest.mark.req("TOOL-14")
@pytest.mark.parametrize("kind", ["log", "event_log"])
def test_the_log_line_is_stored_as_task_output(kind: str) -> None:
    events: list[Event] = []

    async def running() -> RunResult:
        net = net_of(f"workflow: [{{step: start, tool: {{kind: {kind}, message: 'n is {{{{ 1 + 1 }}}}', n: 2}}}}]")
        return await run_net(net, payload={}, db=":memory:", watch=events.extend)

    result = asyncio.run(running())

    printed = [one.payload.outcome.meta.stdout for one in events if isinstance(one.payload, TaskProcessed)]
    assert printed == ["n is 2 n=2"]
    assert result.result == {"message": "n is 2", "n": 2}
