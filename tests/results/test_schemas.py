"""Schemas of results: registered by name and version, held to when a result is produced and when it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.base.errors import RefusedError
from noetl.engine.pipeline.result_schemas import mismatch, schema_problem
from noetl.events.envelope import Event
from noetl.events.tasks import TaskProcessed
from noetl.operations.embedded import RunResult, driving
from noetl.store.installation import MemoryKeyValues, find_schema, register_schema
from noetl.store.open_store import open_store
from noetl.tools.registry import Registry
from tests.engine_script import net_of
from tests.narrowing import payloads, present
from tests.playbook_runs import Scripted
from tests.server.talking import talking

CONTINUED = """
workflow:
  - step: start
    tool:
      - name: work
        kind: python
        code: x
        spec:
          result_schema: rows
          policy: {rules: [{when: "{{ outcome.error.kind == 'result.schema' }}", then: {do: continue}}]}
      - {name: after, kind: noop, args: {why: "{{ work.error.kind | default('fits') }}"}}
"""
STRICT = """
workflow:
  - {step: start, tool: {name: work, kind: python, code: x, spec: {result_schema: "rows@1"}}}
"""
PUT_AND_GET = """
workflow:
  - step: start
    tool:
      - {name: put, kind: artifact, op: put, data: [1, 2], spec: {result_schema: rows}}
      - {name: get, kind: artifact, op: get, ref: "{{ put.data }}"}
      - {name: other, kind: artifact, op: put, data: {a: 1}}
      - {name: again, kind: artifact, op: get, ref: "{{ dict(other.data, schema_hint='rows') }}"}
"""
NOOP = "workflow: [{step: start, tool: {name: n, kind: noop, args: {a: 1}, spec: {result_schema: rows}}}]"


async def ran(text: str, work: Any, folder: Path) -> tuple[RunResult, list[Event]]:
    db, events = str(folder / "s.db"), list[Event]()
    store, _ = await open_store(db)
    await register_schema(store.key_values, "rows", {"type": "array"}, at=1.0)
    await store.close()
    async with driving(db, tools=Registry({"python": Scripted(work=[work])}), watch=events.extend) as driver:
        return await driver.run(net_of(text)), events


@pytest.mark.req("RES-07")
@pytest.mark.parametrize(("work", "why"), [({}, "result.schema"), ([1], "fits")])
async def test_a_result_that_violates_its_schema_is_an_error_for_the_policy(
    work: Any, why: str, tmp_path: Path
) -> None:
    result, events = await ran(CONTINUED, work, tmp_path)

    assert (result.status, result.result) == ("completed", {"why": why})
    outcome = payloads(events, TaskProcessed)[0].outcome
    assert outcome.ok is (why == "fits")
    if not outcome.ok:
        assert present(outcome.error).message == 'result is object, and array is allowed (schema "rows")'
        assert outcome.result is None


@pytest.mark.req("RES-07")
@pytest.mark.parametrize(("text", "schema"), [(STRICT, "rows@1"), (STRICT.replace("@1", "@2"), "rows@2")])
async def test_a_schema_error_without_a_rule_fails_the_step(text: str, schema: str, tmp_path: Path) -> None:
    result, _ = await ran(text, {}, tmp_path)

    assert result.error is not None
    assert (result.status, result.error.kind) == ("failed", "result.schema")
    assert schema in result.error.message


@pytest.mark.req("RES-07")
async def test_a_noop_result_is_validated_too(tmp_path: Path) -> None:
    result, _ = await ran(NOOP, None, tmp_path)

    assert result.error is not None
    assert result.error.kind == "result.schema"


@pytest.mark.req("RES-07")
async def test_a_stored_artifact_carries_its_schema_and_is_validated_when_read(tmp_path: Path) -> None:
    result, events = await ran(PUT_AND_GET, None, tmp_path)

    outcomes = {one.task: one.outcome for one in payloads(events, TaskProcessed)}
    assert outcomes["put"].result["schema_hint"] == "rows"
    assert outcomes["get"].result == [1, 2]
    assert present(outcomes["again"].error).kind == "result.schema"
    assert result.status == "failed"


@pytest.mark.req("RES-07")
async def test_schemas_are_registered_in_versions_over_the_api() -> None:
    async with talking() as talk:
        for schema in ({"type": "array"}, {"type": "array"}, {"type": "object"}):
            made = await talk.client.put("/api/schemas/rows", json={"schema": schema})
            assert made.status_code == 200, made.text
        newest, first = [await talk.get(f"/api/schemas/{name}") for name in ("rows", "rows@1")]
        listed = await talk.get("/api/schemas")
        await talk.get("/api/schemas/others", 404)
        wrong = await talk.client.put("/api/schemas/rows", json={"schema": {"pattern": "a+"}})

    assert (newest["name"], newest["version"], newest["schema"]) == ("rows", 2, {"type": "object"})
    assert (first["version"], first["schema"]) == (1, {"type": "array"})
    assert [one["version"] for one in listed["schemas"]] == [2]
    assert wrong.status_code == 422
    assert "pattern" in wrong.json()["detail"]


async def test_an_invalid_schema_name_is_refused_and_finds_nothing() -> None:
    key_values = MemoryKeyValues()

    with pytest.raises(RefusedError, match="not a valid schema name"):
        await register_schema(key_values, "a@1", {}, at=1.0)
    assert await find_schema(key_values, "../x") is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([0.5, 2.0]) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
SMALL = st.integers(0, 3)
SCHEMAS = st.recursive(
    st.booleans()
    | st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, min_size=1, max_size=2, unique=True),
            "enum": st.lists(VALUES, min_size=1, max_size=3),
            "const": VALUES,
            "required": st.lists(st.sampled_from("ab"), unique=True),
            **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum"), SMALL),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "additionalProperties": inner,
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
        },
    ),
    max_leaves=5,
)


@pytest.mark.req("RES-07")
@settings(deadline=None)
@given(schema=SCHEMAS, value=VALUES)
def test_validation_agrees_with_the_reference_implementation(schema: Any, value: Any) -> None:
    assert schema_problem(schema) is None
    assert (mismatch(schema, value) is None) is jsonschema.Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ([], "schema must be a mapping, and this is array"),
        ({"type": "list"}, 'schema.type is "list"'),
        ({"items": {"oneOf": []}}, 'schema.items has "oneOf"'),
        ({"properties": []}, "schema.properties cannot be array"),
        ({"minItems": True}, "schema.minItems cannot be boolean"),
    ],
)
def test_an_invalid_schema_is_refused_at_its_place(schema: Any, words: str) -> None:
    assert words in str(schema_problem(schema))
