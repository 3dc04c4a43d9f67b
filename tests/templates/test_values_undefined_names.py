"""Names that nothing defines, in whole runs of documents that are only warned of them (TPL-03)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from noetl.language.checking import compiled
from noetl.operations.embedded import RunResult, run_net

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
def test_an_undefined_name_fails_the_run_and_is_named_with_the_nearest(read: str, when: str) -> None:
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
def test_what_is_known_and_absent_is_null(read: str, payload: dict[str, Any], given: Any) -> None:
    ended = run(read, payload=payload)

    assert ended.ok, ended.error
    assert ended.result == {"a": given}
