"""The envelope and the list of event types (EVT-02, EVT-03, EVT-04)."""

from __future__ import annotations

from typing import get_args

import jsonschema
import pytest

from noetl.base.errors import BackendError
from noetl.events.envelope import Event, decode_payload, encode_payload, readable
from noetl.events.events import TAXONOMY, WAITS, Payload
from noetl.events.orders import Turn, TurnAnswer
from noetl.events.payloads import EventPhase, EventSource
from noetl.events.tokens import TokenEnqueued
from tests.playbook_runs import broken, run_here

ENVELOPE = {
    "type": "object",
    "required": [
        *("event_id", "execution_id", "seq", "event_type", "ts", "source", "entity", "entity_id", "status", "step"),
        *("step_run_id", "task_run_id", "trace_id", "parent_id", "payload", "name", "timestamp", "data"),
    ],
    "properties": {
        "seq": {"type": "integer", "minimum": 1},
        "ts": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$"},
        "source": {"enum": ["server", "worker"]},
        "status": {"enum": ["in_progress", "success", "error", "paused"]},
        "payload": {"type": "object"},
        "entity_id": {"type": "string", "minLength": 1},
    },
}

BUSY = """
workflow:
  - step: start
    tool: [{name: one, kind: python, code: x}, {name: two, kind: noop}]
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}
  - step: a
    tool: {name: bad, kind: python, code: x}
    set_ctx: {n: 1}
  - step: b
    set_ctx: {n: 1}
  - step: c
    spec: {policy: {admit: {rules: [{else: {then: {allow: false}}}]}}}
"""


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return run_here(BUSY, one=1, bad=broken()).events


@pytest.mark.req("EVT-02")
def test_every_event_of_a_run_has_the_full_envelope_in_both_spellings(events: list[Event]) -> None:
    for event in events:
        told = readable(event)
        jsonschema.validate(told, ENVELOPE)
        assert (told["name"], told["timestamp"], told["data"]) == (told["event_type"], told["ts"], told["payload"])
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


@pytest.mark.req("OUT-01", "POL-14")
def test_a_readable_log_contains_the_full_outcome_meta(events: list[Event]) -> None:
    metas = [readable(event)["data"]["outcome"]["meta"] for event in events if event.event_type == "task.processed"]

    assert len(metas) == 3
    for meta in metas:
        assert set(meta) >= {"attempt", "duration_ms", "started_at", "finished_at", "trace_id", "task_run_id"}
        assert meta["duration_ms"] == pytest.approx((meta["finished_at"] - meta["started_at"]) * 1000, abs=0.001)


@pytest.mark.req("EVT-03")
def test_every_event_name_is_in_the_taxonomy(events: list[Event]) -> None:
    assert {event.event_type for event in events} <= set(TAXONOMY)
    assert len(TAXONOMY) == len(get_args(Payload)), "two classes of events have one name"


def test_an_ending_event_ends_an_event_with_an_open_phase() -> None:
    for name, kind in TAXONOMY.items():
        for begun in kind.ends:
            assert TAXONOMY[begun].phase in (EventPhase.OPEN, EventPhase.WAITING, EventPhase.HELD), name
            assert kind.phase is not EventPhase.WAITING, name


def test_every_wait_has_an_end() -> None:
    ended = {begun for kind in TAXONOMY.values() for begun in kind.ends}

    assert set(WAITS) <= ended


@pytest.mark.req("EVT-04")
def test_each_event_is_recorded_by_its_owner_or_on_its_behalf(events: list[Event]) -> None:
    for event in events:
        owner = TAXONOMY[event.event_type].owner
        assert event.source is owner or (event.on_behalf and owner is EventSource.WORKER), event.event_type


def test_one_worker_owns_a_step_run_from_first_to_last_task(events: list[Event]) -> None:
    claimed = [event for event in events if event.event_type == "token.claimed" and event.step == "start"]

    assert len(claimed) == 1


def test_the_status_of_an_event_is_its_outcome(events: list[Event]) -> None:
    said = {(event.event_type, event.step): readable(event)["status"] for event in events}

    assert said["task.processed", "start"] == "success"
    assert said["task.processed", "a"] == "error"
    assert said["step.failed", "a"] == "error"
    assert said["playbook.processed", None] == "error"
    assert said["step.scheduled", "start"] == "in_progress"


def test_payloads_are_decoded_as_they_were_encoded(events: list[Event]) -> None:
    for event in events:
        assert decode_payload(event.event_type, encode_payload(event.payload)) == event.payload


def test_a_payload_of_a_newer_version_is_refused() -> None:
    with pytest.raises(BackendError, match="newer"):
        decode_payload("token.enqueued", encode_payload(TokenEnqueued(token_id="t")), schema=99)
    with pytest.raises(BackendError, match="newer"):
        decode_payload("token.teleported", b"{}")


def test_server_and_worker_exchange_plain_json() -> None:
    """The same records will travel over HTTP."""
    import msgspec

    turn = Turn(worker_id="w", capacity=1)
    assert msgspec.json.decode(msgspec.json.encode(turn), type=Turn) == turn
    assert msgspec.json.decode(msgspec.json.encode(TurnAnswer()), type=TurnAnswer) == TurnAnswer()
