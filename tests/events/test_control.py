"""Events that authors name themselves (EVT-09)."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.base.errors import BackendError
from noetl.events.control import Emitted
from noetl.events.envelope import decode_payload, encode_payload, readable
from noetl.store.sqlite.store import SqliteStore
from tests.contracts.commits import commit, event
from tests.playbook_runs import run_here


@pytest.mark.req("EVT-09")
async def test_an_authored_event_is_stored_and_read_back_under_its_name(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "s.db")
    emitted = event(1, payload=Emitted(emitted="audit.required", data={"n": 1}))

    await store.commit([commit(emitted)])

    assert await store.events("x1") == [emitted]
    assert emitted.event_type == "audit.required"
    told = readable(emitted)
    assert (told["event_type"], told["entity"], told["status"]) == ("audit.required", "event", "success")
    await store.close()


def test_authored_events_cannot_use_system_names() -> None:
    """A name of ours would be read back as ours, and fold into the state."""
    posing = event(1, payload=Emitted(emitted="step.done", data=None))

    assert posing.event_type == "event.emitted"
    assert decode_payload(posing.event_type, encode_payload(posing.payload)) == posing.payload


@pytest.mark.parametrize("body", ['{"what": 1}', '{"emitted": "other"}', "[]"])
def test_an_unknown_event_of_a_newer_version_is_not_read_as_an_authored_one(body: str) -> None:
    with pytest.raises(BackendError, match=r'event "step\.teleported" of version 1 was written by a newer program'):
        decode_payload("step.teleported", body)


@pytest.mark.req("EVT-09")
def test_a_failing_condition_fails_the_token() -> None:
    ran = run_here(
        """
workflow:
  - step: start
    spec: {policy: {emit: {events: [{name: a, when: "{{ 1 / 0 }}"}]}}}
    tool: {kind: python, code: x}
"""
    )

    assert ran.result.error is not None
    assert ran.result.error.message.startswith('the end of step "start":')
