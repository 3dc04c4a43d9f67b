"""References are loaded when they are read, and never without a check of their checksum (RES-02, RES-06)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.base.clock import ManualClock
from noetl.base.errors import BackendError, ToolError
from noetl.control.assembly import assemble
from noetl.events.outcomes import Reference
from noetl.store.open_store import open_store
from noetl.store.results.files import FileResults, MemoryResults
from noetl.store.wakeups import MemoryWakeups
from tests.engine_script import net_of
from tests.results.stored_runs import run_stored

BIG = ["r" * 50] * 40


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.mark.req("RES-02")
@pytest.mark.parametrize("value", [1, 1.5, True, "text", [1], {"a": 1}, None], ids=str)
def test_every_reference_has_the_same_five_keys(value: Any) -> None:
    reference = msgspec.to_builtins(MemoryResults().put(value))

    assert reference.keys() == {"store", "key", "checksum", "size", "schema_hint"}


@pytest.mark.req("RES-02")
def test_a_flipped_bit_is_detected_in_every_position(tmp_path: Path) -> None:
    results = FileResults(tmp_path)
    reference = results.put({"n": 12345, "text": "abc"})
    path = tmp_path / reference.key
    body = path.read_bytes()
    for place in range(len(body)):
        path.write_bytes(body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :])
        with pytest.raises(ToolError) as caught:
            results.load(reference)
        assert caught.value.kind == "result.corrupt"
    path.write_bytes(body[:-1])
    with pytest.raises(ToolError, match="differs from what was written"):
        results.load(reference)


READING = """
executor: {spec: {policy: {limits: {max_payload_bytes: 500}}}}
workflow:
  - step: start
    tool: {name: big, kind: python, code: x}
    next: {arcs: [{step: b, args: {ref: "{{ start.ref }}"}}]}
  - step: b
    tool:
      - {name: harm, kind: python, code: x, args: {at: "{{ args.ref.key }}"}}
      - name: read
        kind: python
        code: x
        args: {n: "{{ start.data | length }}"}
        spec:
          policy:
            rules: [{else: {then: {do: continue, set_ctx: {kind: "{{ outcome.error.kind | default('none') }}"}}}}]
"""


@pytest.mark.req("RES-06", "RES-02", "TPL-09")
@pytest.mark.parametrize("harm", ["none", "result.missing", "result.corrupt"])
def test_a_missing_or_changed_payload_is_an_outcome_for_the_policy(db: Path, harm: str) -> None:
    def harmed(inputs: Any, context: Any) -> None:
        path = db.with_name(db.name + ".results") / inputs["args"]["at"]
        if harm == "result.missing":
            path.unlink()
        elif harm == "result.corrupt":
            path.write_bytes(path.read_bytes().replace(b"r", b"s", 1))

    ran = run_stored(db, READING, big=lambda inputs, context: BIG, harm=harmed, read=None)

    assert ran.result.status == "completed"
    assert ran.result.ctx == {"kind": harm}
    assert len(ran.tool.inputs_of("read")) == (1 if harm == "none" else 0)


@pytest.mark.req("RES-06")
def test_passing_a_reference_loads_nothing_until_its_data_is_read(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []
    load, tasks = FileResults.load, ["big"]

    def counted(self: FileResults, ref: Reference) -> Any:
        loaded.append(len(tasks))
        return load(self, ref)

    monkeypatch.setattr(FileResults, "load", counted)

    run_stored(
        db,
        READING,
        big=lambda inputs, context: BIG,
        harm=lambda inputs, context: tasks.append("harm"),
        read=lambda inputs, context: tasks.append("read"),
    )

    assert loaded == [2], "once, for the task that reads it"


@pytest.mark.req("RES-06")
def test_a_guard_that_reads_a_missing_payload_fails_without_a_crash(db: Path) -> None:
    def gone(self: FileResults, reference: Reference) -> Any:
        raise ToolError("result.missing", f"the stored result {reference.key} cannot be read")

    text = READING.replace("{step: b, args", '{step: b, when: "{{ start.data | length > 1 }}", args')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileResults, "load", gone)
        ran = run_stored(db, text, big=lambda inputs, context: BIG)

    assert ran.result.status == "failed"
    assert ran.result.error is not None
    assert ran.result.error.kind == "result.missing"


SET = """
executor: {spec: {policy: {limits: {max_payload_bytes: 500}}}}
workload: {given: small}
workflow: [{step: start, tool: {name: t, kind: python, code: x}}]
"""


@pytest.mark.req("RES-06", "EVT-07")
async def test_an_execution_whose_own_values_are_missing_is_refused(db: Path) -> None:
    store, results = await open_store(str(db))
    executions = assemble(store, results, MemoryWakeups(), ManualClock()).executions
    await executions.start(net_of(SET), execution_id="x1", trace_id="t", payload={"given": "g" * 600})
    executions.release("x1")
    for path in db.with_name(db.name + ".results").rglob("*.json"):
        path.unlink()

    with pytest.raises(BackendError, match=r"execution x1 cannot be read: .*result\.missing"):
        await executions.execution("x1")
    await store.close()
