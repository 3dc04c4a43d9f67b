"""What is not there: undefined, null, and strict conditions; also in whole runs (TPL-03, TPL-04)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from noetl.base.errors import TemplateError
from noetl.language.checking import compiled
from noetl.operations.embedded import RunResult, run_net
from noetl.templates.expression import parse
from noetl.templates.render import holds
from noetl.templates.scope import Scope
from noetl.templates.values import Authored

SCOPE: dict[str, Any] = {"ctx": {"n": 1, "null": None, "text": "abc", "list": [1, None]}, "outcome": {"result": None}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ outcome.result.data.paging.hasMore | default(false) }}", False),
        ("{{ ctx.paging.hasMore | default(false) }}", False),
        ("{{ ctx['a'].b[0].c | d('x') }}", "x"),
        ("{{ ctx.n.deeper | default('x') }}", "x"),
        ("{{ ctx.list[9] | default('x') }}", "x"),
        ("{{ nope }}", None),
        ("{{ nope.a.b }}", None),
        ("{{ nope.a.b + '' if nope.a else none }}", None),
        ("{{ nope > 1 }}", False),
        ("{{ nope < 1 }}", False),
        ("{{ 1 >= nope }}", False),
        ("{{ nope == 1 }}", False),
        ("{{ nope == none }}", False),
        ("{{ nope == '' }}", False),
        ("{{ nope != 1 }}", True),
        ("{{ nope == nothing }}", True),
        ("{{ 1 in nope }}", False),
        ("{{ nope in [1, none] }}", False),
        ("{{ nope in 'text' }}", False),
        ("{{ nope not in [1] }}", True),
        ("{{ not nope }}", True),
        ("{{ nope and 1 }}", None),
        ("{{ nope or 1 }}", 1),
        ("{{ nope is defined }}", False),
        ("{{ nope.a is undefined }}", True),
        ("{{ ctx.null is defined }}", True),
        ("{{ 'a' if nope else 'b' }}", "b"),
        ("{{ 'a' if nope }}", None),
        ("a{{ nope }}b", "ab"),
        ("a{{ nope.x ~ 1 }}b", "a1b"),
        ("{% for x in nope %}x{% else %}none{% endfor %}", "none"),
        ("{{ nope | length }}", 0),
        ("{{ nope | list }}", []),
        ("{{ nope | int }}", 0),
        ("{{ [] | first }}", None),
        ("{{ [] | first | default(5) }}", 5),
        ("{{ [nope, 1] }}", [None, 1]),
    ],
)
@pytest.mark.req("TPL-03")
def test_undefined_is_falsy_and_has_a_default_filter(text: str, expected: Any) -> None:
    assert parse(text).evaluate(SCOPE) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{{ nope + 1 }}",
        "{{ 1 - nope.a }}",
        "{{ nope * 2 }}",
        "{{ -nope }}",
        "{{ nope % 2 }}",
        "{{ nope.upper() }}",
        "{{ ctx.n.items() }}",
        "{{ nope() }}",
        "{{ nope | abs }}",
        "{{ nope | tojson }}",
        "{{ ctx[nope] }}",
        "{{ [1, nope] | sum }}",
    ],
)
@pytest.mark.req("TPL-03")
def test_arithmetic_and_calls_on_undefined_are_errors(text: str) -> None:
    with pytest.raises(TemplateError):
        parse(text).evaluate(SCOPE)


@pytest.mark.req("TPL-03")
def test_the_error_names_the_undefined_variable() -> None:
    with pytest.raises(TemplateError, match=r'"ctx\.total" is undefined'):
        parse("{{ ctx.total + 1 }}").evaluate(SCOPE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ ctx.null | default(200) }}", None),
        ("{{ ctx.null | default(200, true) }}", 200),
        ("{{ ctx.null == none }}", True),
        ("{{ ctx.null > 1 }}", False),
        ("{{ ctx.null <= 1 }}", False),
        ("{{ ctx.null in [429, 500] }}", False),
        ("{{ none in [1, none] }}", True),
        ("{{ 1 in ctx.null }}", False),
        ("{{ ctx.null in 'abc' }}", False),
    ],
)
@pytest.mark.req("TPL-03")
def test_null_is_a_value_without_an_order(text: str, expected: Any) -> None:
    """A transport failure has a null status (O-12): no default, no order, and no error in a rule that asks."""
    assert parse(text).evaluate(SCOPE) == expected


@pytest.mark.parametrize("text", ["{{ ctx.text > 1 }}", "{{ [1] < 2 }}", "{{ 1 in 5 }}", "{{ 1 in 'abc' }}"])
def test_values_without_an_order_cannot_be_compared(text: str) -> None:
    with pytest.raises(TemplateError):
        parse(text).evaluate(SCOPE)


@pytest.mark.parametrize(
    "guard",
    [
        "{{ nope }}",
        "{{ ctx.nope }}",
        "{{ ctx.null.x }}",
        "{{ nope == 1 }}",
        "{{ nope.a > 1 }}",
        "{{ ctx.n == 1 and nope }}",
        "{{ ctx['no' ~ 'pe'] }}",
        "{{ ctx.nope[1:2] }}",
        "{{ [] | first }}",
    ],
)
@pytest.mark.req("TPL-04")
def test_a_strict_condition_fails_on_any_undefined_read(guard: str) -> None:
    assert holds(Authored(guard), SCOPE) is False

    with pytest.raises(TemplateError, match="strict"):
        holds(Authored(guard), SCOPE, strict=True)


@pytest.mark.parametrize(
    "guard",
    [
        "{{ nope.a | default(true) }}",
        "{{ nope is not defined }}",
        "{{ ctx.n == 1 or nope }}",
        "{{ ctx.list[0] }}",
        "yes",
    ],
)
@pytest.mark.req("TPL-04")
def test_a_strict_condition_can_provide_a_default(guard: str) -> None:
    assert holds(Authored(guard), SCOPE, strict=True) is True


KNOWN = Scope({"ctx": {"n": 1}}, steps={"fetch": {"data": 2}}, known={"fetch", "later", "api_url"})


@pytest.mark.parametrize("text", ["{{ nope }}", "{{ nope.a }}", "x {{ nope }}", "{{ nope > 1 }}", "{{ nope or 1 }}"])
@pytest.mark.req("TPL-03")
def test_an_undefined_name_fails_its_template(text: str) -> None:
    with pytest.raises(TemplateError, match='nothing is called "nope" here'):
        parse(text).evaluate(KNOWN)


@pytest.mark.parametrize(("name", "meant"), [("api_ulr", "api_url"), ("fetsh", "fetch"), ("cxt", "ctx")])
@pytest.mark.req("TPL-03")
def test_the_error_for_an_undefined_name_suggests_the_nearest(name: str, meant: str) -> None:
    with pytest.raises(TemplateError, match=f'did you mean "{meant}"'):
        parse(f"{{{{ {name} }}}}").evaluate(KNOWN)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ nope | default(5) }}", 5),
        ("{{ nope is defined }}", False),
        ("{{ nope.a.b is defined }}", False),
        ("{{ nope if nope is defined else 'none' }}", "none"),
        ("{{ nope is defined and nope.a }}", False),
        ("{{ later }}", None),
        ("{{ later.data.n }}", None),
        ("{{ fetch.data }}", 2),
        ("{{ fetch.nope }}", None),
        ("{{ ctx.nope }}", None),
        ("{% set nope = 3 %}{{ nope }}", "3"),
        ("{% for nope in [1] %}{{ nope }}{% endfor %}", "1"),
    ],
)
@pytest.mark.req("TPL-03")
def test_a_name_that_may_exist_later_or_has_a_default_is_no_error(text: str, expected: Any) -> None:
    assert parse(text).evaluate(KNOWN) == expected


TEXT = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: t, path: tests/t }}
workload: {{ api_url: here }}
workflow:
  - step: start
    tool: {{ kind: noop, args: {{ a: "{0}" }} }}
    next: {{ arcs: [{{ step: b, when: "{1}" }}, {{ step: c }}] }}
  - step: b
  - step: c
"""


def run(read: str, when: str = "{{ false }}", payload: dict[str, Any] | None = None) -> RunResult:
    return asyncio.run(run_net(compiled(TEXT.format(read, when)), payload=payload or {}, db=":memory:"))


@pytest.mark.req("TPL-03", "TPL-09")
@pytest.mark.parametrize(("read", "when"), [("{{ api_ulr }}", "{{ false }}"), ("x", "{{ api_ulr == 'here' }}")])
def test_an_undefined_name_fails_the_run_with_the_nearest_name(read: str, when: str) -> None:
    ended = run(read, when)

    assert not ended.ok
    assert ended.error is not None
    assert 'nothing is called "api_ulr" here: did you mean "api_url"?' in ended.error.message


@pytest.mark.req("TPL-03")
@pytest.mark.parametrize(
    ("read", "payload", "given"),
    [
        ("{{ workload.api_ulr }}", {}, None),
        ("{{ b.data }}", {}, None),  # a step that has not run
        ("{{ since }}", {"since": "today"}, "today"),  # a start may bring what is not declared
        ("{{ since | default('ever') }}", {}, "ever"),
    ],
)
def test_a_declared_name_without_a_value_is_null(read: str, payload: dict[str, Any], given: Any) -> None:
    ended = run(read, payload=payload)

    assert ended.ok, ended.error
    assert ended.result == {"a": given}
