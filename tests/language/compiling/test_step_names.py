"""Names of steps, tasks and iterators (VAL-01, VAL-17, DOC-12, TASK-02, TASK-03)."""

from __future__ import annotations

import pytest

from tests.language.compiling.outcomes import Compile
from tests.narrowing import present


@pytest.mark.req("VAL-01")
def test_two_steps_with_one_name_are_reported_with_both_indexes_and_lines(compiled: Compile) -> None:
    found = compiled("- step: start\n- step: a\n- step: a").only("E_STEP_DUP")

    assert "workflow[1] (line 7)" in found.message
    assert "workflow[2]" in found.message
    assert (found.path, found.line) == ("workflow[2].step", 8)


@pytest.mark.req("DOC-12")
def test_a_playbook_without_a_first_step_is_refused(compiled: Compile) -> None:
    result = compiled("- step: load\n  tool: { kind: noop }")

    assert result.only("E_NO_START").hint.endswith("executor: {spec: {entry_step: load}}")
    assert result.net is None


@pytest.mark.req("DOC-12")
@pytest.mark.parametrize(
    ("steps", "first"),
    [
        # "store" looks like "start", but the arc says which of the two comes first.
        ("- step: store\n- step: read\n  next: { arcs: [{ step: store }] }", "read"),
        ("- step: read\n- step: store", "read"),
        ("- step: other\n- step: Strat", "Strat"),
        ("- step: poll\n  next: { arcs: [{ step: poll }, { step: store }] }\n- step: store", "poll"),
        ("- step: a\n  next: { arcs: [{ step: b }] }\n- step: b\n  next: { arcs: [{ step: a }] }", "a"),
    ],
)
def test_the_step_without_incoming_arcs_is_suggested_as_the_first(compiled: Compile, steps: str, first: str) -> None:
    hint = compiled(steps).only("E_NO_START").hint

    assert hint == f'rename "{first}" to start, or write executor: {{spec: {{entry_step: {first}}}}}'


@pytest.mark.req("DOC-12")
def test_entry_step_names_another_first_step(compiled: Compile) -> None:
    result = compiled("- step: load\n  tool: { kind: noop }", root="executor: { spec: { entry_step: load } }")

    assert result.loud == []
    assert present(result.net).entry == "load"


@pytest.mark.req("DOC-12")
def test_an_unknown_entry_step_is_refused_with_the_nearest_name(compiled: Compile) -> None:
    found = compiled("- step: load", root="executor: { spec: { entry_step: laod } }").only("E_NO_START")

    assert found.path == "executor.spec.entry_step"
    assert found.hint == 'did you mean "load"?'


@pytest.mark.req("TASK-01", "TASK-02")
def test_unnamed_list_items_are_named_by_position(compiled: Compile) -> None:
    result = compiled("- step: start\n  tool: [{ kind: noop }, { name: x, kind: noop }, { kind: noop }]")

    assert [task.name for task in result.step("start").tasks] == ["task_0", "x", "task_2"]


@pytest.mark.req("TASK-05")
def test_positional_names_can_be_read_and_jumped_to(compiled: Compile) -> None:
    rule = "{ else: { then: { do: jump, to: task_1 } } }"
    result = compiled(
        f"""
        - step: start
          tool:
            - {{ kind: noop, spec: {{ policy: {{ rules: [{rule}] }} }} }}
            - {{ kind: noop, args: {{ x: "{{{{ task_0.data }}}}" }} }}
        """
    )

    assert result.loud == []
    assert result.policy("start", "task_0").rules[0].to == "task_1"


@pytest.mark.req("TASK-03")
def test_a_single_tool_is_named_after_its_step(compiled: Compile) -> None:
    result = compiled("- step: start\n  tool: { kind: noop }")

    assert [task.name for task in result.step("start").tasks] == ["start_task"]


@pytest.mark.req("VAL-17")
@pytest.mark.parametrize(
    ("tasks", "name"),
    [
        ("[{ name: t, kind: noop }, { name: t, kind: noop }]", "t"),
        ("[{ kind: noop }, { name: task_0, kind: noop }]", "task_0"),
        ("[{ name: w, while: { when: true, then: [{ kind: noop }] } }, { name: w__check, kind: noop }]", "w__check"),
    ],
)
def test_task_names_are_unique_including_generated_ones(compiled: Compile, tasks: str, name: str) -> None:
    found = compiled(f"- step: start\n  tool: {tasks}").only("E_TASK_DUP")

    assert f'"{name}"' in found.message


@pytest.mark.req("VAL-17")
def test_two_constructs_with_one_name_are_one_mistake(compiled: Compile) -> None:
    loop = "{ name: w, while: { when: true, then: [{ kind: noop }] } }"
    found = compiled(f"- step: start\n  tool: [{loop}, {loop.replace('kind: noop', 'name: t, kind: noop')}]")

    assert found.loud == ["E_TASK_DUP"]
    assert 'two constructs are called "w"' in found.only("E_TASK_DUP").message


@pytest.mark.req("VAL-17")
@pytest.mark.parametrize(
    ("steps", "path"),
    [
        ("- step: start\n  tool: [{ name: ctx, kind: noop }]", "workflow[0].tool[0].name"),
        ("- step: start\n  tool: [{ name: _mine, kind: noop }]", "workflow[0].tool[0].name"),
        ("- step: start\n  tool: [{ name: not, kind: noop }]", "workflow[0].tool[0].name"),
        ("- step: start\n  tool: [{ name: fetch-page, kind: noop }]", "workflow[0].tool[0].name"),
        ("- step: start\n- step: workload", "workflow[1].step"),
        ("- step: start\n  loop: { in: [1], iterator: parent }\n  tool: { kind: noop }", "workflow[0].loop.iterator"),
        ("- step: start\n  loop: { in: [1], iterator: index }\n  tool: { kind: noop }", "workflow[0].loop.iterator"),
        ("- step: start\n  loop: { in: [1], iterator: event }\n  tool: { kind: noop }", "workflow[0].loop.iterator"),
        ("- step: start\n  loop: { in: [1], iterator: a b }\n  tool: { kind: noop }", "workflow[0].loop.iterator"),
    ],
)
def test_names_that_templates_cannot_read_are_refused(compiled: Compile, steps: str, path: str) -> None:
    found = compiled(steps).only("E_RESERVED_NAME")

    assert found.path == path


@pytest.mark.req("VAL-17")
def test_a_task_name_that_is_not_an_identifier_gets_a_suggestion(compiled: Compile) -> None:
    found = compiled("- step: start\n  tool: [{ name: fetch-page, kind: noop }]").only("E_RESERVED_NAME")

    assert '"fetch_page"' in found.hint


def test_a_step_name_can_be_any_text(compiled: Compile) -> None:
    result = compiled('- step: start\n  next: { arcs: [{ step: "load all data!" }] }\n- step: "load all data!"')

    assert result.loud == []


@pytest.mark.req("SCOPE-01", "SCOPE-08", "KEY-03")
@pytest.mark.parametrize(
    ("then", "word"),
    [
        ("set_ctx: { workload: 1 }", "workload"),
        ("set_ctx: { keychain: 1 }", "keychain"),
        ('set_ctx: { "keychain.token": 1 }', "keychain"),
        ("set_iter: { index: 9 }", "index"),
        ("set_iter: { parent: 9 }", "parent"),
        ("set_iter: { x: 9 }", "x"),
    ],
)
def test_a_read_only_name_cannot_be_written(compiled: Compile, then: str, word: str) -> None:
    result = compiled(
        f"""
        - step: start
          loop: {{ in: [1], iterator: x }}
          tool: [{{ name: t, kind: noop, spec: {{ policy: {{ rules: [{{ else: {{ then: {{ {then} }} }} }}] }} }} }}]
        """
    )

    assert f'"{word}"' in result.only("E_RESERVED_NAME").message


@pytest.mark.req("SCOPE-04")
@pytest.mark.parametrize(
    ("then", "hint"),
    [
        ("set_ctx: { ctx.total: 1 }", 'write "total"'),
        ("set_ctx: { ctx.a.b: 1 }", 'write "a.b"'),
        ("set_iter: { iter.page: 1 }", 'write "page"'),
        ("set_ctx: { iter.page: 1 }", "choose another name"),
        ("set_ctx: { ctx: 1 }", "choose another name"),
    ],
)
def test_a_key_that_repeats_its_scope_gets_the_hint_to_omit_it(compiled: Compile, then: str, hint: str) -> None:
    rule = f"{{ else: {{ then: {{ {then} }} }} }}"
    result = compiled(f"- step: start\n  tool: {{ kind: noop, spec: {{ policy: {{ rules: [{rule}] }} }} }}")

    assert result.only("E_RESERVED_NAME").hint.startswith(hint)


def test_names_of_data_may_equal_namespaces(compiled: Compile) -> None:
    """`ctx.token` and `iter.result` are plain data, which nobody takes for the namespaces."""
    rule = "{ else: { then: { set_ctx: { token: 1, result: 2 }, set_iter: { error: 3 } } } }"
    result = compiled(f"- step: start\n  tool: {{ kind: noop, spec: {{ policy: {{ rules: [{rule}] }} }} }}")

    assert result.loud == []


@pytest.mark.req("VAL-17")
@pytest.mark.parametrize("word", ["none", "if", "true"])
def test_a_task_named_by_a_word_of_the_template_language_gets_another_name(compiled: Compile, word: str) -> None:
    found = compiled(f"- step: start\n  tool: [{{ name: '{word}', kind: noop }}]").only("E_RESERVED_NAME")

    assert "a word of the template language" in found.message
    assert found.hint == f'write another one, such as "{word}_task"'
