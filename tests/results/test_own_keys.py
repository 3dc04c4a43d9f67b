"""Results read by their own keys in whole runs: steps, tasks, loops, policies, arcs (TPL-07)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.tools.contract import ToolResult
from tests.playbook_runs import run_here

ORDER = {"status": "shipped", "error": "none", "rows": [1], "ref": "INV-7", "n": 1}
READ = """
workflow:
  - step: start
    tool: {name: one, kind: python, code: x}
    next: {arcs: [{step: seen}]}
  - step: seen
    tool: {kind: noop, args: {got: "TEMPLATE"}}
"""


@pytest.mark.parametrize(
    ("template", "gave", "expected"),
    [
        ("{{ [start.status, start.error, start.rows, start.ref] }}", ORDER, ["shipped", "none", [1], "INV-7"]),
        ("{{ [start.status, start.error] }}", {"n": 1}, ["success", None]),
        ("{{ start._outcome.status }}", ORDER, "success"),
        ("{{ start._ref is defined }}", ORDER, False),
        ("{{ start.data.result.n }}", ORDER, 1),
        ("{{ start.data.n }}", {"data": {"n": 2}}, 2),
        ("{{ start.rows[0].id }}", ToolResult(result={"data": [{"id": 7}, {"id": 8}]}, wrapped=True), 7),
        ("{{ start.results.one.n }}", ORDER, 1),
        ("{{ start.results.one.status }}", ORDER, "shipped"),
    ],
)
@pytest.mark.req("TPL-07")
def test_a_step_is_read_by_the_keys_of_its_result(template: str, gave: Any, expected: Any) -> None:
    ran = run_here(READ.replace("TEMPLATE", template), one=gave)

    assert ran.result.result == {"got": expected}


@pytest.mark.req("TPL-07", "OUT-01")
def test_prev_and_the_result_of_an_outcome_follow_the_same_rule() -> None:
    text = """
    workflow:
      - step: start
        tool:
          - name: one
            kind: python
            code: x
            spec:
              policy:
                rules: [{else: {then: {do: continue, set_ctx: {n: "{{ outcome.result.data.n }}"}}}}]
          - {name: two, kind: noop, args: {status: "{{ _prev.status }}", told: "{{ _prev._outcome.status }}"}}
        next: {arcs: [{step: seen, args: {n: "{{ event.result.data.told }}", m: "{{ event.data.told }}"}}]}
      - step: seen
        tool: {kind: noop, args: {got: "{{ [ctx.n, start.status, args.n, args.m] }}"}}
    """

    assert run_here(text, one=ORDER).result.result == {"got": [1, "shipped", "success", "success"]}


@pytest.mark.req("TPL-07", "TPL-06")
def test_loop_means_the_iteration_inside_a_loop_and_its_results_after_it() -> None:
    text = """
    workflow:
      - step: start
        loop: {in: "{{ ['a', 'b'] }}", iterator: letter}
        tool: {kind: noop, args: {at: "{{ loop.index }}", it: "{{ loop.item }}", first: "{{ loop.first }}"}}
        set_ctx: {total: "{{ loop.total }}"}
        next: {arcs: [{step: seen, args: {first: "{{ loop.results[0].it }}", done: "{{ loop.done }}"}}]}
      - step: seen
        tool: {kind: noop, args: {got: "{{ [args.first, args.done, ctx.total, start.results[1]] }}"}}
    """

    ran = run_here(text)

    assert ran.result.result == {"got": ["a", 2, 2, {"at": 1, "it": "b", "first": False}]}


@pytest.mark.req("TPL-07", "RES-06")
def test_results_of_a_large_loop_are_read_from_the_results_store() -> None:
    text = """
    executor: {spec: {policy: {limits: {max_payload_bytes: 200}}}}
    workflow:
      - step: start
        loop: {in: "{{ [1, 2] }}", iterator: n}
        tool: {name: one, kind: python, code: x}
        next:
          arcs: [{step: seen, args: {n: "{{ loop.results | length }}", m: "{{ event.data.results[1] | length }}"}}]
      - step: seen
        tool: {kind: noop, args: {got: "{{ args }}"}}
    """

    assert run_here(text, one="y" * 150).result.result == {"got": {"n": 2, "m": 150}}


@pytest.mark.req("TPL-06")
def test_an_authored_name_takes_precedence_over_loop() -> None:
    text = """
    workload: {loop: {index: mine}}
    workflow:
      - step: start
        loop: {in: "{{ [1] }}", iterator: n}
        tool: {kind: noop, args: {at: "{{ loop.index }}"}}
    """

    assert run_here(text).result.result == [{"at": "mine"}]


@pytest.mark.req("TPL-07", "RES-06")
def test_a_stored_result_still_has_its_own_status() -> None:
    text = """
    executor: {spec: {policy: {limits: {max_payload_bytes: 200}}}}
    workflow:
      - step: start
        tool: {name: one, kind: python, code: x}
        next: {arcs: [{step: seen, args: {s: "{{ start.status }}", e: "{{ start.error }}"}}]}
      - step: seen
        tool: {kind: noop, args: {got: "{{ args }}"}}
    """

    assert run_here(text, one={"status": "shipped", "text": "y" * 300}).result.result == {
        "got": {"s": "shipped", "e": None}
    }
