"""choose, while and until become ordinary tasks (SUGAR-01…06, O-35)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.net.task import Directive, Task
from noetl.templates.values import Authored
from tests.language.compiling.outcomes import Compile, Outcome
from tests.narrowing import present


def tasks(result: Outcome) -> dict[str, Task]:
    return {task.name: task for task in result.step("start").tasks}


def ways(task: Task) -> list[tuple[Any, str, str | None]]:
    """A task's rules as (guard, directive, target)."""
    rules = task.policy.rules if task.policy else ()
    return [(rule.when.data if rule.when else None, rule.do.value, rule.to) for rule in rules]


CHOOSE = """
- step: start
  tool:
    - name: pick
      choose:
        - when: "{{ ctx.a }}"
          then: [{ name: one, kind: noop }]
        - when: "{{ ctx.b }}"
          then: [{ name: two, kind: noop }]
        - else:
            then: [{ name: three, kind: noop }]
    - { name: after, kind: noop }
"""


@pytest.mark.req("SUGAR-01", "SUGAR-04")
def test_choose_jumps_to_one_branch_and_every_branch_to_the_merge(compiled: Compile) -> None:
    result = compiled(CHOOSE)
    made = tasks(result)

    assert result.loud == []
    assert list(made) == [
        "pick__check",
        *("pick__b0", "one", "pick__b0_end"),
        *("pick__b1", "two", "pick__b1_end"),
        *("pick__b2", "three", "pick__b2_end"),
        *("pick__merge", "after"),
    ]
    assert ways(made["pick__check"]) == [
        ("{{ ctx.a }}", "jump", "pick__b0"),
        ("{{ ctx.b }}", "jump", "pick__b1"),
        (None, "jump", "pick__b2"),
    ]
    assert all(ways(made[f"pick__b{n}_end"]) == [(None, "jump", "pick__merge")] for n in range(3))


@pytest.mark.req("SUGAR-01")
def test_choose_without_else_skips_all_branches(compiled: Compile) -> None:
    made = tasks(
        compiled(
            CHOOSE.replace("- else:\n", '- when: "{{ ctx.c }}"\n').replace(
                "            then: [{ name: three", "          then: [{ name: three"
            )
        )
    )

    assert ways(made["pick__check"])[-1] == (None, "jump", "pick__merge")


@pytest.mark.req("SUGAR-02")
def test_while_checks_before_each_round(compiled: Compile) -> None:
    result = compiled(
        '- step: start\n  tool: [{ name: w, while: { when: "{{ ctx.x }}", then: [{ name: t, kind: noop }] } }]'
    )
    made = tasks(result)

    assert list(made) == ["w__check", "t", "w__b0_end", "w__merge"]
    assert ways(made["w__check"]) == [("{{ ctx.x }}", "continue", None), (None, "jump", "w__merge")]
    assert ways(made["w__b0_end"]) == [(None, "jump", "w__check")]


@pytest.mark.req("SUGAR-02")
def test_until_runs_its_body_first(compiled: Compile) -> None:
    result = compiled(
        '- step: start\n  tool: [{ name: u, until: { when: "{{ ctx.x }}", then: [{ name: t, kind: noop }] } }]'
    )
    made = tasks(result)

    assert list(made) == ["u__b0", "t", "u__check", "u__merge"]
    assert ways(made["u__check"]) == [("{{ ctx.x }}", "jump", "u__merge"), (None, "jump", "u__b0")]


@pytest.mark.parametrize("construct", ["while", "until"])
def test_max_rounds_counts_in_iter_and_fails_when_exhausted(compiled: Compile, construct: str) -> None:
    body = f"{construct}: {{ when: false, max_rounds: 3, then: [{{ name: t, kind: noop }}] }}"
    result = compiled(f"- step: start\n  tool: [{{ name: w, {body} }}]")

    start, count = result.policy("start", "w__start").rules, result.policy("start", "w__count").rules
    assert present(start[0].mutations).set_iter == Authored({"w__rounds": 0, "w__limit": 3})
    assert (count[0].when, count[0].do) == (Authored("{{ iter.w__rounds >= iter.w__limit }}"), Directive.FAIL)
    assert present(count[1].mutations).set_iter == Authored({"w__rounds": "{{ iter.w__rounds + 1 }}"})


@pytest.mark.req("SUGAR-04")
@pytest.mark.parametrize("do", ["break", "jump, to: after", "fail"])
def test_a_body_with_its_own_directive_keeps_it(compiled: Compile, do: str) -> None:
    own = f"{{ name: one, kind: noop, spec: {{ policy: {{ rules: [{{ else: {{ then: {{ do: {do} }} }} }}] }} }} }}"
    result = compiled(CHOOSE.replace("{ name: one, kind: noop }", own))

    assert result.loud == []
    assert "pick__b0_end" not in tasks(result)
    assert "pick__b1_end" in tasks(result)


@pytest.mark.req("SUGAR-03")
def test_labels_depend_on_names_and_positions_only(compiled: Compile) -> None:
    unnamed = CHOOSE.replace("- name: pick\n      choose:", "- choose:").replace(
        "{ name: one, kind: noop }", "{ kind: noop }"
    )
    once, twice = compiled(unnamed), compiled(unnamed + "\n- step: other\n  tool: [{ kind: noop }, { kind: noop }]")

    assert list(tasks(once)) == list(tasks(twice))
    assert {"choose_0__check", "choose_0__b0_task_0", "choose_0__merge"} <= set(tasks(once))


@pytest.mark.req("SUGAR-05")
def test_constructs_nest_and_unnamed_ones_do_not_collide(compiled: Compile) -> None:
    result = compiled(
        """
        - step: start
          tool:
            - choose:
                - when: true
                  then: [{ choose: [{ when: true, then: [{ kind: noop }] }] }, { kind: noop }]
                - else:
                    then: [{ choose: [{ when: true, then: [{ kind: noop }] }] }, { kind: noop }]
        """
    )

    assert result.loud == []
    assert {"choose_0__b0_choose_0__check", "choose_0__b1_choose_0__check"} <= set(tasks(result))


@pytest.mark.req("SUGAR-05")
def test_the_expansion_is_an_ordinary_task_list(compiled: Compile) -> None:
    """Written out by hand as v10 tasks, the compiled list compiles to itself."""
    made = compiled(CHOOSE).step("start").tasks
    lines = ["- step: start", "  tool:"]
    for task in made:
        rules = ", ".join(
            f'{{ when: "{when}", then: {{ do: {do}, to: {to} }} }}'
            if when
            else f"{{ else: {{ then: {{ do: {do}, to: {to} }} }} }}"
            for when, do, to in ways(task)
        )
        spec = f", spec: {{ policy: {{ rules: [{rules}] }} }}" if rules else ""
        lines.append(f"    - {{ name: {task.name}, kind: {task.kind}{spec} }}")
    again = compiled("\n".join(lines))

    assert again.loud == []
    assert [(task.name, ways(task)) for task in again.step("start").tasks] == [(task.name, ways(task)) for task in made]


def test_a_jump_to_a_construct_leads_to_its_first_task(compiled: Compile) -> None:
    rule = "{ else: { then: { do: jump, to: pick } } }"
    again = CHOOSE.rstrip() + f"\n    - {{ name: again, kind: noop, spec: {{ policy: {{ rules: [{rule}] }} }} }}"
    result = compiled(again)

    assert result.loud == []
    assert ways(tasks(result)["again"]) == [(None, "jump", "pick__check")]


def test_a_jump_to_a_generated_label_is_allowed(compiled: Compile) -> None:
    """O-35: leaving a loop early is a jump to its merge point."""
    rule = '{ when: "{{ ctx.x }}", then: { do: jump, to: w__merge } }'
    task = f"{{ name: t, kind: noop, spec: {{ policy: {{ rules: [{rule}] }} }} }}"
    result = compiled(f"- step: start\n  tool: [{{ name: w, while: {{ when: true, then: [{task}] }} }}]")

    assert result.loud == []


@pytest.mark.req("SUGAR-06")
def test_the_debug_map_links_a_label_to_its_construct(compiled: Compile) -> None:
    result = compiled(CHOOSE)
    origin = result.debug["steps/start/tasks/pick__check"]

    assert (origin.construct, origin.path, origin.span.line) == ("choose", "workflow[0].tool[0].choose", 9)
    assert result.debug["steps/start/tasks/one"].span.line == 11
    assert result.debug["steps/start/tasks/pick__check/rules/1"].span.line == 12


@pytest.mark.req("SUGAR-06")
def test_an_error_in_a_construct_is_reported_at_its_own_line(compiled: Compile) -> None:
    found = compiled(CHOOSE.replace("{{ ctx.b }}", "{{ ctx. }}")).only("E_TEMPLATE")

    assert (found.line, found.path) == (12, "workflow[0].tool[0].choose[1].when")
