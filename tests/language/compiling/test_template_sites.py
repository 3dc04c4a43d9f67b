"""Templates: their syntax, places and the names they may read (VAL-15, TPL-05, TPL-11, C-26, reliability.md §2.6)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.base.diagnostics import Diagnostic
from tests.language.compiling.outcomes import Compile
from tests.narrowing import present


def admitted(when: str) -> str:
    """A step's spec with one admission rule."""
    rules = f'[{{ when: "{when}", then: {{ allow: true }} }}, {{ else: {{ then: {{ allow: true }} }} }}]'
    return f"spec: {{ policy: {{ admit: {{ rules: {rules} }} }} }}"


def with_else(then: str) -> str:
    """A noop with one rule."""
    return f"tool: {{ kind: noop, spec: {{ policy: {{ rules: [{{ else: {{ then: {{ {then} }} }} }}] }} }} }}"


@pytest.mark.req("VAL-15")
def test_a_template_syntax_error_is_shown_at_its_place(compiled: Compile) -> None:
    found = compiled('- step: start\n  tool: { kind: http, url: "{{ workload. }}" }').only("E_TEMPLATE")

    assert found.path == "workflow[0].tool.url"
    assert found.line == 7


@pytest.mark.req("VAL-15")
@pytest.mark.parametrize(
    "text",
    [
        'args: { a: "{{ 1 + }}" }',
        'loop: { in: "{{ [1 }}", iterator: x }',
        'set_ctx: { a: "{{ 1 + }}" }',
        'set_ctx: { "{{ 1 + }}": 1 }',
        admitted("{{ 1 + }}"),
        'next: { arcs: [{ step: start, when: "{{ 1 + }}" }] }',
        'next: { arcs: [{ step: start, when: true, args: { a: "{{ 1 + }}" } }] }',
        'timer: { duration: "{{ 1 + }}" }',
        'message: { name: m, correlation: { a: "{{ 1 + }}" } }',
        'human_task: { title: "{{ 1 + }}", assignee: { role: r } }',
        'tool: { kind: noop, spec: { timeout: "{{ 1 + }}" } }',
        with_else('set_iter: { a: "{{ 1 + }}" }'),
        'tool: { kind: noop, spec: { policy: { before: [{ kind: noop, args: { a: "{{ 1 + }}" } }], rules: [] } } }',
        'compensate: { tool: { kind: noop, args: { a: "{{ 1 + }}" } } }',
        'on_event: { handlers: [{ event: e, when: "{{ 1 + }}", then: [{ kind: noop }] }] }',
        'spec: { policy: { emit: { events: [{ name: e, data: { a: "{{ 1 + }}" } }] } } }',
        'spec: { concurrency: { key: "{{ 1 + }}", limit: 1 } }',
    ],
)
def test_every_rendered_place_is_checked(compiled: Compile, text: Any) -> None:
    assert compiled(f"- step: start\n  {text}").codes.count("E_TEMPLATE") == 1


@pytest.mark.req("DOC-07")
def test_workload_is_literal_data_without_templates(compiled: Compile) -> None:
    result = compiled("- step: start", root='workload: { t: "{{ 1 + 1 }}", broken: "{{ 1 + " }')

    assert result.loud == []
    assert present(result.net).workload == {"t": "{{ 1 + 1 }}", "broken": "{{ 1 + "}


@pytest.mark.req("TPL-11")
def test_expressions_that_the_sandbox_refuses_are_errors_before_the_run(compiled: Compile) -> None:
    tool = "{ kind: noop, args: { a: \"{{ ''.__class__.__mro__ }}\" } }"

    assert compiled(f"- step: start\n  tool: {tool}").codes == ["E_TEMPLATE"]


def underlined(text: str, found: Diagnostic) -> str:
    line = text.split("\n")[found.span.line - 1]
    return line[found.span.column - 1 : found.span.end_column - 1]


@pytest.mark.parametrize(
    "tool",
    [
        '{ kind: noop, args: { a: "{{ args }} and {{ response.x }}" } }',
        "{ kind: noop, args: { a: '{{ args }} it''s {{ response.x }}' } }",
        '{ kind: noop, args: { a: "tab\\t{{ args }}\\n{{ response.x }}" } }',
        "\n    kind: noop\n    args:\n      a: |\n        first line\n\n        {{ args }} {{ response.x }}\n",
        "\n    kind: noop\n    args:\n      a: >-\n        folded {{ args }}\n        over lines {{ response.x }}\n",
        "\n    kind: noop\n    args:\n      a: plain {{ response.x }} text\n",
    ],
)
def test_a_name_is_underlined_at_its_place_with_any_quoting(compiled_document: Compile, tool: str) -> None:
    text = (
        "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: { name: t, path: t/t }\n"
        f"workflow:\n- step: start\n  tool: {tool}"
    )
    found = compiled_document(text).only("E_UNDEFINED_NAME")

    assert underlined(text, found) == "response"


@pytest.mark.req("VAL-15")
@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("{{ ctx.a && ctx.b }}", 'write "and"'),
        ("{{ ctx.a || ctx.b }}", 'write "or"'),
        ("{{ !ctx.a }}", 'write "not"'),
        ("{{ ctx.a ? 1 : 2 }}", "if condition else"),
        ("{{ ctx.a = 1 }}", "=="),
        ("{% for x in ctx.a %}{{ x }}", "endfor"),
        ("{{ ctx.a", "close {{ with }}"),
    ],
)
def test_syntax_of_another_language_gets_the_jinja_equivalent_as_hint(
    compiled: Compile, expression: str, hint: str
) -> None:
    found = compiled(f"- step: start\n  tool: {{ kind: noop, args: {{ a: '{expression}' }} }}").only("E_TEMPLATE")

    assert hint in found.hint


@pytest.mark.req("TPL-07", "VAL-17")
@pytest.mark.parametrize(("workload", "codes"), [("", ["E_UNDEFINED_NAME"]), ("{ get: 2, data: 1 }", [])])
def test_a_step_name_with_a_dash_cannot_be_read(compiled_document: Compile, workload: str, codes: list[str]) -> None:
    """Unless the author subtracts: a name with a dash may well be made of two others."""
    text = f"""apiVersion: noetl.io/v10
kind: Playbook
metadata: {{ name: t, path: t/t }}
workload: {workload}
workflow:
- {{ step: start, next: {{ arcs: [{{ step: get-data }}] }} }}
- {{ step: get-data, tool: {{ kind: noop }}, next: {{ arcs: [{{ step: use }}] }} }}
- {{ step: use, tool: {{ kind: noop, args: {{ a: "{{{{ get-data.rows }}}} of get-data" }} }} }}
"""
    result = compiled_document(text)

    assert result.loud == codes
    assert all('"get_data"' in result.only(code).hint for code in codes)


@pytest.mark.req("TPL-05")
def test_iter_cannot_be_read_in_an_arc(compiled: Compile) -> None:
    loop = "loop: { in: [1], iterator: x }\n  tool: { kind: noop }"

    for where in ('when: "{{ iter.x > 1 }}"', 'args: { n: "{{ iter.x }}" }'):
        result = compiled(f"- step: start\n  {loop}\n  next: {{ arcs: [{{ step: a, {where} }}] }}\n- step: a")
        assert result.loud == ["W_ITER_IN_ARC"]
        assert "set_ctx" in result.only("W_ITER_IN_ARC").hint


@pytest.mark.parametrize(
    ("name", "instead"),
    [("response.data", "outcome.result"), ("this.status", "outcome"), ("vars.x", "ctx"), ("_retry.index", "_attempt")],
)
def test_a_name_of_another_dialect_gets_the_name_of_this_one(compiled: Compile, name: str, instead: str) -> None:
    found = compiled("- step: start\n  " + with_else(f'set_iter: {{ a: "{{{{ {name} }}}}" }}')).only("E_UNDEFINED_NAME")

    assert instead in found.hint


def test_no_unreadable_name_is_suggested(compiled: Compile) -> None:
    """A task's inputs are rendered before there is an outcome."""
    found = compiled('- step: start\n  tool: { kind: noop, args: { a: "{{ response.x }}" } }').only("E_UNDEFINED_NAME")

    assert "outcome" not in found.hint
    assert "fetch.data" in found.hint


def test_a_reserved_name_out_of_scope_gets_the_readable_names(compiled: Compile) -> None:
    text = '- step: start\n  tool: { kind: noop }\n  next: { arcs: [{ step: start, when: "{{ outcome.status }}" }] }'
    found = compiled(text).only("W_FOREIGN_NAME")

    assert "visible here are args, ctx, event" in found.hint


def test_a_reserved_name_used_as_data_gets_no_finding(compiled: Compile) -> None:
    tool = 'tool: { kind: noop, args: { a: "{{ status_code }} {{ page }}" } }'
    result = compiled(f"- step: start\n  {tool}", root="workload: { status_code: 1, page: 2 }")

    assert result.loud == []


@pytest.mark.req("KEY-03")
@pytest.mark.parametrize(
    "text",
    [
        admitted("{{ keychain.k.value }}"),
        'next: { arcs: [{ step: start, when: "{{ keychain.k.value }}" }] }',
        'next: { arcs: [{ step: start, when: true, args: { a: "{{ keychain.k.value }}" } }] }',
        'loop: { in: "{{ keychain.k.value }}", iterator: x }\n  tool: { kind: noop }',
        'args: { a: "{{ keychain.k.value }}" }',
        'set_ctx: { a: "{{ keychain.k.value }}" }',
        with_else('set_ctx: { a: "{{ keychain.k.value }}" }'),
    ],
)
def test_secrets_are_not_readable_on_the_server_or_in_ctx(compiled: Compile, text: Any) -> None:
    keychain = "keychain: [{ name: k, kind: env }]"

    assert compiled(f"- step: start\n  {text}", root=keychain).only("E_KEYCHAIN")


@pytest.mark.req("KEY-03")
def test_secrets_can_be_read_in_task_inputs(compiled: Compile) -> None:
    tool = 'tool: { kind: http, url: "http://x", headers: { Authorization: "Bearer {{ keychain.k.value }}" } }'

    assert compiled(f"- step: start\n  {tool}", root="keychain: [{ name: k, kind: env }]").loud == []


def slips(compiled_document: Compile, template: str, more: str = "") -> list[str]:
    text = f"""apiVersion: noetl.io/v10
kind: Playbook
metadata: {{ name: t, path: t/t }}
workload: {{ events: [] }}
workflow:
- step: start
  loop: {{ in: [1], iterator: item }}
  tool: [{{ name: arg, kind: noop, args: {{ a: '{template}' }} }}]
  {more}
"""
    return [found.hint.partition(" Else")[0] for found in compiled_document(text).found if found.code[0] == "E"]


@pytest.mark.req("TPL-05", "VAL-19")
@pytest.mark.parametrize(
    ("template", "meant"),
    [
        ("{{ cxt.value }}", "ctx"),
        ("{{ wokload.value }}", "workload"),
        ("{{ workloads.value }}", "workload"),
        ("{{ execution_ids.x ~ itre.x }}", "iter execution_id"),
        ("{{ cxt.value | default(1) }}", ""),  # it is provided for
        ("{{ cxt }}", "ctx"),
        ("{{ item.x ~ arg.x ~ events.x }}", ""),  # the author's own: an item, a task, an input
    ],
)
def test_a_misspelt_readable_name_is_reported(compiled_document: Compile, template: str, meant: str) -> None:
    """What does not exist is undefined, so that a guard with such a slip would be silent forever."""
    hints = slips(compiled_document, template)

    assert sorted(hints) == sorted(f'did you mean "{word}"?' for word in meant.split())


@pytest.mark.req("TPL-05")
def test_a_misspelt_name_in_a_guard_is_reported(compiled_document: Compile) -> None:
    more = "next: { arcs: [{ step: start, when: '{{ evnt.name == 1 }}' }] }"

    assert slips(compiled_document, "", more) == ['did you mean "event"?']
