"""Case runs in loops: rules and sinks per iteration, transitions and `loop.done` once after it (V2C-22, V2C-23)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.base.diagnostics import Source
from noetl.language.conversion import convert
from noetl.tools.contract import ToolContext
from noetl.tools.kinds import load_kinds
from tests.playbook_runs import broken
from tests.worker.case_running import called, case_text, fixture, run_case, visited


@pytest.mark.req("V2C-22", "C-08")
def test_the_iterator_is_read_without_prefix_and_under_iter() -> None:
    ran = run_case(fixture("F-001-A"), start_task=lambda inputs, _: inputs["args"]["x"] * 10)

    assert ran.result.result == [10, 20, 30]


def doubled(inputs: Any, context: ToolContext) -> Any:
    value = inputs["args"]["x"]
    if value < 0:
        raise broken()
    return {"v": value * 2}


STORING = """
    - step: start
      loop: {loop}
      tool: {{kind: python, args: {{x: "{{{{ item }}}}", y: "{{{{ iter.item }}}}"}}, code: x}}
      vars: {{all: "{{{{ result }}}}"}}
      case:
        - when: "{{{{ event.name == 'step.exit' }}}}"
          then:
            sink:
              tool: {{kind: postgres, auth: pg_creds, table: t}}
              args: {{v: "{{{{ result.v }}}}", i: "{{{{ iter.index }}}}"}}
      next: end
"""


@pytest.mark.req("V2C-23", "V2C-22", "V2C-21")
@pytest.mark.parametrize(
    "loop",
    [
        "{in: [1, 2, 3], iterator: item}",
        "{in: [1, 2, 3], iterator: item, mode: parallel}",
        "{collection: [1, 2, 3], element: item, spec: {mode: parallel, batch_size: 2}}",
    ],
)
def test_rules_and_sinks_run_in_every_iteration(loop: str) -> None:
    ran = run_case(STORING.format(loop=loop), start_task=doubled)

    rows = [inputs["args"] for inputs in ran.tool.inputs_of("start_case_0_sink")]
    assert sorted(rows, key=lambda row: row["i"]) == [{"v": 2, "i": 0}, {"v": 4, "i": 1}, {"v": 6, "i": 2}]
    assert ran.result.ctx == {"all": [{"v": 2}, {"v": 4}, {"v": 6}]}
    assert sorted(one.path for one in ran.payloads("case.started")) == [(0,), (1,), (2,)]
    assert {one.path for one in ran.payloads("case.evaluated")} == {(0,), (1,), (2,)}
    assert (visited(ran), ran.result.status) == (["start", "end"], "completed")


DECIDING = """
    - step: start
      loop: {{in: [1, -1, 3, 4], iterator: item, mode: {mode}}}
      tool: {{kind: python, args: {{x: "{{{{ item }}}}"}}, code: x}}
      case:
        - {{when: "{{{{ event.name == 'call.error' }}}}", then: {{next: [{{step: b, args: {{n: "{{{{ item }}}}"}}}}]}}}}
        - {{when: "{{{{ response.v > 5 }}}}", then: {{next: [{{step: a, args: {{n: "{{{{ result.v }}}}"}}}}]}}}}
      next: c
    - {{step: a, tool: {{kind: python, args: {{n: "{{{{ args.n }}}}"}}, code: x}}}}
    - {{step: b, tool: {{kind: python, args: {{n: "{{{{ args.n }}}}"}}, code: x}}}}
    - {{step: c, next: end}}
"""


@pytest.mark.req("V2C-23", "V2C-24")
@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_transitions_of_iterations_are_taken_once_each_after_the_loop(mode: str) -> None:
    ran = run_case(DECIDING.format(mode=mode), start_task=doubled)

    assert visited(ran) == ["start", "b", "a"], "in the order of the iterations that decided them"
    assert ran.tool.inputs_of("a_task")[0]["args"] == {"n": 6}
    assert ran.tool.inputs_of("b_task")[0]["args"] == {"n": -1}
    assert ran.payloads("loop.done")[0].results == [{"v": 2}, None, {"v": 6}, {"v": 8}]
    types = ran.types()
    assert types.index("loop.done") < types.index("next.selected") < types.index("next.enqueued")


@pytest.mark.req("V2C-23", "V2C-15", "LOOP-10")
@pytest.mark.parametrize(
    ("spec", "status", "last"),
    [("{mode: sequential}", "failed", "start"), ("{mode: sequential, on_error: continue}", "completed", "end")],
)
def test_an_unhandled_failing_iteration_fails_the_loop_unless_it_continues(spec: str, status: str, last: str) -> None:
    ran = run_case(STORING.format(loop=f"{{collection: [1, -1, 3], element: item, spec: {spec}}}"), start_task=doubled)

    assert (ran.result.status, visited(ran)[-1]) == (status, last)


@pytest.mark.req("V2C-23", "V2C-16", "V2C-17")
def test_every_iteration_has_its_own_retries_and_pages() -> None:
    def page(inputs: Any, context: ToolContext) -> Any:
        x, n = inputs["args"]["x"], inputs["args"]["n"]
        return {"items": [f"{x}{n}"], "n": n, "more": n < x}

    ran = run_case(
        """
        - step: start
          loop: {in: [1, 2, 3], iterator: x, mode: parallel}
          tool: {kind: python, args: {x: "{{ x }}", n: 1}, code: x}
          retry:
            - when: "{{ response.more }}"
              then: {max_attempts: 9, next_call: {args: {n: "{{ response.n + 1 }}"}}, collect: {path: items, into: all}}
        """,
        start_task=page,
    )

    assert [one["all"] for one in ran.result.result] == [["11"], ["21", "22"], ["31", "32", "33"]]
    assert called(ran).count("start_task") == 6


@pytest.mark.req("V2C-09", "SCOPE-05", "SCOPE-06")
def test_set_in_a_parallel_loop_is_write_once() -> None:
    steps = """
        - step: start
          loop: {in: [1, 2], iterator: x, mode: parallel}
          tool: {kind: python, code: x}
          case: [{when: "{{ event.name == '%s' }}", then: {set: {%s: "{{ x }}"}}}]
        """
    own = run_case(steps % ("call.done", '"r.{{ x }}"'))
    conflict = run_case(steps % ("call.done", "k"))
    at_entry = run_case(steps % ("step.enter", "k"))

    assert own.result.ctx == {"r": {"1": 1, "2": 2}}
    for ran in (conflict, at_entry):
        assert ran.result.error is not None
        assert ran.result.error.kind == "ctx.conflict"


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
def test_tasks_of_a_rule_run_once_and_then_the_step_continues(
    form: str, then: str, tasks: list[str], last: str
) -> None:
    text = case_text(STEPS.replace("THEN", then))
    if form == "migrated":
        text = convert(Source("t.yaml", text), kinds=load_kinds()).text or ""

    ran = run_case(text, start_task=[{"n": 1}, {"n": 2}, {"n": 3}])

    assert called(ran) == ["start_task"] * 3 + [*tasks, last]
    assert ran.tool.inputs_of(tasks[0])[0]["args"] == {"all": [{"n": 1}, {"n": 2}, {"n": 3}]}
    assert ran.result.ctx == ({"seen": 5} if "seen" in then else {})
