"""Large values are moved out of events and put back: no event exceeds the limit, nothing is lost or mixed up (RES-01,
RES-03)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.base.errors import ToolError
from noetl.events.control import Emitted
from noetl.events.envelope import decode_payload, encode_payload
from noetl.events.events import Payload
from noetl.events.executions import ExecutionRequested, WorkflowStarted
from noetl.events.large_values import OVERHEAD_BYTES, put_back, set_apart
from noetl.events.loops import IterationDone
from noetl.events.outcomes import Error, Meta, Outcome, Reference, Status
from noetl.events.steps import CaseHeard, CtxPatched, StepFailed, StepScheduled
from noetl.events.tasks import Decided, TaskProcessed
from noetl.events.tokens import TokenConsumed, TokenCreated
from noetl.events.v2_case_positions import OwnEvent
from noetl.store.results.files import MemoryResults

BIG = "x" * 300
META = Meta(attempt=1, started_at=1.0, finished_at=2.0, trace_id="t", task_run_id="r")


def processed(**decided: Any) -> TaskProcessed:
    outcome = Outcome(status=Status.SUCCESS, meta=META, helpers={"http": {"headers": {"x-long": BIG}, "status": 200}})
    decision = Decided(rule=0, do="continue", **decided)
    return TaskProcessed(task="a", visit=1, attempt=1, task_run_id="r", outcome=outcome, decision=decision)


LARGE: list[Payload] = [
    ExecutionRequested(path="p", net_hash="h", payload={"big": BIG, "n": 1}),
    WorkflowStarted(workload={"list": [BIG], "n": 1}, entry="start"),
    TokenCreated(token_id="t", step="s", path="p", args={"big": {"deep": BIG}}),
    StepScheduled(token_id="t", args={"big": BIG}, token_meta={"note": BIG}),
    CtxPatched(patch={"big": BIG, "a.b": [BIG], "n": 1}),
    processed(set_ctx={"big": BIG}, set_iter={"page": [BIG]}, set_vars={"v": BIG}, set_shared={"s": BIG}),
    processed(set_prev=BIG),
    processed(set_prev=[BIG]),
    IterationDone(index=0, path=(0,), extend=[BIG, 1]),
    StepFailed(error=Error(kind="http", message="no", details={"data": BIG}, cause=Error(kind="k", message="m"))),
    CaseHeard(decision=Decided(rule=0, do="continue"), later=(OwnEvent(name="e", data={"big": BIG}),)),
    Emitted(emitted="audit.required", data=[BIG]),
]


@pytest.mark.req("RES-01", "RES-03")
@pytest.mark.parametrize("payload", LARGE, ids=lambda payload: payload.event_type)
def test_large_values_of_any_event_are_stored_separately_and_restored(payload: Payload) -> None:
    results = MemoryResults()

    small = set_apart(payload, 100, results.put)
    stored = encode_payload(small)

    assert BIG.encode() not in stored
    assert put_back(decode_payload(payload.event_type, stored), results.load) == payload


@pytest.mark.req("RES-02", "SCOPE-03")
def test_only_large_values_are_stored_separately_and_replaced_by_references() -> None:
    results = MemoryResults()

    small = set_apart(CtxPatched(patch={"big": BIG, "n": 1}), 100, results.put)

    assert small.apart == (("patch", "big"),)
    assert small.patch == {"big": msgspec.to_builtins(results.put(BIG)), "n": 1}
    assert small.patch["big"].keys() == {"store", "key", "checksum", "size", "schema_hint"}


def test_data_shaped_like_a_reference_is_data() -> None:
    """Otherwise whoever writes a response could have anybody's results read (reliability.md §2.1)."""
    results = MemoryResults()
    lookalike = msgspec.to_builtins(results.put("somebody else's"))
    payload = CtxPatched(patch={"a": lookalike, "big": BIG})

    stored = decode_payload("ctx.patched", encode_payload(set_apart(payload, 250, results.put)))

    assert stored.apart == (("patch", "big"),)
    assert put_back(stored, results.load) == payload


def test_many_small_values_that_are_large_together_are_stored_as_one() -> None:
    results = MemoryResults()
    payload = CtxPatched(patch={f"k{number}": number for number in range(2_000)})

    small = set_apart(payload, 100, results.put)

    assert small.apart == (("patch",),)
    assert len(encode_payload(small)) < 1_000
    assert put_back(small, results.load) == payload


def test_a_stored_value_names_its_field() -> None:
    results = MemoryResults()
    payload = CtxPatched(patch={f"k{number}": "y" * 90 for number in range(200)} | {"big": BIG})

    small = set_apart(payload, 100, results.put)

    assert small.apart == (("patch",),)
    assert results.load(msgspec.convert(small.patch, Reference)) == payload.patch
    assert put_back(small, results.load) == payload


def test_an_event_without_large_values_is_returned_unchanged() -> None:
    results = MemoryResults()
    for payload in (CtxPatched(patch={"n": 1}), TokenConsumed(token_id="t" * 500)):
        assert set_apart(payload, 100, results.put) is payload
        assert put_back(payload, results.load) is payload


@pytest.mark.req("RES-06")
def test_a_missing_stored_value_raises_an_error() -> None:
    small = set_apart(CtxPatched(patch={"big": BIG}), 100, MemoryResults().put)

    with pytest.raises(ToolError) as caught:
        put_back(small, MemoryResults().load)

    assert caught.value.kind == "result.missing"


leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=400)
data = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=9), inner, max_size=8)
)
mappings = st.dictionaries(st.text(max_size=12), data, max_size=12)


@pytest.mark.req("RES-03")
@settings(max_examples=60, deadline=None)
@given(ctx=mappings, args=mappings, anything=data, limit=st.sampled_from([0, 50, 100, 1_000, 65_536]))
def test_no_stored_event_greatly_exceeds_the_limit_and_none_loses_data(
    ctx: dict[str, Any], args: dict[str, Any], anything: Any, limit: int
) -> None:
    results = MemoryResults()
    payloads: list[Payload] = [
        CtxPatched(patch=ctx),
        TokenCreated(token_id="t", step="s", path="p", args=args),
        processed(set_ctx=ctx, set_iter=args, set_prev=anything),
        Emitted(emitted="own", data=anything),
    ]
    for payload in payloads:
        stored = encode_payload(set_apart(payload, limit, results.put))
        assert len(stored) <= limit + OVERHEAD_BYTES
        assert put_back(decode_payload(payload.event_type, stored), results.load) == payload
