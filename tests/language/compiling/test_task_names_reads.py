"""What is said of a task's result that is read outside of its step (SCOPE-10, TPL-05)."""

from __future__ import annotations

import pytest

from tests.language.compiling.outcomes import Compile

STEPS = """
- step: start
  tool:
    - { name: fetch, kind: http, url: https://example.com }
    - { name: seen, kind: noop, args: { n: "{{ fetch.n }}" } }
  next: { arcs: [{ step: last, when: "WHEN" }] }
- step: last
  loop: { in: [1], iterator: row }
  tool:
    - { name: own, kind: noop, args: { x: "{{ row }}" } }
    - { name: told, kind: noop, args: { x: "INPUT" } }
"""


@pytest.mark.req("SCOPE-10", "TPL-05", "VAL-20")
@pytest.mark.parametrize(
    ("when", "read", "path", "instead"),
    [
        ("{{ fetch.data.n > 1 }}", "{{ own.data }}", "workflow[0].next.arcs[0].when", "start.results.fetch"),
        ("{{ true }}", "{{ fetch.data.n }}", "workflow[1].tool[1].args.x", "start.results.fetch"),
        ("{{ true }}", "{{ seen.n | default(1) }}", "workflow[1].tool[1].args.x", "start.results.seen"),
    ],
)
def test_reading_a_task_from_another_step_gets_a_hint(
    compiled: Compile, when: str, read: str, path: str, instead: str
) -> None:
    """Quietly undefined, the arc would not be taken, and the value be empty."""
    found = compiled(STEPS.replace("WHEN", when).replace("INPUT", read)).only("W_FOREIGN_NAME")

    assert (found.path, found.hint) == (path, f"write {instead}, or keep the value with set_ctx")
    assert 'task of step "start"' in found.message


@pytest.mark.req("SCOPE-10")
@pytest.mark.parametrize(
    ("when", "read", "root"),
    [
        ("{{ start.n > 1 }}", "{{ own.x }} {{ row }}", ""),
        ("{{ fetch.n > 1 }}", "{{ fetch.n }}", "workload: { fetch: { n: 2 } }"),
        ("{{ start.n }}", "{% for seen in [1] %}{{ seen }}{% endfor %}", ""),
    ],
)
def test_other_uses_of_a_task_name_get_no_finding(compiled: Compile, when: str, read: str, root: str) -> None:
    assert compiled(STEPS.replace("WHEN", when).replace("INPUT", read), root=root).loud == []


@pytest.mark.req("SCOPE-10", "V2E-09")
def test_arcs_of_v2_eval_get_the_same_hint(compiled: Compile) -> None:
    steps = """
    - step: start
      tool: [{ fetch: { kind: noop, args: { n: 1 } } }]
      next: [{ step: end, when: "{{ fetch.n == 1 }}" }]
    - step: end
    """

    assert compiled(steps, api="noetl.io/v2").loud == ["W_FOREIGN_NAME"]


@pytest.mark.req("V2C-10")
def test_a_transition_of_v2_case_can_read_the_tasks_of_its_rule(compiled: Compile) -> None:
    steps = """
    - step: start
      tool: { kind: noop }
      case:
        - when: "{{ event.name == 'call.done' }}"
          then:
            - fetch: { tool: { kind: noop, args: { n: 1 } } }
            - next: { next: [{ step: last, args: { n: "{{ fetch.result.n }}" } }] }
    - { step: last, tool: { kind: noop } }
    """

    assert compiled(steps, api="noetl.io/v2").loud == []


CASE = """
- step: start
  tool: { kind: python, code: result = 1 }
  vars: { n: "{{ compute.n }}" }
  case:
    - when: "{{ event.name == 'call.done' }}"
      then:
        - compute: { tool: { kind: noop, args: { n: 3 } } }
        - next: { next: [{ step: fin, args: { n: "{{ compute.n }}" } }] }
- step: fin
  tool: { kind: noop, args: { n: "READ" } }
"""


@pytest.mark.req("V2C-10", "VAL-20")
def test_another_step_of_v2_case_reads_the_tasks_of_a_rule_through_their_step(compiled: Compile) -> None:
    found = compiled(CASE.replace("READ", "{{ compute.n }}"), api="noetl.io/v2").only("W_FOREIGN_NAME")

    assert (found.path, found.hint) == (
        "workflow[1].tool.args.n",
        "write start.results.compute, or keep the value with vars",
    )


@pytest.mark.req("V2C-10")
@pytest.mark.parametrize("read", ["{{ start.results.compute.n }}", "{{ args.n }}", "{{ vars.n }}"])
def test_the_named_ways_to_a_task_of_a_rule_get_no_finding(compiled: Compile, read: str) -> None:
    assert compiled(CASE.replace("READ", read), api="noetl.io/v2").loud == []
