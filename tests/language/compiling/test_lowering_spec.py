"""Layers of spec (SPEC-01…04, C-23, C-30)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.language.reading.playbook import Dialect
from noetl.net.net import Lifecycle
from noetl.templates.values import Authored
from tests.language.compiling.outcomes import Compile
from tests.narrowing import present


@pytest.mark.req("SPEC-02")
def test_the_innermost_scalar_option_wins(compiled: Compile) -> None:
    result = compiled(
        """
        - step: start
          spec: { timeout: 20 }
          tool: [{ name: a, kind: noop, spec: { timeout: 5 } }, { name: b, kind: noop }]
        """,
        root="executor: { spec: { timeout: 30 } }",
    )

    assert [task.spec.data for task in result.step("start").tasks] == [{"timeout": 5}, {"timeout": 20}]


@pytest.mark.req("SPEC-02")
def test_maps_are_merged_deeply_and_lists_are_replaced(compiled: Compile) -> None:
    result = compiled(
        """
        - step: start
          spec: { timeout: { connect: 5, read: 30 }, ok_statuses: [201, 202] }
          loop: { in: [1], iterator: x, spec: { mode: parallel, retry: 2 } }
          tool: { kind: http, url: "http://x", spec: { timeout: { read: 15 }, ok_statuses: [404] } }
        """
    )

    assert result.task("start", "start_task").spec.data == {
        "timeout": {"connect": 5, "read": 15},
        "ok_statuses": [404],
        "retry": 2,
    }


@pytest.mark.req("SPEC-02")
def test_kind_defaults_have_the_lowest_precedence(compiled: Compile) -> None:
    result = compiled('- step: start\n  tool: [{ kind: http, url: "http://x" }, { kind: noop }]')

    assert [task.spec.data for task in result.step("start").tasks] == [{"timeout": 30}, {}]


@pytest.mark.req("SPEC-03")
def test_policy_is_not_inherited(compiled: Compile) -> None:
    result = compiled(
        """
        - step: start
          spec: { policy: { failure: { mode: best_effort } } }
          tool:
            - { name: a, kind: noop, spec: { policy: { rules: [{ else: { then: { do: break } } }] } } }
            - { name: b, kind: noop }
        """
    )

    assert result.task("start", "a").spec == Authored({})
    assert len(result.policy("start", "a").rules) == 1
    assert result.task("start", "b").policy is None
    assert result.step("start").best_effort


@pytest.mark.req("SPEC-04")
def test_executor_defaults_by_kind_are_below_executor_spec(compiled: Compile) -> None:
    tools = '[{ kind: http, url: "http://x" }, { kind: python, code: "result = 1" }]'
    root = "executor: { spec: { policy: { defaults: { timeouts: { http: 7, default: 60 } } } } }"
    result = compiled(f"- step: start\n  tool: {tools}", root=root)

    assert [task.spec.data["timeout"] for task in result.step("start").tasks] == [7, 60]

    outer = compiled(f"- step: start\n  tool: {tools}", root=root.replace("policy:", "timeout: 9, policy:"))
    assert [task.spec.data["timeout"] for task in outer.step("start").tasks] == [9, 9]


@pytest.mark.req("SPEC-04", "POL-04")
def test_on_unmatched_is_inherited_from_the_executor(compiled: Compile) -> None:
    rules = "rules: [{ when: false, then: { do: fail } }]"
    steps = f"- step: start\n  tool: {{ kind: noop, spec: {{ policy: {{ {rules} }} }} }}"
    root = "executor: { spec: { policy: { defaults: { on_unmatched: fail } } } }"

    assert compiled(steps).policy("start", "start_task").on_unmatched == "continue"
    assert compiled(steps, root=root).policy("start", "start_task").on_unmatched == "fail"


@pytest.mark.req("SPEC-01")
def test_spec_is_read_at_all_six_scopes(compiled: Compile) -> None:
    result = compiled(
        """
        - step: start
          spec: { pool: big, lease: { ttl: 9 } }
          loop: { in: [1], iterator: x, spec: { mode: parallel, max_in_flight: 3 } }
          tool: { kind: noop, spec: { place: worker } }
          next: { spec: { mode: inclusive }, arcs: [{ step: end, spec: { priority: 5, tokens: 2 } }] }
        - step: end
        """,
        root="executor: { spec: { pool: small } }",
    )
    start, router = result.step("start"), result.router("start")

    assert result.loud == []
    assert present(result.net).executor.pool == Authored("small")
    assert (start.pool, start.lease) == (Authored("big"), {"ttl": 9})
    assert (present(start.loop).parallel, present(start.loop).max_in_flight) == (True, Authored(3))
    assert start.tasks[0].spec == Authored({"place": "worker"})
    assert (router.mode, router.arcs[0].priority, router.arcs[0].tokens) == ("inclusive", Authored(5), 2)


@pytest.mark.req("SPEC-02")
def test_options_of_a_construct_are_not_options_of_its_tasks(compiled: Compile) -> None:
    result = compiled(
        """
        - step: start
          spec: { join: all, pool: p, end: execution, concurrency: { limit: 1 }, rate: { limit: 1, per: 1s } }
          loop: { in: [1], iterator: x, spec: { mode: parallel, max_in_flight: 1, complete_when: true, extend: true } }
          tool: { kind: noop }
        """
    )

    assert result.task("start", "start_task").spec == Authored({})


def test_a_v10_step_timeout_is_a_default_for_its_tasks_with_a_note(compiled: Compile) -> None:
    result = compiled("- step: start\n  spec: { timeout: 20 }\n  tool: { kind: noop }")

    assert result.step("start").lifecycle is None
    assert "lifecycle.timeout_s" in result.only("I_TIMEOUT_SCOPE").hint


@pytest.mark.parametrize("dialect", [Dialect.V2_EVAL, Dialect.V2_CASE])
def test_a_v2_step_timeout_is_the_lifetime_of_the_step(compiled: Compile, dialect: Any) -> None:
    result = compiled(
        "- step: start\n  spec: { timeout: 20 }\n  tool: { kind: noop }", api="noetl.io/v2", dialect=dialect
    )

    assert result.step("start").lifecycle == Lifecycle(timeout_s=Authored(20))
    assert result.task("start", "start_task").spec == Authored({})


@pytest.mark.parametrize(
    ("steps", "root", "guess"),
    [
        ("- step: start\n  spec: { jion: all }\n  tool: { kind: noop }", "", "join"),
        (
            "- step: start\n  loop: { in: [1], iterator: x, spec: { mod: parallel } }\n  tool: { kind: noop }",
            "",
            "mode",
        ),
        ("- step: start", "executor: { spec: { entri_step: start } }", "entry_step"),
    ],
)
def test_a_misspelt_option_in_an_outer_spec_is_a_warning(compiled: Compile, steps: str, root: str, guess: str) -> None:
    result = compiled(steps, root=root)

    assert result.loud == ["W_SPEC_KEY"]
    assert result.only("W_SPEC_KEY").hint == f'did you mean "{guess}"?'


@pytest.mark.req("SPEC-05")
@pytest.mark.parametrize(
    ("option", "reader"),
    [
        ("exactly_once: true", "{ kind: postgres, command: SELECT 1, spec: { SPEC } }"),
        ("sandbox: strict", "{ kind: python, code: result = 1, spec: { SPEC } }"),
        ("auth_mode: bearer", "{ kind: http, url: https://example.com, spec: { SPEC } }"),
    ],
)
def test_an_option_of_another_kind_is_a_warning(compiled: Compile, option: str, reader: str) -> None:
    """A promise such as exactly_once must not be taken from a tool that cannot keep it."""
    silent = compiled("- step: start\n  tool: " + reader.replace("SPEC", option))
    outer = compiled(f"- step: start\n  spec: {{ {option} }}\n  tool: {{ kind: noop }}")
    loud = compiled(f"- step: start\n  tool: {{ kind: artifact, action: get, ref: x, spec: {{ {option} }} }}")

    assert (silent.loud, outer.loud, loud.loud) == ([], [], ["W_SPEC_KEY"])
    name = option.partition(":")[0]
    assert f'"{name}" is not an option in the spec of kind artifact' in loud.only("W_SPEC_KEY").message


@pytest.mark.req("DIA-05", "MIG-04", "SPEC-05")
@pytest.mark.parametrize(
    ("option", "code"),
    [("next_mode: inclusive", "E_NEXT_SHAPE"), ("eval_mode: on_event", "E_CASE"), ("on_error: fail", "E_SPEC_OPTION")],
)
def test_an_option_of_an_older_dialect_is_refused_once_with_its_replacement(
    compiled: Compile, option: str, code: str
) -> None:
    """A second word about it, with the nearest knob of some tool, would lead astray."""
    result = compiled(f"- step: start\n  spec: {{ {option} }}\n  tool: {{ kind: noop }}")

    assert result.loud == [code]
