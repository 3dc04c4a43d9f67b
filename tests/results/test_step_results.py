"""`result: {store, output_select}` of a step, wherever the step is run and wherever it is written (design.md §5)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from noetl.events.outcomes import Reference
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
def test_small_fields_are_readable_next_to_the_reference(tmp_path: Path, where: str, written: str, kind: str) -> None:
    text = TEXT.replace("WRITTEN", written.replace("KIND", kind)).replace("TOOL", TOOLS[where])

    ran = run_stored(tmp_path / "store.db", text, {"rows": BIG["rows"]}, big=BIG, read=None)

    done = ran.payloads("step.done")[0]["result"]
    assert done["inline"] == {"count": 3}, "rows is large itself"
    assert "result" not in done
    [inputs] = ran.tool.inputs_of("read")
    key = done["ref"]["key"]
    assert inputs["args"] == {"got": {"n": 3, "key": key, "same": key}, "rows": 1}


SMALL = """
workload: {n: 3}
workflow:
  - step: start
    RESULT
    tool: TOOL
    next: {arcs: [{step: b, args: {ref: "{{ start._ref }}", same: "{{ start.ref }}", n: "{{ start.data.count }}"}}]}
  - step: b
    tool: {name: read, kind: python, code: x, args: {got: "{{ args }}", count: "{{ start.count }}"}}
"""
SMALL_TOOLS = {
    "worker": "{name: small, kind: python, code: x}",
    "server": '{kind: noop, args: {count: "{{ workload.n }}"}}',
}


@pytest.mark.req("RES-02", "RES-06")
@pytest.mark.parametrize("where", list(SMALL_TOOLS))
@pytest.mark.parametrize("kind", ["auto", "nats_kv"])
def test_a_step_with_a_store_option_has_a_reference_for_any_size(tmp_path: Path, where: str, kind: str) -> None:
    text = SMALL.replace("RESULT", f"result: {{store: {{kind: {kind}}}}}").replace("TOOL", SMALL_TOOLS[where])

    ran = run_stored(tmp_path / "store.db", text, small={"count": 3}, read=None)

    [inputs] = ran.tool.inputs_of("read")
    reference = inputs["args"]["got"]["ref"]
    assert {"store", "key", "checksum", "size", "schema_hint"} <= set(reference)
    assert inputs["args"]["got"] == {"ref": reference, "same": reference, "n": 3}
    assert inputs["args"]["count"] == 3
    assert ran.results.load(msgspec.convert(reference, Reference)) == {"count": 3}
    assert "result" not in ran.payloads("step.done")[0]["result"]


@pytest.mark.req("RES-02")
@pytest.mark.parametrize("where", list(SMALL_TOOLS))
@pytest.mark.parametrize("written", ["", "result: {output_select: [count]}"], ids=["nothing", "fields only"])
def test_a_step_without_a_store_option_has_small_results_inline(tmp_path: Path, where: str, written: str) -> None:
    text = SMALL.replace("RESULT", written or "desc: x").replace("TOOL", SMALL_TOOLS[where])

    ran = run_stored(tmp_path / "store.db", text, small={"count": 3}, read=None)

    [inputs] = ran.tool.inputs_of("read")
    assert inputs["args"]["got"] == {"ref": None, "same": None, "n": 3}
    assert ran.payloads("step.done")[0]["result"]["result"] == {"count": 3}


@pytest.mark.req("RES-02", "RES-06")
def test_the_result_list_of_a_loop_is_stored_if_requested(tmp_path: Path) -> None:
    text = """
workflow:
  - step: start
    result: {store: {kind: auto}}
    loop: {in: [1, 2], iterator: n}
    tool: {name: work, kind: python, code: x}
    next: {arcs: [{step: b, args: {key: "{{ start._ref.key }}"}}]}
  - {step: b, tool: {name: read, kind: python, code: x, args: {key: "{{ args.key }}", all: "{{ start.data }}"}}}
"""
    ran = run_stored(tmp_path / "store.db", text, work=7, read=None)

    [inputs] = ran.tool.inputs_of("read")
    [done] = ran.payloads("loop.done")
    assert inputs["args"] == {"key": done["ref"]["key"], "all": [7, 7]}


def test_a_step_without_a_result_stores_nothing(tmp_path: Path) -> None:
    text = SMALL.replace("RESULT", "result: {store: {kind: auto}}").replace("TOOL", SMALL_TOOLS["worker"])
    text = text.replace(', n: "{{ start.data.count }}"', "").replace(', count: "{{ start.count }}"', "")

    ran = run_stored(tmp_path / "store.db", text, small=None, read=None)

    [inputs] = ran.tool.inputs_of("read")
    assert inputs["args"]["got"] == {"ref": None, "same": None}
