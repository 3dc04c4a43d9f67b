"""Listening: rules that see the events of the whole execution, without a worker meanwhile (V2C-13, O-27)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from noetl.tools.contract import ToolContext, ToolResult
from tests.playbook_runs import Ran, Scripted, broken
from tests.worker.case_running import called, run_case, visited

FORK = """
    - {{step: start, next: [ears, work]}}
    - step: ears
      spec: {{eval_mode: on_event, case_mode: {mode}}}
      {tool}
      case:
{rules}
      {after}
    - {{step: work, tool: {{kind: python, code: x}}, next: more}}
    - {{step: more, tool: {{kind: python, code: x}}, next: end}}
    - {{step: heard, tool: {{kind: python, args: {{all: "{{{{ args }}}}"}}, code: x}}}}
    - {{step: quiet, next: end}}
"""


def fork(*rules: str, mode: str = "exclusive", tool: str = "", after: str = "") -> str:
    return FORK.format(mode=mode, rules="\n".join(f"        - {rule}" for rule in rules), tool=tool, after=after)


def orders_of(ran: Ran, step: str) -> int:
    return sum(1 for event in ran.events if event.event_type == "token.claimed" and event.step == step)


WORK_DONE = "{{ event.step == 'work' and event.name == 'step.done' }}"
ARGS = 'args: {s: "{{ event.step }}", n: "{{ event.name }}", r: "{{ event.result }}"}'


@pytest.mark.req("V2C-13", "EVT-10", "O-27")
@pytest.mark.parametrize("name", ["step.done", "ToolCompleted", "task.processed"])
def test_an_event_of_another_step_matches_by_any_of_its_names(name: str) -> None:
    when = f"{{{{ event.name == '{name}' and event.step == 'more' }}}}"
    rule = f'{{when: "{when}", then: {{next: [{{step: heard, {ARGS}}}]}}}}'

    ran = run_case(fork(rule), more_task={"v": 5})

    assert "heard" in visited(ran)
    got = ran.tool.inputs_of("heard_task")[0]["args"]["all"]
    assert (got["s"], got["r"]) == ("more", {"v": 5})
    assert orders_of(ran, "ears") == 1, "no worker is held while it waits"
    assert ran.types().count("case.waiting") == 1
    assert ran.result.status == "completed"


@pytest.mark.req("V2C-13", "O-27")
@pytest.mark.parametrize("name", ["call.done", "call.error", "step.exit", "start", "token.created", "step.started"])
def test_short_names_and_internal_events_of_others_are_not_delivered(name: str) -> None:
    rule = f"{{when: \"{{{{ event.name == '{name}' and event.step == 'more' }}}}\", then: {{next: heard}}}}"

    ran = run_case(fork(rule, after="next: quiet"))

    assert "heard" not in visited(ran)
    assert "quiet" in visited(ran), "when nothing can come any more, the step exits"


@pytest.mark.req("V2C-13", "V2C-10")
def test_a_worker_runs_the_tasks_of_a_matched_event_and_listens_again() -> None:
    noted = 'noted: {tool: {kind: python, args: {r: "{{ event.result }}"}, code: x}}'
    more = "{{ event.step == 'more' and event.name == 'step.done' and noted.data == 1 }}"
    rules = (
        f'{{when: "{WORK_DONE}", then: [{{{noted}}}]}}',
        f'{{when: "{more}", then: {{set: {{n: 1}}, next: heard}}}}',
    )

    ran = run_case(fork(*rules), work_task=7, noted=1)

    assert ran.tool.inputs_of("noted")[0]["args"] == {"r": 7}
    assert orders_of(ran, "ears") == 2
    assert ran.types().count("case.waiting") == 2
    assert ("heard" in visited(ran), ran.result.ctx) == (True, {"n": 1})


class Gate(Scripted):
    """`noted` runs until `late` has begun."""

    def __init__(self, **answers: Any) -> None:
        super().__init__(**answers)
        self._opened = asyncio.Event()

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if context.task_run.task == "late_task":
            self._opened.set()
        if context.task_run.task == "noted":
            await self._opened.wait()
        return await super().run(inputs, context)


@pytest.mark.req("V2C-13")
def test_events_that_arrive_while_a_rule_runs_are_queued_for_the_step() -> None:
    """`work` and `more` end while the worker is busy with `noted`; their events are not lost, nor their order."""
    text = fork(
        "{when: \"{{ event.name == 'start' }}\", then: [{noted: {tool: {kind: python, code: x}}}]}",
        "{when: \"{{ event.step == 'work' and event.name == 'step.done' }}\", then: {set: {w: 1}}}",
        "{when: \"{{ event.step == 'more' and event.name == 'step.done' and vars.w == 1 }}\", then: {next: heard}}",
        mode="inclusive",
    ).replace("kind: python, code: x}, next: end}", "kind: python, code: x}, next: late}")

    ran = run_case(text + "    - {step: late, tool: {kind: python, code: x}}\n", tool=Gate(noted=1))

    assert ("heard" in visited(ran), ran.result.ctx) == (True, {"w": 1})
    waiting = ran.types().index("case.waiting")
    assert waiting < ran.types().index("case.heard")
    before = {event.step for event in ran.events[:waiting] if event.event_type == "step.done"}
    assert before >= {"work", "more"}


@pytest.mark.req("V2C-13", "V2C-08")
def test_a_step_without_matching_events_exits_with_else_or_next() -> None:
    rule = "{when: \"{{ event.name == 'loop.done' }}\", then: {next: heard}}"
    other = run_case(fork(rule, "{else: {next: quiet}}"))
    plain = run_case(fork(rule, after="next: quiet"))

    for ran in (other, plain):
        assert ("quiet" in visited(ran), "heard" in visited(ran)) == (True, False)
        assert visited(ran).index("quiet") > visited(ran).index("more"), "not before the others have ended"
        assert ran.result.status == "completed"


@pytest.mark.req("V2C-13", "V2C-15")
def test_a_task_that_fails_after_an_event_fails_the_step_unless_a_rule_handles_it() -> None:
    rules = [f'{{when: "{WORK_DONE}", then: [{{noted: {{tool: {{kind: python, code: x}}}}}}]}}']
    bad = run_case(fork(*rules), noted=broken())
    caught = run_case(fork(*rules, "{when: \"{{ event.name == 'call.error' }}\", then: {next: heard}}"), noted=broken())

    assert (bad.result.status, "heard" in visited(bad)) == ("failed", False)
    assert (caught.result.status, "heard" in visited(caught)) == ("completed", True)


@pytest.mark.req("V2C-13", "O-27")
def test_listening_starts_after_the_call_of_the_step() -> None:
    rule = "{when: \"{{ event.name == 'step.done' and event.step == 'start' }}\", then: {next: heard}}"

    ran = run_case(fork(rule, tool="tool: {kind: python, code: x}", after="next: quiet"))

    assert called(ran).count("ears_task") == 1
    assert ("heard" in visited(ran), "quiet" in visited(ran)) == (False, True)


@pytest.mark.req("TPL-04", "V2C-13")
@pytest.mark.parametrize(("cache", "last"), [("true", "quiet"), ("false", "heard")])
def test_a_cached_condition_that_turns_true_later_never_fires(cache: str, last: str) -> None:
    when = "{{ event.step == 'more' and event.name == 'step.done' }}"
    rule = f'{{when: "{when}", spec: {{cache: {cache}}}, then: {{next: heard}}}}'

    ran = run_case(fork(rule, after="next: quiet"))

    assert last in visited(ran)
