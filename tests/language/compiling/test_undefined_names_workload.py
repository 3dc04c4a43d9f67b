"""Keys of workload that a playbook reads and does not declare: a warning with its place, never a refusal, because the
start may bring them (TPL-03)."""

from __future__ import annotations

import pytest

from noetl.base.diagnostics import Diagnostic, Findings, Source
from noetl.language.compiling.compiler import compile_playbook
from noetl.language.reading.reader import read_playbook
from noetl.tools.kinds import KINDS
from tests.language.compiling.outcomes import document


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
def test_a_key_that_is_not_declared_is_warned_of_once(api: str, workload: str, declared: str) -> None:
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
def test_a_key_that_is_declared_provided_for_or_brought_by_noetl_is_not(expression: str) -> None:
    assert found(expression, "workload: { region: eu, later: null }") == []


def test_a_bare_name_before_or_is_still_an_error() -> None:
    assert {one.code for one in found("{{ customer or 1 }}")} == {"E_UNDEFINED_NAME"}
