"""Names and keys that nothing in the document defines (TPL-03)."""

from __future__ import annotations

import pytest

from noetl.base.diagnostics import Diagnostic, Findings, Source
from noetl.language.compiling.compiler import compile_playbook
from noetl.language.reading.reader import read_playbook
from noetl.tools.kinds import KINDS
from tests.language.compiling.outcomes import Compile, document

LOOPED = """- step: start
  loop: {{ in: "{{{{ [1] }}}}", iterator: page }}
  tool:
    - name: fetch
      kind: http
      url: "{{{{ {} }}}}"
      spec: {{ policy: {{ rules: [{{ else: {{ then: {{ do: continue, set_iter: {{ seen: 1 }} }} }} }}] }} }}
"""


@pytest.mark.req("TPL-03")
@pytest.mark.parametrize(
    "text",
    [
        'args: { a: "{{ nope }}" }',
        'loop: { in: "{{ nope }}", iterator: x }\n  tool: { kind: noop }',
        'set_ctx: { a: "{{ nope.b }}" }',
        'next: { arcs: [{ step: start, when: "{{ nope > 1 }}" }] }',
        'next: { arcs: [{ step: start, when: true, args: { a: "{{ nope }}" } }] }',
        'tool: { kind: python, args: { a: "{{ nope }}" }, code: "result = 1" }',
        'tool: { kind: duckdb, command: "SELECT {{ nope }}" }',
        'tool: { kind: duckdb, command: "SELECT {{ nope }}", args: { other: 1 } }',
        'tool: { kind: http, url: "https://example.com/{{ nope }}" }',
        'timer: { duration: "{{ nope }}" }',
        'tool: { kind: noop, spec: { policy: { rules: [{ when: "{{ nope }}", then: { do: fail } }] } } }',
        'tool: { kind: noop, args: { a: "{{ nope or 1 }}" } }',
    ],
)
@pytest.mark.parametrize("api", ["v10", "v2"])
def test_an_undefined_name_is_found_in_every_template(compiled: Compile, text: str, api: str) -> None:
    code = {"v10": "E_UNDEFINED_NAME", "v2": "W_UNDEFINED_NAME"}[api]

    found = compiled(f"- step: start\n  {text}", api=f"noetl.io/{api}").only(code)

    assert '"nope"' in found.message


@pytest.mark.req("TPL-03", "TPL-06")
@pytest.mark.parametrize(
    "text",
    [
        'args: { nope: 1, a: "{{ nope }}" }',
        'set_ctx: { nope: 1 }\n  tool: { kind: noop, args: { a: "{{ nope }}" } }',
        'set_ctx: { nope.b: 1 }\n  tool: { kind: noop, args: { a: "{{ nope.b }}" } }',
        'set_ctx: { "{{ workload.key }}": 1 }\n  tool: { kind: noop, args: { a: "{{ nope }}" } }',
        'loop: { in: "{{ [1] }}", iterator: nope }\n  tool: { kind: noop, args: { a: "{{ nope }} {{ loop.index }}" } }',
        'tool: [{ name: nope, kind: noop }, { name: b, kind: noop, args: { a: "{{ nope.data }}" } }]',
        'tool: { kind: noop, args: { a: "{{ start }}" } }\n  next: { arcs: [{ step: start, args: { nope: 1 } }] }',
        'tool: { kind: noop, args: { a: "{{ nope | default(1) }}" } }',
        'tool: { kind: noop, args: { a: "{{ nope.b if nope is defined else 1 }}" } }',
        'tool: { kind: duckdb, command: "SELECT {{ nope }}", args: { nope: 1 } }',
        'tool: { kind: noop, args: { a: "{% for nope in [1] %}{{ nope }}{% endfor %}" } }',
        'tool: { kind: noop, args: { a: "{{ now() }} {{ range(3) | list }}" } }',
    ],
)
def test_a_defined_name_gets_no_finding(compiled: Compile, text: str) -> None:
    assert "E_UNDEFINED_NAME" not in compiled(f"- step: start\n  {text}").codes


@pytest.mark.req("TPL-03")
@pytest.mark.parametrize(
    ("read", "meant"),
    [("iter.pgae", "page"), ("iter.sene", "seen"), ("iter.indx", "index")],
)
def test_an_unknown_key_of_iter_is_found(compiled: Compile, read: str, meant: str) -> None:
    found = compiled(LOOPED.format(read)).only("E_UNDEFINED_NAME")

    assert f'did you mean "{meant}"?' in found.hint


@pytest.mark.req("TPL-03")
@pytest.mark.parametrize("read", ["iter.page", "iter.seen", "iter.index", "iter.parent.x", "iter.more | default(1)"])
def test_a_known_key_of_iter_gets_no_finding(compiled: Compile, read: str) -> None:
    assert "E_UNDEFINED_NAME" not in compiled(LOOPED.format(read)).codes


_PAGES = """
apiVersion: noetl.io/v2
kind: Playbook
name: pages
workflow:
  - step: start
    tool: {{kind: http, url: x}}
    retry:
      - when: "{{{{ response.data.more }}}}"
        then: {{max_attempts: 9, collect: {{strategy: append, path: data.items, into: pages}}}}
    {vars}
    next: flatten
  - step: flatten
    args: {{pages: "{{{{ {read} }}}}"}}
    tool: {{kind: python, args: {{n: "{{{{ pages }}}}"}}, code: "result = n"}}
"""


@pytest.mark.req("O-28")
@pytest.mark.parametrize(
    ("read", "vars_", "warned"),
    [
        ("pages", "", ["write start.pages"]),
        ("start.pages", "", []),
        ("pages | default([])", "", []),
        ("pages", 'vars: {pages: "{{ pages }}"}', []),
    ],
)
def test_collected_pages_of_another_step_are_not_readable_by_bare_name(
    compiled_document: Compile, read: str, vars_: str, warned: list[str]
) -> None:
    found = compiled_document(_PAGES.format(read=read, vars=vars_))

    assert [one.hint for one in found.found if one.code == "W_FOREIGN_NAME"] == warned


@pytest.mark.req("VAL-20")
@pytest.mark.parametrize(
    "option", ["timeout: '{{ workloadd.n }}'", "concurrency: {key: '{{ workloadd.n }}', limit: 1}"]
)
def test_options_of_the_executor_are_templates_too(compiled: Compile, option: str) -> None:
    text = "- step: start\n  tool: {kind: noop}\n"

    assert "workloadd" in compiled(text, root=f"executor: {{spec: {{{option}}}}}").only("E_UNDEFINED_NAME").message


@pytest.mark.req("TPL-03")
@pytest.mark.parametrize(
    ("read", "root", "key"),
    [
        ("outcome.ok", "outcome", "ok"),
        ("outcome.status_code == 200", "outcome", "status_code"),
        ("token.arg.n", "token", "arg"),
        ("outcome.meta.duration > 3", "outcome.meta", "duration"),
    ],
)
def test_unknown_keys_of_an_outcome_or_a_token_are_found(compiled: Compile, read: str, root: str, key: str) -> None:
    rule = f'{{ when: "{{{{ {read} }}}}", then: {{ do: continue }} }}'
    found = compiled(f"- step: start\n  tool: {{ kind: http, url: u, spec: {{ policy: {{ rules: [{rule}] }} }} }}\n")

    assert f'"{root}" has no "{key}"' in " ".join(one.message for one in found.found if one.code == "E_UNDEFINED_NAME")


@pytest.mark.req("TPL-03")
def test_known_keys_of_a_token_and_an_outcome_get_no_finding(compiled: Compile) -> None:
    rule = '{ when: "{{ token.args.n and outcome.http.status and outcome.data }}", then: { do: continue } }'
    found = compiled(f"- step: start\n  tool: {{ kind: http, url: u, spec: {{ policy: {{ rules: [{rule}] }} }} }}\n")

    assert [one for one in found.found if one.code == "E_UNDEFINED_NAME"] == []


def found(expression: str, workload: str = "", api: str = "noetl.io/v10") -> list[Diagnostic]:
    steps = f"- step: start\n  tool: {{ kind: noop, args: {{ a: \"{expression}\", b: '{expression}' }} }}"
    findings = Findings()
    playbook = read_playbook(Source("test.yaml", document(steps, workload, api)), findings, kinds=KINDS)
    assert playbook is not None
    compile_playbook(playbook, KINDS, findings)
    return list(findings)


@pytest.mark.parametrize("api", ["noetl.io/v10", "noetl.io/v2"])
@pytest.mark.parametrize(
    ("workload", "declared"),
    [
        ("workload: { region: eu, limit: 5 }", "it declares limit, region"),
        ("", "it declares none"),
        ("workload: {}", "it declares none"),
    ],
)
def test_an_undeclared_key_gets_one_warning(api: str, workload: str, declared: str) -> None:
    (one,) = found("{{ workload.customer.id }}", workload, api)

    assert (one.code, one.span.column) == ("W_WORKLOAD_KEY", 49)
    assert one.message.startswith('"workload" has no "customer", which the input "args" reads: it is null unless')
    assert one.hint == f"{declared}; add customer: null under workload, or write | default(…)"


@pytest.mark.parametrize(
    "expression",
    [
        "{{ workload.region }}",
        "{{ workload.later }}",
        "{{ workload.customer | default(1) }}",
        "{{ workload.customer or 1 }}",
        "{{ 1 if workload.customer is defined else 2 }}",
        "{{ workload.schedule.time }}",
        "{{ workload.item.key }}",
        "{{ workload[region] }}",
    ],
)
def test_a_declared_or_built_in_key_gets_no_warning(expression: str) -> None:
    assert found(expression, "workload: { region: eu, later: null }") == []


def test_a_bare_name_before_or_is_an_error() -> None:
    assert {one.code for one in found("{{ customer or 1 }}")} == {"E_UNDEFINED_NAME"}


@pytest.mark.req("TPL-03")
@pytest.mark.parametrize(
    ("step", "read", "said", "hint"),
    [
        ("load-orders", "load-orders.n", "a subtraction", 'rename the step to "load_orders"'),
        ("load.orders", "load.orders.n", 'the field "orders" of "load"', 'rename the step to "load_orders"'),
    ],
)
def test_a_step_that_templates_cannot_name_is_to_be_renamed(
    compiled: Compile, step: str, read: str, said: str, hint: str
) -> None:
    steps = f"""
    - step: start
      next: {{ arcs: [{{ step: {step} }}] }}
    - step: {step}
      tool: {{ kind: noop, args: {{ n: 1 }} }}
      next: {{ arcs: [{{ step: last }}] }}
    - step: last
      tool: {{ kind: noop, args: {{ n: "{{{{ {read} }}}}" }} }}
    """

    found = compiled(steps).only("E_UNDEFINED_NAME")

    assert (said in found.message, found.hint) == (True, hint)


@pytest.mark.req("TPL-03")
@pytest.mark.parametrize(
    ("read", "hint"),
    [("workload.n != null", "write none"), ("workload.n == undefined", "write {{ … is undefined }}")],
)
def test_words_for_nothing_of_other_languages_are_named_in_ours(compiled: Compile, read: str, hint: str) -> None:
    steps = f'- step: start\n  tool: {{ kind: noop, args: {{ n: "{{{{ {read} }}}}" }} }}\n'

    assert compiled(steps, root="workload: {n: 1}").only("E_UNDEFINED_NAME").hint == hint
