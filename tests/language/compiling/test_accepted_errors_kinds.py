"""Kinds of errors that a policy rule waits for (VAL-20)."""

from __future__ import annotations

import pytest

from noetl.language.reading.playbook import Dialect
from noetl.tools.kinds import KINDS
from tests.language.compiling.outcomes import Compile, compiled_text, document

TOOL = """- step: start
  tool:
    kind: {kind}
    {inputs}
    spec: {{ policy: {{ rules: [{{ when: "{{{{ outcome.error.kind {test} }}}}", then: {{ do: fail }} }}] }} }}
"""
INPUTS = {
    "http": "url: https://example.com",
    "python": "code: result = 1",
    "duckdb": "command: SELECT 1",
    "noop": "args: {}",
    "container": "image: x",
}


@pytest.mark.req("VAL-20")
@pytest.mark.parametrize(
    ("kind", "test", "hint"),
    [
        ("http", "== 'rate_limited'", 'did you mean "rate_limit"?'),
        ("http", "in ['http.status', 'py.exception']", "http.transport"),
        ("python", "== 'rate_limit'", "it gives py.exception, py.result"),
        ("duckdb", "== 'pg.error'", 'did you mean "duckdb.error"?'),
    ],
)
def test_an_error_kind_that_the_tool_never_returns_is_reported_with_those_it_does(
    compiled: Compile, kind: str, test: str, hint: str
) -> None:
    text = TOOL.format(kind=kind, inputs=INPUTS[kind], test=test)

    assert hint in compiled(text).only("W_ERROR_KIND").hint


@pytest.mark.req("VAL-20")
@pytest.mark.parametrize(
    ("kind", "test"),
    [
        ("http", "== 'rate_limit'"),
        ("http", "in ['server_error', 'auth', 'timeout', 'http.transport']"),
        ("python", "== 'result.schema'"),
        ("noop", "== 'anything'"),
        ("container", "== 'container.exit'"),  # a plug-in's own
    ],
)
def test_an_error_kind_that_the_tool_can_return_gets_no_warning(compiled: Compile, kind: str, test: str) -> None:
    assert "W_ERROR_KIND" not in compiled(TOOL.format(kind=kind, inputs=INPUTS[kind], test=test)).codes


def test_every_error_alias_belongs_to_a_kind_that_declares_its_errors() -> None:
    assert all(kind.error_kinds for kind in KINDS.values() if kind.error_aliases)


ARC = """- step: start
  tool: {kind: http, url: https://example.com}
  next: {arcs: [{step: b, when: "{{ event.error.kind == 'WORD' }}"}]}
- step: b
  tool: {kind: noop}
"""
CASE = """- step: start
  tool: {kind: http, url: https://example.com}
  case:
    - when: "{{ event.name == 'call.error' and PLACE == 'WORD' }}"
      then: {next: b}
- step: b
  tool: {kind: noop}
"""
RETRY = """- step: start
  tool: {kind: http, url: https://example.com}
  retry: [{when: "{{ error.kind == 'WORD' }}", then: {max_attempts: 3, initial_delay: 1}}]
  next: end
"""


def as_older(text: str) -> str:
    return document(text, api="noetl.io/v2", dialect=Dialect.V10 if "arcs" in text else Dialect.V2_CASE)


@pytest.mark.req("VAL-20")
@pytest.mark.parametrize(
    "text",
    [ARC, CASE.replace("PLACE", "event.error.kind"), CASE.replace("PLACE", "response.error.kind"), RETRY],
    ids=["arc", "case event", "case response", "retry"],
)
def test_arcs_case_rules_and_retries_are_checked_too(text: str) -> None:
    found = compiled_text(as_older(text.replace("WORD", "rate_limited"))).only("W_ERROR_KIND")

    assert 'did you mean "rate_limit"?' in found.hint


@pytest.mark.req("VAL-20")
@pytest.mark.parametrize("word", ["http.status", "rate_limit", "timeout", "policy.fail", "retry.exhausted"])
@pytest.mark.parametrize("text", [ARC, CASE.replace("PLACE", "event.error.kind")], ids=["arc", "case"])
def test_a_test_of_how_a_step_can_end_gets_no_warning(text: str, word: str) -> None:
    assert "W_ERROR_KIND" not in compiled_text(as_older(text.replace("WORD", word))).codes
