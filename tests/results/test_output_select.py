"""Fields that stay inline beside a result that is stored (design.md §5)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.events.outcomes import Reference
from noetl.store.results.files import MemoryResults
from tests.playbook_runs import run_here

PLAYBOOK = """
executor: {spec: {policy: {limits: {max_payload_bytes: 200}}}}
workflow:
  - step: start
    result: {store: {kind: auto}, output_select: [count, deep.name, rows, nothing.here, items.1.n]}
    tool: [{name: big, kind: python, code: x}]
    next: {arcs: [{step: small, args: {n: "{{ start.count }}", name: "{{ start.name }}", ref: "{{ start._ref.key }}"}}]}
  - step: small
    tool: [{name: read, kind: python, code: x, args: {got: "{{ args }}", second: "{{ start.n }}"}}]
"""
SMALL = {"count": 3, "deep": {"name": "x"}, "items": [{"n": 1}, {"n": 2}]}
BIG = {**SMALL, "rows": ["y" * 300]}


@pytest.mark.parametrize("size", ["large", "small"])
def test_selected_fields_are_read_without_loading_the_result(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    load = MemoryResults.load

    def counted(self: MemoryResults, ref: Reference) -> Any:
        loaded.append(ref.key)
        return load(self, ref)

    monkeypatch.setattr(MemoryResults, "load", counted)

    ran = run_here(PLAYBOOK, big=BIG if size == "large" else SMALL)

    assert ran.result.status == "completed"
    [inputs] = ran.tool.inputs_of("read")
    assert (inputs["args"]["got"]["n"], inputs["args"]["got"]["name"], inputs["args"]["second"]) == (3, "x", 2)
    done = ran.payloads("step.done")[0].result
    assert done.result is None
    assert inputs["args"]["got"]["ref"] == done.ref.key
    assert done.inline == {"count": 3, "name": "x", "n": 2}, "rows is large itself, and nothing is not there"
    assert loaded == ([done.ref.key] if size == "large" else []), "once at most, to select from it"
