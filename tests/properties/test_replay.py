"""Replay: at every prefix of a log, the state told by the log equals the live state at that point (EVT-07, P6).

Random playbooks with random outcomes: steps in any graph, guards, admission, several tokens, failures, retries of a
report, lost leases. `Conversation` compares after every command; here every single event is a prefix too.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.engine.evolve import evolve, replayed
from noetl.engine.execution import Execution
from noetl.events.encoding import decode_payload, encode_payload
from noetl.events.envelope import Event
from tests.engine_script import Conversation

NAMES = ("start", "a", "b", "c")
GUARDS = (None, "{{ true }}", "{{ false }}", "{{ ctx.n > 2 }}", "{{ event.name == 'step.failed' }}", "{{ args.x }}")


@st.composite
def arcs(draw: st.DrawFn) -> dict[str, Any]:
    arc: dict[str, Any] = {"step": draw(st.sampled_from(NAMES)), "args": {"x": draw(st.booleans())}}
    guard = draw(st.sampled_from(GUARDS))
    return arc | ({"when": guard} if guard else {})


@st.composite
def steps(draw: st.DrawFn, name: str) -> dict[str, Any]:
    step: dict[str, Any] = {"step": name}
    match draw(st.sampled_from(["none", "noop", "python", "python"])):
        case "noop":
            write = {"do": "continue", "set_ctx": {"n": "{{ (ctx.n | default(0)) + 1 }}"}}
            step["tool"] = {"kind": "noop", "spec": {"policy": {"rules": [{"else": {"then": write}}]}}}
        case "python":
            step["tool"] = [{"name": f"t{i}", "kind": "python", "code": "x"} for i in range(draw(st.integers(1, 2)))]
    if draw(st.booleans()):
        step["next"] = {
            "spec": {"mode": draw(st.sampled_from(["exclusive", "inclusive"]))},
            "arcs": draw(st.lists(arcs(), min_size=1, max_size=3)),
        }
    if draw(st.integers(0, 5)) == 0:
        rule = {"when": "{{ args.x }}", "then": {"allow": True}}
        step["spec"] = {"policy": {"admit": {"rules": [rule]}}}
    return step


@st.composite
def playbooks(draw: st.DrawFn) -> str:
    limits = {"executor": {"spec": {"policy": {"limits": {"max_step_runs": 25, "max_task_runs": 30}}}}}
    return json.dumps(limits | {"workflow": [draw(steps(name)) for name in NAMES]})


def act(talk: Conversation, choose: st.DataObject) -> None:
    """One move of a worker: claim, report a task or an end, lose a lease."""
    name = choose.draw(st.sampled_from(sorted(name for name, run in talk.names.items() if run in _open(talk))))
    run = talk.run(name)
    if run.lease_epoch == 0 or choose.draw(st.integers(0, 6)) == 0:
        talk.claim(name)
        return
    following = "t1" if run.position.task == "t0" and len(talk.plan.step(run.step).tasks) > 1 else None
    if following:
        entries = talk.task(name, {"n": 1}, next=following, set_ctx={"n": choose.draw(st.integers(0, 5))})
        report = talk.report_of(name, *entries)
        talk.report(report)
        talk.report(report)
    elif choose.draw(st.booleans()):
        talk.done(name, choose.draw(st.integers()))
    else:
        talk.failed(name)


def _open(talk: Conversation) -> set[str]:
    return set(talk.execution.orders.values())


@pytest.mark.req("EVT-07")
@settings(max_examples=60, deadline=None)
@given(text=playbooks(), choose=st.data())
def test_replay_equals_the_live_state_at_every_prefix(text: str, choose: st.DataObject) -> None:
    talk = Conversation(_yaml(text))
    talk.start()
    for _ in range(60):
        if not _open(talk):
            break
        act(talk, choose)

    live = Execution(execution_id="x1", trace_id="t1")
    for length, event in enumerate(talk.log, 1):
        evolve(live, event)
        assert replayed("x1", "t1", [_stored(one) for one in talk.log[:length]]) == live
    assert live == talk.execution
    _check_log(talk)


def _yaml(text: str) -> str:
    document = json.loads(text)
    return "\n".join(f"{key}: {json.dumps(value)}" for key, value in document.items())


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
        assert _open(talk), "an open execution waits for a worker, and for nothing else here"
