"""v10 tasks: the shapes of tool, names, kinds, and sugar."""

from __future__ import annotations

import pytest

from noetl.language.reading.nodes import data
from noetl.language.reading.playbook import Sugar, TaskSyntax
from tests.language.reading.documents import codes, only, places, read_step


@pytest.mark.req("TASK-01")
def test_the_canonical_form_is_read_unchanged() -> None:
    step, found = read_step("""
        tool:
          - {name: a, kind: http, desc: first, url: u, spec: {timeout: 5}}
          - {name: b, kind: noop}
    """)

    first, second = step.tasks
    assert (found, step.single) == ([], False)
    assert isinstance(first, TaskSyntax)
    assert (first.name, first.kind, list(first.inputs), data(first.spec)) == ("a", "http", ["url"], {"timeout": 5})
    assert isinstance(second, TaskSyntax)
    assert (second.name, second.spec, second.policy) == ("b", None, None)


@pytest.mark.req("TASK-02", "TASK-05")
def test_an_unnamed_task_of_a_list_is_read_without_a_name() -> None:
    step, found = read_step("tool: [{kind: noop}, {name: x, kind: noop}, {kind: noop}]")

    assert found == []
    assert [task.name for task in step.tasks] == [None, "x", None]


@pytest.mark.req("TASK-03")
def test_a_single_mapping_is_marked_as_a_single_task() -> None:
    step, found = read_step('tool: {kind: http, method: GET, url: "{{ api_url }}"}')

    assert (found, step.single, len(step.tasks), step.tasks[0].name) == ([], True, 1, None)


@pytest.mark.req("TASK-04", "MIG-04")
@pytest.mark.parametrize(
    ("tool", "path"),
    [("[{fetch: {kind: http}}]", "tool[0].fetch"), ("{fetch: {kind: http}}", "tool.fetch")],
)
def test_a_label_is_refused_and_its_task_gets_that_name(tool: str, path: str) -> None:
    step, found = read_step(f"tool: {tool}")

    assert places(found) == [("E_TASK_LABEL", f"workflow[0].{path}")]
    assert step.tasks[0].name == "fetch"


@pytest.mark.req("TASK-04")
def test_the_hint_for_a_label_shows_the_canonical_task() -> None:
    assert only(read_step("tool: [{fetch: {kind: http}}]")[1]).hint == "- name: fetch, kind: http"


@pytest.mark.req("DOC-10", "VAL-04", "SPEC-05")
@pytest.mark.parametrize(
    ("tool", "code", "path"),
    [
        ("http", "E_TOOL_KIND", "tool"),
        ("[http]", "E_TOOL_KIND", "tool[0]"),
        ("[{name: a}]", "E_TOOL_KIND", "tool[0]"),
        ("[{name: a, knd: http}]", "E_TASK_KEY", "tool[0].knd"),
        ("{kind: 7}", "E_TOOL_KIND", "tool.kind"),
        ("{kind: noop, name: [a]}", "E_TASK_KEY", "tool.name"),
        ("{kind: noop, spec: fast}", "E_TASK_KEY", "tool.spec"),
        ("{kind: noop, spec: {timeout: soon}}", "E_DURATION", "tool.spec.timeout"),
    ],
)
def test_a_malformed_task_is_refused(tool: str, code: str, path: str) -> None:
    assert places(read_step(f"tool: {tool}")[1]) == [(code, f"workflow[0].{path}")]


@pytest.mark.req("DOC-11")
@pytest.mark.parametrize("tool", ["", "[]"])
def test_an_empty_tool_is_read_as_no_tool(tool: str) -> None:
    step, found = read_step(f"tool: {tool}")

    assert (step.tasks, found) == ((), [])


@pytest.mark.req("VAL-19", "VAL-09")
def test_a_task_without_a_kind_is_still_a_jump_target() -> None:
    step, _ = read_step("tool: [{name: a, knd: http, url: u}]")

    task = step.tasks[0]
    assert isinstance(task, TaskSyntax)
    assert (task.name, task.kind_node, task.inputs) == ("a", None, {})


@pytest.mark.req("SUGAR-01")
def test_choose_reads_its_branches_and_else() -> None:
    step, found = read_step("""
        tool:
          - name: pick
            choose:
              - when: "{{ iter.a }}"
                then: [{name: one, kind: noop}]
              - else:
                  then: [{name: two, kind: noop}, {choose: [{else: {then: []}}]}]
    """)

    sugar = step.tasks[0]
    assert found == []
    assert isinstance(sugar, Sugar)
    assert (sugar.construct, sugar.name, [bool(branch.when) for branch in sugar.branches]) == (
        "choose",
        "pick",
        [True, False],
    )
    assert isinstance(sugar.branches[1].body[1], Sugar)


@pytest.mark.req("SUGAR-02")
@pytest.mark.parametrize("construct", ["while", "until"])
def test_while_and_until_read_condition_body_and_bound(construct: str) -> None:
    body = f'tool: [{{{construct}: {{when: "{{{{ iter.n }}}}", max_rounds: 9, then: [{{kind: noop}}]}}}}]'
    step, found = read_step(body)

    sugar = step.tasks[0]
    assert found == []
    assert isinstance(sugar, Sugar)
    assert (sugar.construct, sugar.name, len(sugar.branches), data(sugar.max_rounds)) == (construct, None, 1, 9)


@pytest.mark.req("SUGAR-01", "SUGAR-02", "VAL-07")
@pytest.mark.parametrize(
    ("item", "code"),
    [
        ("{choose: {}}", "E_RULE_SHAPE"),
        ("{choose: []}", "E_RULE_SHAPE"),
        ("{choose: [{when: true}]}", "E_RULE_SHAPE"),
        ("{choose: [{then: []}]}", "E_RULE_SHAPE"),
        ("{choose: [{when: true, then: {kind: noop}}]}", "E_RULE_SHAPE"),
        ("{choose: [{else: {then: []}}, {when: true, then: []}]}", "E_ELSE_ORDER"),
        ("{choose: [{when: ready, then: []}]}", "E_GUARD_LITERAL"),
        ("{while: []}", "E_RULE_SHAPE"),
        ("{while: {then: []}}", "E_RULE_SHAPE"),
        ("{until: {when: true}}", "E_RULE_SHAPE"),
        ("{while: {when: true, then: [], do: 1}}", "E_RULE_SHAPE"),
        ("{while: {when: true, then: [], max_rounds: 0}}", "E_RULE_SHAPE"),
        ("{while: {when: true, then: []}, max_rounds: 5}", "E_TASK_KEY"),
        ("{while: {when: true, then: []}, until: {when: true, then: []}}", "E_TASK_KEY"),
        ("{kind: noop, choose: [{else: {then: []}}]}", "E_TASK_KEY"),
        ("{choose: [{else: {then: []}}], spec: {}}", "E_TASK_KEY"),
    ],
)
def test_invalid_sugar_is_refused(item: str, code: str) -> None:
    assert codes(read_step(f"tool: [{item}]")[1]) == [code]
