"""Kinds of errors that a policy rule waits for (VAL-20)."""

from __future__ import annotations

import pytest

from noetl.tools.kinds import KINDS
from tests.language.compiling.outcomes import Compile

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
def test_a_kind_that_the_tool_never_gives_is_told_with_those_it_does(
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
def test_a_kind_that_it_can_give_is_fine(compiled: Compile, kind: str, test: str) -> None:
    assert "W_ERROR_KIND" not in compiled(TOOL.format(kind=kind, inputs=INPUTS[kind], test=test)).codes


def test_every_alias_belongs_to_a_kind_that_says_what_it_gives() -> None:
    assert all(kind.error_kinds for kind in KINDS.values() if kind.error_aliases)
