"""The debug map: every compiled element leads back to its text (SUGAR-06)."""

from __future__ import annotations

from noetl.net.debug import arc_address, part_address, rule_address, step_address, task_address
from tests.language.compiling.outcomes import Compile

TEXT = """
- step: start
  args: { n: 1 }
  spec:
    join: all
    concurrency: { limit: 1 }
    policy: { admit: { rules: [{ else: { then: { allow: true } } }] }, lifecycle: { timeout_s: 5 } }
  tool:
    - name: work
      kind: noop
      spec:
        policy:
          rules:
            - else: { then: { do: break } }
  compensate: { tool: { kind: noop } }
  next:
    arcs:
      - step: end
        when: "{{ ctx.x }}"
- step: end
  timer: { duration: 5s }
"""


def test_elements_of_a_step_have_their_lines(compiled: Compile) -> None:
    result = compiled(TEXT)
    lines = {address: origin.span.line for address, origin in result.debug.items()}

    assert result.loud == []
    assert {
        step_address("start"): 6,
        part_address("start", "args"): 7,
        part_address("start", "join"): 9,
        part_address("start", "concurrency"): 10,
        part_address("start", "admission"): 11,
        part_address("start", "lifecycle"): 11,
        task_address("start", "work"): 13,
        rule_address("start", "work", 0): 18,
        task_address("start", "start_compensate", "compensation"): 19,
        part_address("start", "next"): 20,
        arc_address("start", 0): 22,
        f"{arc_address('start', 0)}/when": 23,
        step_address("end"): 24,
        part_address("end", "timer"): 25,
    }.items() <= lines.items()


def test_a_workbook_task_links_to_its_reference(compiled: Compile) -> None:
    result = compiled("- step: start\n  tool: { kind: workbook, task: a }", root="workbook: { a: { kind: noop } }")
    origin = result.debug[task_address("start", "start_task")]

    assert (origin.path, origin.span.line, origin.construct) == ("workflow[0].tool", 7, "workbook")


def test_the_net_contains_no_source_positions(compiled: Compile) -> None:
    moved = compiled("\n\n# moved\n" + TEXT)

    assert moved.net == compiled(TEXT).net
