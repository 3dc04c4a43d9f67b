"""Step runs that take too long, and tasks that must not be repeated (WRK-07, O-06, O-21)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from noetl.base.clock import ManualClock
from noetl.events.orders import Turn, TurnAnswer
from noetl.events.steps import StepDone, StepFailed
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.tools.registry import Registry
from noetl.worker.order_run import run_order
from tests.engine_script import net_of
from tests.playbook_runs import Ran, Scripted, run_here
from tests.stalled_timeouts import no_time_passes_until
from tests.worker.accepting_control_plane import AcceptingControlPlane
from tests.worker.orders import an_order, order_context


class Endless(Scripted):
    """A tool that never ends by itself, and notices that it was stopped."""

    def __init__(self, **answers: Any) -> None:
        super().__init__(**answers)
        self.begun = self.stopped = 0

    async def run(self, inputs: Any, context: Any) -> Any:
        if context.task_run.task != "slow":
            return await super().run(inputs, context)
        self.begun += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.stopped += 1
            raise


def lived(lifecycle: str, tool: Scripted) -> Ran:
    return run_here(
        f"""
workflow:
  - step: start
    spec: {{policy: {{lifecycle: {lifecycle}}}}}
    tool: [{{name: quick, kind: python, code: x}}, {{name: slow, kind: python, code: x}}]
    next:
      arcs:
        - step: cleanup
          when: "{{{{ event.name == 'step.failed' }}}}"
          args: {{kind: "{{{{ event.error.kind }}}}"}}
  - step: cleanup
    tool: {{kind: noop, args: {{kind: "{{{{ args.kind }}}}"}}}}
""",
        tool=tool,
    )


@pytest.mark.req("WRK-07", "ROUTE-09")
@pytest.mark.parametrize(
    ("lifecycle", "kind"),
    [
        ("{timeout_s: 0.05}", "timeout"),
        ("{deadline_s: 0.05}", "deadline"),
        ("{timeout_s: 0.05, deadline_s: 60}", "timeout"),
        ("{timeout_s: 60, deadline_s: 0.05}", "deadline"),
    ],
)
def test_a_step_past_its_timeout_is_stopped_and_its_arcs_see_the_reason(
    lifecycle: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = Endless()
    no_time_passes_until(lambda: tool.begun, monkeypatch)

    ran = lived(lifecycle, tool)

    assert tool.stopped == 1
    assert ran.payloads("step.failed")[0].error.kind == kind
    assert ran.result.status == "completed"
    assert ran.result.result == {"kind": kind}
    assert [one.task for one in ran.payloads("task.processed")] == ["quick", "cleanup_task"]


def test_a_step_within_its_timeout_ends_as_usual() -> None:
    ran = lived("{timeout_s: 60}", Scripted())

    assert "step.failed" not in ran.types()
    assert ran.payloads("step.scheduled")[0].timeout_s == 60.0


def test_an_invalid_lifetime_fails_the_token() -> None:
    ran = lived("{timeout_s: \"{{ 'soon' }}\"}", Scripted())

    assert ran.result.error is not None
    assert "soon" in ran.result.error.message


class Desk(AcceptingControlPlane):
    """An office that takes every report and gives nothing."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []

    async def turn(self, turn: Turn) -> TurnAnswer:
        self.turns.append(turn)
        return await super().turn(turn)


def take_up(
    spec: dict[str, Any], *, interrupted: bool, rules: list[Any] | None = None
) -> tuple[Scripted, Desk, list[Any]]:
    """Run an order that stands at its one task, as after a lost lease."""
    policy = {"policy": {"rules": rules}} if rules else {}
    task = {"name": "pay", "kind": "python", "code": "x", "spec": {**spec, **policy}}
    net = net_of(f"workflow: {json.dumps([{'step': 'start', 'tool': [task]}])}")
    order = an_order("pay", lease_epoch=2, interrupted=interrupted)
    desk, tool, clock = Desk(), Scripted(pay=7), ManualClock()
    tools = Registry({"python": tool})
    report = asyncio.run(run_order(order_context(order, net, desk, tools, clock)))
    return tool, desk, [timed.entry for timed in report.entries]


@pytest.mark.req("O-06")
def test_an_interrupted_task_is_repeated_unless_on_lost_says_fail() -> None:
    tool, _, entries = take_up({}, interrupted=True)
    assert len(tool.calls) == 1
    assert isinstance(entries[-1], StepDone)

    tool, _, entries = take_up({"on_lost": "fail"}, interrupted=True)
    assert tool.calls == []
    assert isinstance(entries[-1], StepFailed)
    assert entries[-1].error.kind == "lease.lost"


def test_a_policy_handles_a_lost_task_like_any_error() -> None:
    lost = "{{ outcome.error.kind == 'lease.lost' and outcome.error.details.unknown }}"
    rule = {"when": lost, "then": {"do": "break"}}

    _, _, entries = take_up({"on_lost": "fail"}, interrupted=True, rules=[rule])

    assert isinstance(entries[-1], StepDone)


def test_the_start_of_a_non_repeatable_task_is_recorded_before_it_runs() -> None:
    _, desk, entries = take_up({"on_lost": "fail"}, interrupted=False)

    told = [timed.entry for turn in desk.turns for report in turn.reports for timed in report.entries]
    assert [type(entry) for entry in told] == [TaskStarted]
    assert [type(entry) for entry in entries] == [TaskProcessed, StepDone]
