"""An interrupted pipeline goes on with the secrets it had looked up, which no log holds (TOOL-09, WRK-04)."""

from __future__ import annotations

import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import ToolError
from noetl.events.orders import Order, Position, Report
from noetl.events.outcomes import TaskResult
from noetl.events.secret_materials import Ask, Material
from noetl.events.steps import StepFailed
from noetl.tools.registry import Registry
from noetl.worker.order_run import run_order
from tests.engine_script import net_of
from tests.playbook_runs import Scripted
from tests.worker.accepting_control_plane import AcceptingControlPlane
from tests.worker.orders import order_context

TEXT = """
workload: {which: api_key}
workflow:
  - step: start
    tool:
      - {name: lookup, kind: secrets, secret: "{{ workload.which }}"}
      - {name: use, kind: python, args: {key: "{{ lookup.value }}", prev: "{{ _prev.value }}"}, code: "result = 1"}
"""


class ControlPlane(AcceptingControlPlane):
    """The server of one order: it gives out one secret, or none, and accepts every report."""

    def __init__(self, secret: str | None) -> None:
        self._secret = secret

    async def secret(self, ask: Ask) -> Material:
        if self._secret is None:
            raise ToolError("keychain.unresolved", f'"{ask.name}" is gone')
        return Material(fields={"value": self._secret})


async def resumed(control_plane: ControlPlane, tool: Scripted) -> Report:
    masked = TaskResult(result={"value": "***"})
    order = Order(
        order_id="o",
        execution_id="x",
        step_run_id="r",
        step="start",
        net_hash="h",
        lease_epoch=2,
        trace_id="t",
        args={},
        workload={"which": "api_key"},
        ctx={},
        token={},
        results={},
        position=Position(task="use", visit=2, runs=1, prev=masked, results={"lookup": masked}),
    )

    tools = Registry({"python": tool})
    return await run_order(order_context(order, net_of(TEXT), control_plane, tools, ManualClock()))


@pytest.mark.req("TOOL-09", "WRK-04")
async def test_a_secret_resolved_before_an_interruption_is_resolved_again() -> None:
    tool = Scripted(use=1)

    report = await resumed(ControlPlane("the true key"), tool)

    assert tool.inputs_of("use") == [{"args": {"key": "the true key", "prev": "the true key"}, "code": "result = 1"}]
    assert [timed.entry.event_type for timed in report.entries][-1] == "step.done"
    assert "the true key" not in repr(report)


@pytest.mark.req("TOOL-09")
async def test_a_secret_deleted_meanwhile_fails_the_step_instead_of_sending_a_mask() -> None:
    tool = Scripted(use=1)

    report = await resumed(ControlPlane(None), tool)

    end = report.entries[-1].entry
    assert isinstance(end, StepFailed)
    assert end.error.kind == "keychain.unresolved"
    assert tool.calls == []
