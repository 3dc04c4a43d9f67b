"""Tasks of a v2-case rule on `loop.done` run once, after the loop (V2C-23)."""

from __future__ import annotations

import pytest

from noetl.base.diagnostics import Source
from noetl.language.conversion import convert
from noetl.tools.kinds import load_kinds
from tests.worker.case_running import called, case_text, run_case

STEPS = """
- step: start
  loop: {in: [1, 2, 3], iterator: x}
  tool: {kind: http, url: u, args: {x: "{{ x }}"}}
  case:
    - when: "{{ event.name == 'loop.done' }}"
      then: THEN
  next: b
- {step: b, tool: {kind: http, url: b, args: {seen: "{{ vars.seen }}"}}}
- {step: c, tool: {kind: http, url: c}}
"""
TELL = "{tell: {tool: {kind: python, code: 'result = 1', args: {all: '{{ result }}'}}}}"
SINK = "{tool: {kind: postgres, auth: pg_creds, table: t}, args: {all: '{{ result }}'}}"


@pytest.mark.req("V2C-23")
@pytest.mark.parametrize(
    ("then", "tasks", "last"),
    [
        (f"[{TELL}]", ["tell"], "b_task"),
        (f"[{TELL}, {{set: {{seen: 5}}}}]", ["tell"], "b_task"),
        (f"[{TELL}, {{next: c}}]", ["tell"], "c_task"),
        (f"{{sink: {SINK}, set: {{seen: 5}}, next: c}}", ["start_after_loop_case_0_sink"], "c_task"),
    ],
)
@pytest.mark.parametrize("form", ["written", "migrated"])
def test_the_tasks_run_once_and_then_the_step_leads_on(form: str, then: str, tasks: list[str], last: str) -> None:
    text = case_text(STEPS.replace("THEN", then))
    if form == "migrated":
        text = convert(Source("t.yaml", text), kinds=load_kinds()).text or ""

    ran = run_case(text, start_task=[{"n": 1}, {"n": 2}, {"n": 3}])

    assert called(ran) == ["start_task"] * 3 + [*tasks, last]
    assert ran.tool.inputs_of(tasks[0])[0]["args"] == {"all": [{"n": 1}, {"n": 2}, {"n": 3}]}
    assert ran.result.ctx == ({"seen": 5} if "seen" in then else {})
