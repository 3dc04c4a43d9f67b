"""Nothing over the limit is ever stored in an event, and everything is read as if it were (RES-03)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noetl.cli.executions import ctx_command
from noetl.engine.pipeline.payloads import MAX_INLINE_BYTES, MAX_WRITES_BYTES
from noetl.events.large_values import OVERHEAD_BYTES
from noetl.tools.contract import ToolResult
from tests.playbook_runs import broken
from tests.results.stored_runs import StoredRun, run_stored

BIG = "b" * 5_000
FIVE_KEYS = {"store", "key", "checksum", "size", "schema_hint"}


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def limited(limit: int, steps: str, more: str = "") -> str:
    policy = f"{{limits: {{max_payload_bytes: {limit}}}{more}}}"
    return f"executor: {{spec: {{policy: {policy}}}}}\n{steps}"


EVERYTHING = limited(
    1_000,
    """
workload: {given: small}
workflow:
  - step: start
    spec: {policy: {emit: {events: [{name: audit.big, data: {was: "{{ start.data }}"}}]}}}
    tool:
      - name: fetch
        kind: python
        code: x
        args: {w: "{{ workload.given | length }}"}
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {big: "{{ outcome.result }}", n: 1}}}}]}}
    next: {arcs: [{step: each, args: {passed: "{{ ctx.big }}", ref: "{{ start.ref }}"}}]}
  - step: each
    loop: {in: "{{ [ctx.big, ctx.big] }}", iterator: one}
    tool: {name: page, kind: python, code: x, args: {n: "{{ iter.one | length }}", also: "{{ args.passed | length }}"}}
    next: {arcs: [{step: sum}]}
  - step: sum
    tool: {name: count, kind: python, code: x, args: {all: "{{ each.data | length }}", ctx: "{{ ctx.big | length }}"}}
""",
)


@pytest.mark.req("RES-01", "RES-03", "RES-06")
def test_all_parts_of_events_stay_under_the_limit(db: Path) -> None:
    ran = run_stored(db, EVERYTHING, {"given": BIG}, fetch=BIG, page=[[BIG], [BIG]], count=3)

    assert ran.result.status == "completed"
    assert ran.largest.size_bytes <= 1_000 + OVERHEAD_BYTES, ran.largest.event_type
    assert BIG not in "".join(row.body for row in ran.rows)
    assert ran.tool.inputs_of("fetch")[0]["args"] == {"w": 5_000}
    assert ran.tool.inputs_of("page")[1]["args"] == {"n": 5_000, "also": 5_000}
    assert ran.tool.inputs_of("count")[0]["args"] == {"all": 2, "ctx": 5_000}
    assert ran.result.ctx == {"big": BIG, "n": 1}


@pytest.mark.req("RES-02", "SCOPE-03")
def test_a_large_ctx_value_is_a_reference_in_its_patch_next_to_small_ones(db: Path) -> None:
    ran = run_stored(db, EVERYTHING, {"given": BIG}, fetch=BIG, page=[[BIG], [BIG]], count=3)

    [patched] = ran.payloads("ctx.patched")
    assert patched["patch"]["n"] == 1
    assert patched["patch"]["big"].keys() == FIVE_KEYS
    assert patched["apart"] == [["patch", "big"]]
    [fetched] = [one for one in ran.payloads("task.processed") if one["task"] == "fetch"]
    assert fetched["outcome"]["ref"] == patched["patch"]["big"], "one value is stored once"


@pytest.mark.req("SCOPE-03", "RES-06")
def test_ctx_with_stored_values_is_shown_in_full(db: Path) -> None:
    run_stored(db, EVERYTHING, {"given": BIG}, fetch=BIG, page=[[BIG], [BIG]], count=3)

    told = CliRunner().invoke(ctx_command, ["--db", str(db), "last"])

    assert told.exit_code == 0, told.output
    assert msgspec.json.decode(told.stdout) == {"big": BIG, "n": 1}


@pytest.mark.req("RES-03")
@pytest.mark.parametrize(("size", "by_reference"), [(100, False), (101, True)])
@pytest.mark.parametrize("kind", ["python", "noop"])
def test_a_value_at_the_limit_is_inline(db: Path, kind: str, size: int, by_reference: bool) -> None:
    """A noop is decided in the server, which holds to the same limit."""
    text = "t" * (size - 2 if kind == "python" else size - len('{"text":""}'))
    args = f"args: {{text: {text}}}" if kind == "noop" else "code: x"
    steps = f"workflow: [{{step: start, tool: {{name: t, kind: {kind}, {args}}}}}]"

    ran = run_stored(db, limited(100, steps), t=text)

    [processed] = ran.payloads("task.processed")
    assert ("ref" in processed["outcome"]) is by_reference
    assert ("result" in processed["outcome"]) is not by_reference
    assert ran.result.result == (text if kind == "python" else {"text": text})


@pytest.mark.req("RES-04")
@pytest.mark.parametrize("tool", ["{name: t, kind: python, code: x}", '{name: t, kind: noop, args: {n: "{{ 1 }}"}}'])
def test_references_first_stores_even_a_small_value(db: Path, tool: str) -> None:
    steps = f"""
workflow:
  - step: start
    tool: {tool}
    next: {{arcs: [{{step: b, args: {{v: "{{{{ start.data }}}}"}}}}]}}
  - step: b
    tool: {{name: read, kind: python, code: x, args: {{v: "{{{{ args.v }}}}", t: "{{{{ start.data }}}}"}}}}
"""
    ran = run_stored(db, limited(65_536, steps, ", results: {reference_first: true}"), t=1, read=None)

    assert ran.payloads("task.processed")[0]["outcome"]["ref"].keys() == FIVE_KEYS
    expected = 1 if "python" in tool else {"n": 1}
    assert ran.tool.inputs_of("read")[0]["args"] == {"v": expected, "t": expected}


FAILING = limited(
    2_000,
    """
workflow:
  - step: start
    tool:
      - name: bad
        kind: python
        code: x
        spec:
          policy:
            rules: [{else: {then: {do: continue, set_ctx: {size: "{{ outcome.error.message | length }}"}}}}]
      - name: then
        kind: python
        code: x
        args: {body: "{{ bad.error.details.data }}", said: "{{ bad.error.message }}"}
      - {name: worse, kind: python, code: x}
""",
)


@pytest.mark.req("RES-03")
def test_a_long_error_message_is_truncated_with_a_mark_and_its_details_are_stored(db: Path) -> None:
    problem = broken("http.status", "m" * 90_000, data={"body": BIG})
    ran = run_stored(db, FAILING, bad=problem, then=1, worse=broken("py.exception", "w" * 90_000))

    assert ran.largest.size_bytes <= 2_000 + OVERHEAD_BYTES, ran.largest.event_type
    [inputs] = ran.tool.inputs_of("then")
    assert inputs["args"]["body"] == {"body": BIG}
    assert inputs["args"]["said"].endswith("… (cut, 90000 characters)")
    assert ran.result.ctx == {"size": 90_000}, "its policy sees all of it"
    failed = ran.payloads("step.failed")[0]["error"]["message"]
    assert failed.startswith("www")
    assert failed.endswith("… (cut, 90000 characters)")
    assert ran.result.error is not None
    assert ran.result.error.message == failed


@pytest.mark.req("RES-03", "OUT-02")
def test_headers_and_output_do_not_enlarge_an_event(db: Path) -> None:
    answer = ToolResult(
        result=1, helpers={"http": {"status": 200, "headers": {"set-cookie": BIG}}}, stdout="o" * 90_000
    )
    steps = """
workflow:
  - step: start
    tool:
      name: t
      kind: python
      code: x
      spec:
        policy:
          rules:
            - when: "{{ outcome.http.headers['set-cookie'] | length == 5000 }}"
              then: {do: continue, set_ctx: {saw: 1}}
"""

    ran = run_stored(db, limited(1_000, steps), t=answer)

    assert ran.result.ctx == {"saw": 1}
    assert ran.largest.size_bytes <= 1_000 + OVERHEAD_BYTES
    [processed] = ran.payloads("task.processed")
    assert processed["outcome"]["meta"]["stdout"].endswith("… (cut, 90000 characters)")
    assert processed["outcome"]["helpers"]["http"].keys() == FIVE_KEYS


PASSED_ON = limited(
    1_000,
    """
workflow:
  - step: start
    tool:
      name: fetch
      kind: python
      code: x
      spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {big: "{{ outcome.result }}"}}}}]}}
    next: {arcs: [{step: b, args: {passed: "{{ ctx.big }}"}}]}
  - step: b
    tool: {name: read, kind: python, code: x, args: {a: "{{ args.passed }}", b: "{{ ctx.big }}"}}
""",
)


leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=3_000)
data = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=9), inner, max_size=6)
)


@pytest.mark.req("RES-01", "RES-03", "RES-06")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=data, limit=st.sampled_from([100, 1_000, 10_000]))
def test_no_row_greatly_exceeds_the_limit_for_any_tool_result(
    value: Any, limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ran: StoredRun = run_stored(
        tmp_path_factory.mktemp("run") / "store.db",
        PASSED_ON.replace("max_payload_bytes: 1000", f"max_payload_bytes: {limit}"),
        fetch=lambda inputs, context: value,
        read=lambda inputs, context: inputs["args"],
    )

    assert ran.largest.size_bytes <= limit + OVERHEAD_BYTES, ran.largest.event_type
    assert ran.result.result == {"a": value, "b": value}
    assert ran.result.ctx == {"big": value}


@pytest.mark.req("RES-03")
def test_a_policy_that_writes_too_much_fails_its_task_and_names_the_limit(db: Path) -> None:
    text = """
workflow:
  - step: start
    tool:
      - name: fetch
        kind: python
        code: x
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {big: "{{ outcome.result }}"}}}}]}}
"""
    fits, above = (
        run_stored(db.with_name(f"{size}.db"), text, {}, fetch="b" * size)
        for size in (MAX_WRITES_BYTES - 100, MAX_WRITES_BYTES)
    )

    assert fits.result.status == "completed"
    assert above.result.status == "failed"
    assert above.result.error is not None
    assert "a policy writes at most 6 MiB" in above.result.error.message


@pytest.mark.req("RES-03")
def test_no_playbook_can_put_more_than_a_mebibyte_inside_an_event(db: Path) -> None:
    steps = "workflow: [{step: start, tool: [{name: fetch, kind: python, code: x}]}]"
    ran = run_stored(db, limited(50_000_000, steps), {}, fetch="b" * MAX_INLINE_BYTES)

    assert ran.result.status == "completed"
    assert ran.largest.size_bytes < 10_000
