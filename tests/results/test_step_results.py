"""`result: {store, output_select}` of a step, wherever the step is run and wherever it is written (DESIGN §5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.results.stored_runs import run_stored

BIG = {"count": 3, "rows": ["y" * 300]}
TEXT = """
executor: {spec: {policy: {limits: {max_payload_bytes: 200}}}}
workload: {rows: []}
workflow:
  - step: start
    WRITTEN
    tool: TOOL
    next: {arcs: [{step: b, args: {n: "{{ start.count }}", key: "{{ start._ref.key }}", same: "{{ start.ref.key }}"}}]}
  - step: b
    tool: {name: read, kind: python, code: x, args: {got: "{{ args }}", rows: "{{ start.rows | length }}"}}
"""
RESULT = "result: {store: {kind: KIND}, output_select: [count, rows]}"
TOOLS = {
    "worker": "{name: big, kind: python, code: x}",
    "server": '{kind: noop, args: {count: "{{ 3 }}", rows: "{{ workload.rows }}"}}',
}


@pytest.mark.req("RES-06", "TPL-07")
@pytest.mark.parametrize("where", list(TOOLS))
@pytest.mark.parametrize("written", [RESULT, f"spec: {{{RESULT}}}"], ids=["step", "spec"])
@pytest.mark.parametrize("kind", ["auto", "nats_kv"], ids=["known", "not configured here"])
def test_small_fields_stay_readable_beside_the_reference(tmp_path: Path, where: str, written: str, kind: str) -> None:
    text = TEXT.replace("WRITTEN", written.replace("KIND", kind)).replace("TOOL", TOOLS[where])

    ran = run_stored(tmp_path / "store.db", text, {"rows": BIG["rows"]}, big=BIG, read=None)

    done = ran.payloads("step.done")[0]["result"]
    assert done["inline"] == {"count": 3}, "rows is large itself"
    assert "result" not in done
    [inputs] = ran.tool.inputs_of("read")
    key = done["ref"]["key"]
    assert inputs["args"] == {"got": {"n": 3, "key": key, "same": key}, "rows": 1}
