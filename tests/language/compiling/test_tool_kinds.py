"""Tool kinds, their inputs, and workbook references (VAL-04, DOC-10, SPEC-05, TOOL-10, TOOL-13, design.md §5)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.base.diagnostics import Source
from noetl.language.checking import check
from noetl.net.kinds import ToolKind
from noetl.templates.values import Authored
from noetl.tools.kinds import KINDS
from tests.language.compiling.outcomes import Compile


def step(tool: str) -> str:
    return f"- step: start\n  tool: {tool}"


@pytest.mark.req("VAL-04")
def test_an_unknown_kind_is_refused_with_the_known_ones(compiled: Compile) -> None:
    found = compiled(step("{ kind: audit_logger }")).only("E_TOOL_KIND")

    assert (found.path, found.line) == ("workflow[0].tool.kind", 7)
    assert "known kinds: http, python, shell" in found.hint
    assert "postgres, sql, duckdb" in found.hint


@pytest.mark.req("VAL-04")
def test_a_registered_plug_in_defines_its_kind(compiled: Compile) -> None:
    kinds = {**KINDS, "audit_logger": ToolKind(name="audit_logger", open_inputs=True)}

    assert compiled(step("{ kind: audit_logger, level: info }"), kinds=kinds).loud == []


@pytest.mark.req("VAL-04")
def test_with_extensions_an_unknown_kind_is_only_a_warning(compiled: Compile) -> None:
    result = compiled(step("{ kind: audit_logger, level: info }"), extensions=True)

    assert result.loud == ["W_TOOL_KIND"]
    assert "tool.unknown_kind" in result.only("W_TOOL_KIND").hint
    assert result.net is not None


def test_a_misspelled_kind_gets_the_nearest_one(compiled: Compile) -> None:
    assert 'did you mean "postgres"?' in compiled(step("{ kind: postgre, command: x }")).only("E_TOOL_KIND").hint


@pytest.mark.parametrize(("word", "kind"), [("bash", "shell"), ("mysql", "sql"), ("curl", "http"), ("mail", "email")])
def test_kind_names_of_other_systems_suggest_the_kind(compiled: Compile, word: str, kind: str) -> None:
    assert f'did you mean "{kind}"?' in compiled(step(f"{{ kind: {word} }}")).only("E_TOOL_KIND").hint


def test_an_upsert_without_its_key_is_refused(compiled: Compile) -> None:
    """It would fail every run, after the tasks before it."""
    found = compiled(step("{ kind: postgres, table: t, args: { a: 1 }, mode: upsert }")).only("E_TASK_KEY")

    assert found.message == 'mode: upsert of kind postgres needs "key"'
    assert compiled(step("{ kind: postgres, table: t, args: { a: 1 }, mode: upsert, key: a }")).loud == []
    assert compiled(step("{ kind: postgres, table: t, args: { a: 1 }, mode: '{{ workload.m }}' }")).loud == []
    assert compiled(step("{ kind: postgres, command: SELECT 1, mode: upsert }")).loud == [], "nothing is inserted"


def test_a_misspelt_kind_of_a_keychain_entry_is_refused(compiled: Compile) -> None:
    found = compiled(step("{ kind: noop }"), root="keychain: [{name: k, kind: credental}]").only("E_KEYCHAIN")

    assert (found.path, found.hint) == ("keychain[0].kind", 'did you mean "credential"?')


def test_an_unknown_kind_of_a_keychain_entry_may_belong_to_a_plug_in(compiled: Compile) -> None:
    outcome = compiled(step("{ kind: noop }"), root="keychain: [{name: k, kind: our_own_vault}]")

    assert "built in are credential, env" in outcome.only("W_KEYCHAIN").hint
    assert outcome.net is not None


def test_arcs_next_to_next_get_the_hint_to_indent_them(compiled: Compile) -> None:
    """As when its line is not indented far enough."""
    workflow = (
        "- step: start\n  tool: { kind: noop }\n  next:\n    spec: { mode: exclusive }\n  arcs: [{ step: start }]"
    )
    found = compiled(workflow).only("E_STEP_KEY")

    assert found.hint == "move it under next: next: {arcs: [{step: …}]}"


# What `load_kinds` says of a plug-in that cannot be imported.
BROKEN = {**KINDS, "audit_logger": ToolKind(name="audit_logger", plugin="audit:tool in working order")}


def test_a_broken_plug_in_is_named(compiled: Compile) -> None:
    found = compiled(step("{ kind: audit_logger, level: info }"), kinds=BROKEN).only("W_TOOL_KIND")

    assert found.hint == "install audit:tool in working order where workers run"


@pytest.mark.req("VAL-04", "DOC-10")
@pytest.mark.parametrize("api", ["noetl.io/v2", "noetl.io/v10"])
def test_a_kind_without_its_plug_in_accepts_unknown_inputs(compiled: Compile, api: str) -> None:
    """Such playbooks check, and say which plug-in would run them (design.md §5)."""
    result = compiled(step("{ kind: audit_logger, look: back }"), api=api, kinds=BROKEN)

    assert result.loud == ["W_TOOL_KIND"]
    assert result.net is not None


@pytest.mark.req("VAL-04")
@pytest.mark.parametrize("api", ["noetl.io/v2", "noetl.io/v10"])
def test_a_container_accepts_its_image_under_runtime_too(compiled: Compile, api: str) -> None:
    task = "{ kind: container, runtime: { image: python, pull: always }, env: { A: 1 } }"

    assert compiled(step(task), api=api).loud == []
    assert compiled(step("{ kind: container, env: { A: 1 } }"), api=api).loud == ["E_TASK_KEY"]


@pytest.mark.req("VAL-13", "TOOL-13")
@pytest.mark.parametrize(
    ("kind", "code"),
    [("loop", "E_LOOP_KIND"), ("sink", "E_SINK"), ("next", "E_TOOL_KIND"), ("iterator", "E_TOOL_KIND")],
)
def test_words_that_are_not_kinds_get_their_own_hint(compiled: Compile, kind: str, code: str) -> None:
    assert not compiled(step(f"{{ kind: {kind} }}")).only(code).hint.startswith("known kinds")


@pytest.mark.req("DOC-10")
@pytest.mark.parametrize(
    ("api", "key", "code"),
    [
        ("noetl.io/v10", "urll", "E_TASK_KEY"),
        ("noetl.io/v2", "urll", "E_TASK_KEY"),
        ("noetl.io/v10", "owner", "E_TASK_KEY"),
        ("noetl.io/v2", "owner", "W_UNKNOWN_KEY"),
    ],
)
def test_an_unknown_input_is_an_error_in_v10_and_for_misspellings(
    compiled: Compile, api: str, key: str, code: str
) -> None:
    found = compiled(step(f'[{{ name: t, kind: http, url: "http://x", {key}: 1 }}]'), api=api)

    assert found.loud == [code]
    assert f'"{key}"' in found.only(code).message


@pytest.mark.req("DOC-10")
def test_strict_turns_unknown_keys_into_errors_in_v2_too(compiled: Compile) -> None:
    result = compiled(step("[{ name: t, kind: noop, owner: me }]"), api="noetl.io/v2", strict=True)

    assert result.loud == ["E_TASK_KEY"]


@pytest.mark.parametrize(
    ("tool", "missing"),
    [
        ("{ kind: http }", '"url"'),
        ("{ kind: python }", '"code" or "script"'),
        ("{ kind: postgres, auth: x }", '"command"'),
        ("{ kind: playbook }", '"path"'),
    ],
)
def test_a_missing_required_input_is_reported(compiled: Compile, tool: str, missing: str) -> None:
    assert missing in compiled(step(tool)).only("E_TASK_KEY").message


def test_an_alias_is_renamed_with_a_note(compiled: Compile) -> None:
    result = compiled(step('{ kind: http, endpoint: "http://x" }'))

    assert result.loud == []
    assert '"url"' in result.only("I_ALIAS").hint
    assert result.task("start", "start_task").inputs.data == {"url": "http://x"}


def test_two_spellings_of_one_input_are_refused(compiled: Compile) -> None:
    found = compiled(step('{ kind: http, endpoint: "http://x", url: "http://y" }')).only("E_TASK_KEY")

    assert "same input" in found.message


@pytest.mark.req("SPEC-05")
def test_an_option_next_to_kind_is_accepted_in_v2_with_a_note(compiled: Compile) -> None:
    result = compiled(step('[{ name: t, kind: http, url: "http://x", timeout: 5 }]'), api="noetl.io/v2")

    assert result.loud == []
    assert "spec.timeout" in result.only("I_ALIAS").message
    assert result.task("start", "t").spec.data["timeout"] == 5


@pytest.mark.req("SPEC-05")
def test_an_option_next_to_kind_is_refused_in_v10(compiled: Compile) -> None:
    found = compiled(step('{ kind: http, url: "http://x", timeout: 5 }')).only("E_TASK_KEY")

    assert found.hint == "move it under spec: spec: {timeout: …}"
    assert found.path == "workflow[0].tool.timeout"


@pytest.mark.req("SPEC-05")
def test_an_unknown_spec_key_is_only_a_warning(compiled: Compile) -> None:
    result = compiled(step('{ kind: http, url: "http://x", spec: { timeoot: 5 } }'))

    assert result.loud == ["W_SPEC_KEY"]
    assert result.only("W_SPEC_KEY").hint == 'did you mean "timeout"?'


@pytest.mark.req("VAL-18")
def test_options_checked_by_the_v2_case_reader_are_not_checked_twice(compiled: Compile) -> None:
    tool = "{ kind: noop, spec: { case_mode: inclusive } }\n  next: end"

    assert compiled(step(tool), api="noetl.io/v2").loud == ["E_SPEC_OPTION"]


@pytest.mark.req("TOOL-07")
def test_python_code_is_never_a_template(compiled: Compile) -> None:
    result = compiled(step("{ kind: python, code: \"result = '{{ not jinja'\" }"))

    assert result.loud == []
    task = result.task("start", "start_task")
    assert task.verbatim == {"code": "result = '{{ not jinja'"}
    assert task.inputs == Authored({})


# workbook ------------------------------------------------------------------------------------------------------------

DOUBLE = 'workbook: { double: { kind: python, args: { n: "{{ args.n }}" }, code: "result = n * 2" } }'


@pytest.mark.req("TOOL-10")
def test_a_reference_becomes_the_task_it_names(compiled: Compile) -> None:
    result = compiled(step("[{ name: t, kind: workbook, task: double, args: { n: 4 } }]"), root=DOUBLE)

    task = result.task("start", "t")
    assert result.loud == []
    assert (task.kind, task.verbatim) == ("python", {"code": "result = n * 2"})
    assert task.inputs == Authored({"args": {"n": "{{ args.n }}"}})
    assert task.args == Authored({"n": 4})


@pytest.mark.req("TOOL-10")
def test_a_reference_can_use_the_name_of_its_task(compiled: Compile) -> None:
    result = compiled(step("[{ name: double, kind: workbook, args: { n: 4 } }]"), root=DOUBLE)

    assert result.loud == []
    assert result.task("start", "double").kind == "python"


@pytest.mark.req("TOOL-10")
def test_keys_of_the_reference_override_the_definition(compiled: Compile) -> None:
    book = 'workbook: { get: { kind: http, endpoint: "http://a", headers: { x: 1 }, spec: { timeout: 5, retry: 1 } } }'
    tool = '[{ name: t, kind: workbook, task: get, url: "http://b", spec: { timeout: 9 } }]'
    task = compiled(step(tool), root=book).task("start", "t")

    assert task.inputs.data == {"headers": {"x": 1}, "url": "http://b"}
    assert task.spec.data == {"timeout": 9, "retry": 1}


@pytest.mark.req("TOOL-10")
def test_chained_references_keep_the_arguments_of_both(compiled: Compile) -> None:
    book = DOUBLE[:-2] + ', four: { kind: workbook, task: double, args: { n: "{{ args.m * 2 }}" } } }'
    result = compiled(step("[{ name: t, kind: workbook, task: four, args: { m: 1 } }]"), root=book.replace("} ,", "},"))

    task = result.task("start", "t")
    assert result.loud == []
    assert (task.args, task.inner_args) == (Authored({"m": 1}), (Authored({"n": "{{ args.m * 2 }}"}),))


@pytest.mark.req("TOOL-10", "VAL-21")
def test_an_unknown_workbook_task_is_refused(compiled: Compile) -> None:
    found = compiled(step("{ kind: workbook, task: nope }"), root=DOUBLE).only("E_WORKBOOK_REF")

    assert found.path == "workflow[0].tool.task"
    assert "double" in found.hint


@pytest.mark.req("TOOL-10")
def test_circular_references_are_refused(compiled: Compile) -> None:
    book = "workbook: { a: { kind: workbook, task: b }, b: { kind: workbook, task: a } }"
    result = compiled(step("{ kind: workbook, task: a }"), root=book)

    assert set(result.loud) == {"E_WORKBOOK_REF"}
    assert any('"a" → "b" → "a"' in found.message for found in result.found)


def test_a_hook_of_a_definition_can_reference_another_definition(compiled: Compile) -> None:
    hook = "policy: { before: [{ name: log, kind: workbook }], rules: [{ else: { then: { do: break } } }] }"
    book = f"workbook: {{ log: {{ kind: noop }}, a: {{ kind: noop, spec: {{ {hook} }} }} }}"

    assert compiled(step("{ kind: workbook, task: a }"), root=book).loud == []


@pytest.mark.parametrize("tool", ["{ kind: workbook }", '{ kind: workbook, task: "{{ workload.t }}" }'])
def test_a_reference_must_be_a_literal_name(compiled: Compile, tool: str) -> None:
    assert compiled(step(tool), root=DOUBLE).only("E_WORKBOOK_REF")


@pytest.mark.req("DOC-09")
def test_the_three_spellings_of_a_workbook_compile_alike(compiled: Compile) -> None:
    task = 'kind: python, args: { n: "{{ args.n }}" }, code: "result = n * 2"'
    nets = [
        compiled(step("{ kind: workbook, task: double, args: { n: 1 } }"), root=f"workbook: {book}").net
        for book in (
            f"{{ tasks: {{ double: {{ {task} }} }} }}",
            f"{{ double: {{ {task} }} }}",
            f"[{{ name: double, {task} }}]",
            f"[{{ name: double, tool: {{ {task} }} }}]",
        )
    ]

    assert nets[0] is not None
    assert all(net == nets[0] for net in nets)


@pytest.mark.req("TOOL-10")
@pytest.mark.parametrize("reference", ["{ kind: workbook, task: double }", "{ kind: workbook, name: double }"])
def test_args_of_the_step_override_the_defaults_of_a_definition(compiled: Compile, reference: str) -> None:
    book = 'workbook: { double: { kind: python, args: { n: 1, m: 2 }, code: "result = n * m" } }'
    handed = compiled(f"- step: start\n  args: {{ n: 4 }}\n  tool: {reference}", root=book).net
    own = compiled(f"- step: start\n  args: {{ n: 4 }}\n  tool: {reference[:-1]}, args: {{ n: 5 }} }}", root=book).net

    assert handed is not None
    assert own is not None
    assert handed.transitions[0].tasks[0].inputs.data["args"] == {"n": "{{ args['n'] }}", "m": 2}
    assert own.transitions[0].tasks[0].args == Authored({"n": 5})


@pytest.mark.req("TOOL-10")
@pytest.mark.parametrize(
    ("default", "template"),
    [
        ("1", "{{ args['n'] | default(1) }}"),
        ("one", "{{ args['n'] | default('one') }}"),
        ("[1, {a: null}]", "{{ args['n'] | default([1, {'a': none}]) }}"),
        ("'{{ workload.n }}'", "{{ args['n'] | default(workload.n) }}"),
    ],
)
def test_args_of_an_arc_override_the_defaults_of_a_definition(compiled: Compile, default: str, template: str) -> None:
    task = f"{{ kind: python, args: {{ n: {default}, m: 2 }}, code: result = n }}"
    book = f"workload: {{ n: 7 }}\nworkbook: {{ double: {task} }}"
    steps = (
        "- step: start\n  next: { arcs: [{ step: b, args: { n: 4 } }] }\n"
        "- step: b\n  tool: { kind: workbook, task: double }"
    )

    net = compiled(steps, root=book).net

    assert net is not None
    assert net.transitions[1].tasks[0].inputs.data["args"] == {"n": template, "m": 2}


def test_an_unreferenced_definition_is_checked_too(compiled: Compile) -> None:
    result = compiled(
        "- step: start", root='workbook: { a: { kind: htp }, b: { kind: noop, args: { x: "{{ 1 + }}" } } }'
    )

    assert sorted(result.loud) == ["E_TEMPLATE", "E_TOOL_KIND"]


# credentials ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("VAL-21", "KEY-05")
def test_a_literal_credential_outside_the_keychain_is_a_warning(compiled: Compile) -> None:
    tool = "{ kind: postgres, auth: pg_x, command: select 1 }"
    keychain = "keychain: [{ name: pg_y, kind: postgres_credential }]"

    assert compiled(step(tool), root=keychain).only("W_KEYCHAIN").hint == 'did you mean "pg_y"?'
    assert compiled(step(tool.replace("pg_x", "pg_y")), root=keychain).loud == []
    assert compiled(step(tool.replace("pg_x", '"{{ workload.pg }}"')), root=keychain).loud == []


@pytest.mark.req("KEY-03")
def test_an_undeclared_keychain_entry_is_a_warning(compiled: Compile) -> None:
    tool = '{ kind: http, url: "http://x", headers: { A: "{{ keychain.opnai.value }}" } }'

    found = compiled(step(tool), root="keychain: [{ name: openai, kind: env }]").only("W_KEYCHAIN")
    assert found.hint == 'did you mean "openai"?'


@pytest.mark.req("KEY-03", "VAL-15")
@pytest.mark.parametrize(
    ("auth", "codes"),
    [
        ("{{ workload.login }}", []),
        ("{{ login }}", []),
        ("{{ workload. }}", ["E_TEMPLATE"]),
        ("{{ ctx.login }}", ["W_FOREIGN_NAME"]),
        ("{{ keychain.other.value }}", ["W_KEYCHAIN", "W_KEYCHAIN"]),
    ],
)
def test_keychain_entries_can_read_the_workload_only(compiled: Compile, auth: str, codes: list[str]) -> None:
    keychain = f'keychain: [{{ name: api, kind: bearer, auth: "{auth}" }}]'

    assert compiled(step("{ kind: noop }"), root=f"workload: {{ login: a }}\n{keychain}").loud == codes


def test_a_command_that_is_one_expression_is_dynamic_sql(compiled: Compile) -> None:
    def tool(sql: str) -> str:
        return step(f'{{ kind: postgres, auth: "{{{{ workload.pg }}}}", command: "{sql}" }}')

    assert compiled(tool("{{ workload.sql }}")).loud == ["W_SQL_FRAGMENT"]
    assert compiled(tool("{{ workload.sql | sql }}")).loud == []
    assert compiled(tool("select {{ workload.n }}")).loud == []


@pytest.mark.req("TOOL-05", "O-23")
@pytest.mark.parametrize(
    ("condition", "codes"),
    [
        ("a IN ({{ workload.ids | join(', ') }})", []),
        ("a not in ( {{ workload.ids | map('string') | join(',') }} )", []),
        (r"""b IN ('{{ workload.ids | join(\"','\") }}')""", []),
        (r"""b IN ({{ workload.ids | join(\"','\") }})""", ["W_SQL_FRAGMENT"]),
        ("b IN ('{{ workload.ids | join(', ') }}')", ["W_SQL_FRAGMENT"]),
        ("a IN ({{ workload.ids | join(';') }})", ["W_SQL_FRAGMENT"]),
        ("a IN ({{ '0,' ~ workload.ids | join(',') }})", ["W_SQL_FRAGMENT"]),
        ("a IN ({{ workload.ids | join(',') }}){% if workload.n %} AND n{% endif %}", ["W_SQL_FRAGMENT"]),
        ("a IN ({{ workload.ids | join(', ') | sql }})", []),
        ("a IN ({{ workload.ids }})", []),
        ("a = {{ workload.ids | join(', ') }}", []),
    ],
)
def test_a_joined_list_is_one_sql_value_unless_it_is_clearly_an_in_list(
    compiled: Compile, condition: str, codes: list[str]
) -> None:
    """Quietly no row would match, or the database would take the text for a number."""
    tool = '{ kind: postgres, auth: "{{ workload.pg }}", query: "SELECT a FROM t WHERE %s" }'

    assert compiled(step(tool % condition)).loud == codes


@pytest.mark.req("TOOL-05")
@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("select 1{{ workload.n }}", "cannot be part of 1{{ … }}"),
        ("select B'{{ workload.n }}'", "cannot be part of B'{{ … }}'"),
        ("select 'a {{ workload.n }}", "never closed"),
        ("select * from {{ keychain.pg.schema }}.t", "a secret can only be bound"),
        ("create table t as select '{{ keychain.pg.password }}'", "a secret can only be bound"),
        ("{{ keychain.pg.sql }}", "a secret can only be bound"),
        ("{% set x %}select {{ workload.n }}{% endset %}{{ x }}", "would make SQL out of values"),
        ("select 1 where a = {{ keychain.pg.password }}", ""),
        ("select '{{ keychain.pg.password }}' {% if workload.n %}, {{ workload.n }}{% endif %}", ""),
        ("select * from {{ workload.t }} where {{ workload.c }} = 1", ""),
    ],
)
@pytest.mark.parametrize(
    "tool",
    [
        "{{ kind: postgres, auth: pg, command: {} }}",
        "{{ kind: duckdb, commands: [{}] }}",
        "{{ kind: transfer, source: {{ kind: duckdb, query: {} }}, target: {{ kind: duckdb, table: t }} }}",
        "{{ kind: transfer, source: {{ kind: duckdb, query: select 1 }}, target: {{ kind: duckdb, command: {} }} }}",
    ],
)
def test_sql_that_no_value_can_make_valid_is_an_error(compiled: Compile, tool: str, sql: str, why: str) -> None:
    keychain = "keychain: [{ name: pg, kind: postgres_credential }]"
    outcome = compiled(step(tool.format(f'"{sql}"')), root=keychain)

    if why:
        assert why in outcome.only("E_TEMPLATE").message
    else:
        assert outcome.loud == []


def test_a_misplaced_template_in_sql_is_reported_at_the_template(compiled: Compile) -> None:
    sql = "|\n        select {{ workload.a }},\n          1{{ workload.b }}\n"
    found = compiled(f"- step: start\n  tool:\n    kind: duckdb\n    command: {sql}").only("E_TEMPLATE")

    assert (found.line, found.span.column) == (11, 14)


@pytest.mark.req("V2C-03")
@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("{ kind: postgres, auth: pg, table: t, args: { b: 2 } }", {"a": '{{ args["a"] }}', "b": 2}),
        ("{ kind: postgres, auth: pg, table: t }", {"a": '{{ args["a"] }}', "b": '{{ args["b"] }}'}),
        ("{ kind: noop }", None),
    ],
)
def test_a_v2_case_step_passes_its_args_below_those_of_its_tool(tool: str, args: dict[str, Any] | None) -> None:
    text = "apiVersion: noetl.io/v2\nkind: Playbook\nname: a\npath: x/a\nworkflow:\n"
    text += f"  - step: start\n    args: {{ a: 1, b: 1 }}\n    tool: {tool}\n    next: end\n"

    net = check(Source("t.yaml", text), kinds=KINDS).net
    assert net is not None
    (task,) = net.transitions[0].tasks

    assert task.inputs.data.get("args") == args
