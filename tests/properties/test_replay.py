"""Replay: at every prefix of a log, the state told by the log equals the live state at that point (EVT-07, P6).

Random playbooks with random outcomes: steps in any graph, guards, admission, several tokens, failures, retries of a
report, lost leases. `Conversation` compares after every command; here every single event is a prefix too.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.engine.evolve import evolve, replay
from noetl.engine.execution import Execution
from noetl.events.envelope import Event, decode_payload, encode_payload
from tests.engine_script import Conversation
from tests.properties.random_playbooks import act, as_yaml, open_runs, playbooks


@pytest.mark.req("EVT-07")
@settings(max_examples=60, deadline=None)
@given(text=playbooks(), choose=st.data())
def test_replay_equals_the_live_state_at_every_prefix(text: str, choose: st.DataObject) -> None:
    talk = Conversation(as_yaml(text))
    talk.start()
    for _ in range(60):
        if not open_runs(talk):
            break
        act(talk, choose)

    live = Execution(execution_id="x1", trace_id="t1")
    for length, event in enumerate(talk.log, 1):
        evolve(live, event)
        assert replay("x1", "t1", [_stored(one) for one in talk.log[:length]]) == live
    assert live == talk.execution
    _check_log(talk)


def _stored(event: Event) -> Event:
    """The event as it comes back from a store."""
    payload = decode_payload(event.event_type, encode_payload(event.payload))
    return msgspec.structs.replace(event, payload=payload)


def _check_log(talk: Conversation) -> None:
    """What holds for every log, whatever happened (P2, P3, EVT-02, SRV-06)."""
    assert [event.seq for event in talk.log] == list(range(1, len(talk.log) + 1))
    assert len({event.event_id for event in talk.log}) == len(talk.log)
    ends = [event.step_run_id for event in talk.log if event.event_type in ("step.done", "step.failed")]
    assert len(set(ends)) == len(ends)
    assert talk.types().count("playbook.processed") <= 1
    is_over = talk.status != "running"
    assert is_over is not bool(talk.execution.tokens), "open means that a token is somewhere"
    if not is_over:
        assert open_runs(talk), "an open execution waits for a worker, and for nothing else here"
