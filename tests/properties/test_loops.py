"""Loops under random workers: whatever they do, the log tells the live state, and what must hold of a loop holds.

Nested levels of any mode and bound, ranges claimed and lost in any order, iterations reported in pieces, twice, late or
never, failures and contradicting writes.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.engine.evolve import evolve, replay
from noetl.engine.execution import Execution
from noetl.engine.loops.levels import level_at
from noetl.engine.loops.state import Range
from noetl.events.envelope import Event, decode_payload, encode_payload
from noetl.events.loops import IterationDone, IterationFailed, IterationStarted, LoopStarted
from tests.engine.looping import BROKE, LoopTalk


@st.composite
def levels(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    parallel = draw(st.booleans())
    spec: dict[str, Any] = {"mode": "parallel" if parallel else "sequential"}
    policy: dict[str, Any] = {"exec": draw(st.sampled_from(["local", "distributed"]))}
    if parallel:
        spec["max_in_flight"] = draw(st.integers(1, 4))
        policy["ordering"] = draw(st.sampled_from(["index", "shuffle"]))
        if draw(st.booleans()):
            policy["ctx_writes"] = "last"
        if depth == 0 and draw(st.integers(0, 3)) == 0:
            policy["partitioning"] = {"key": "{{ iter.v0 % 2 }}"}
        if depth == 0 and draw(st.integers(0, 3)) == 0:
            policy["backpressure"] = {"max_queue": draw(st.integers(1, 3))}
    if draw(st.booleans()):
        policy["reducers"] = {"total": "sum"}
    if draw(st.integers(0, 4)) == 0:
        spec["complete_when"] = "{{ iter.done >= 2 }}"
    if "partitioning" not in policy and draw(st.integers(0, 4)) == 0:
        spec["extend"] = True
    level = {"iterator": f"v{depth}", "spec": spec | ({"policy": policy} if policy else {})}
    if depth:
        level["in"] = draw(st.lists(st.integers(0, 3), max_size=3))
        level["loop"] = draw(levels(depth - 1))
    else:
        level["in"] = draw(st.lists(st.integers(0, 3), max_size=9))
    return level


@st.composite
def playbooks(draw: st.DrawFn) -> str:
    step = {
        "step": "start",
        "loop": draw(levels(draw(st.integers(0, 2)))),
        "tool": [{"name": "work", "kind": "python", "code": "x"}, {"name": "more", "kind": "python", "code": "x"}],
        "spec": {"policy": {"failure": {"mode": draw(st.sampled_from(["fail_fast", "best_effort"]))}}},
    }
    return f"workflow: {json.dumps([step])}"


def act(talk: LoopTalk, choose: st.DataObject) -> None:
    """One move of somebody: claim, lose a lease, report a piece of an iteration, report it again."""
    span: Range = choose.draw(st.sampled_from(talk.ranges()))
    if span.lease_epoch == 0 or choose.draw(st.integers(0, 9)) == 0:
        talk.take(span, worker_id=choose.draw(st.sampled_from(["w1", "w2"])))
        return
    ended = talk.loop().frames[span.path].ended
    index = choose.draw(st.sampled_from([index for index in span if not ended[index]]))
    writes = choose.draw(st.sampled_from([{}, {}, {"k": index}, {"total": index}, {f"own{index}": 1, "total": 1}]))
    error = BROKE if choose.draw(st.integers(0, 7)) == 0 else None
    first = talk.work(span, index, index, next="more", set_ctx=writes)
    pieces: list[list[Any]] = [
        [talk.begin(span, index)],
        first,
        [*talk.work(span, index, index, visit=2), _end(talk, span, index, error, choose)],
    ]
    entries = [entry for piece in pieces[: choose.draw(st.integers(1, 3))] for entry in piece]
    talk.say(span, *entries)
    if choose.draw(st.booleans()) and talk.status == "running":
        talk.say(span, *entries)


def _end(talk: LoopTalk, span: Range, index: int, error: Any, choose: st.DataObject) -> Any:
    end = talk.end(span, index, [*span.path, index], error=error)
    frame = talk.loop().frames[span.path]
    extends = level_at(talk.plan.step("start"), span.path).extend and frame.total < 12
    if isinstance(end, IterationDone) and extends and choose.draw(st.booleans()):
        return msgspec.structs.replace(end, extend=[1, 2])
    return end


def play(text: str, choose: st.DataObject) -> LoopTalk:
    talk = LoopTalk(text)
    talk.start()
    for _ in range(150):
        if not talk.ranges():
            break
        act(talk, choose)
        _check_slots(talk)
    return talk


def _check_slots(talk: LoopTalk) -> None:
    """The open ranges of a level never have more slots than it may have in flight (LOOP-05, reliability.md §3.5)."""
    for frame in talk.loop().frames.values() if talk.ranges() else ():
        if not frame.nested:
            slots = sum(span.slots for span in talk.ranges() if span.path == frame.path)
            assert slots == frame.open_slots <= frame.opened.in_flight
        assert frame.done + frame.failed == sum(frame.ended)


@pytest.mark.req("EVT-07", "SRV-12")
@settings(max_examples=60, deadline=None)
@given(text=playbooks(), choose=st.data())
def test_the_log_of_a_loop_gives_its_state_at_every_position(text: str, choose: st.DataObject) -> None:
    talk = play(text, choose)

    live = Execution(execution_id="x1", trace_id="t1")
    for length, event in enumerate(talk.log, 1):
        evolve(live, event)
        if length % 5 == 0 or length == len(talk.log):
            assert replay("x1", "t1", [_stored(one) for one in talk.log[:length]]) == live
    assert live == talk.execution


def _stored(event: Event) -> Event:
    payload = decode_payload(event.event_type, encode_payload(event.payload))
    return msgspec.structs.replace(event, payload=payload)


@pytest.mark.req("LOOP-05", "LOOP-09", "LOOP-13", "EVT-06")
@settings(max_examples=120, deadline=None)
@given(text=playbooks(), choose=st.data())
def test_loop_invariants_hold(text: str, choose: st.DataObject) -> None:
    talk = play(text, choose)

    assert [event.seq for event in talk.log] == list(range(1, len(talk.log) + 1))
    assert len({event.event_id for event in talk.log}) == len(talk.log)
    ends = [event.payload.path for event in talk.log if isinstance(event.payload, IterationDone | IterationFailed)]
    assert len(set(ends)) == len(ends), "an iteration ends once"
    _check_bounds(talk)
    if talk.status == "running":
        assert talk.ranges(), "an open loop waits for a worker, and for nothing else here"
        return
    boundaries = [name for name in talk.types() if name in ("loop.done", "step.failed")]
    assert len(boundaries) == 1
    if boundaries == ["loop.done"]:
        _check_end(talk)


def _check_bounds(talk: LoopTalk) -> None:
    """Never more outer iterations begun and not ended than their level allows (LOOP-05). Within a range it is the
    worker that keeps to its slots, and this test's workers do not."""
    levels: dict[Any, LoopStarted] = {}
    begun: dict[Any, int] = {}
    for event in talk.log:
        payload = event.payload
        match payload:
            case LoopStarted():
                levels[payload.path] = payload
            case IterationStarted():
                around = payload.path[:-1]
                begun[around] = begun.get(around, 0) + 1
                assert not levels[around].nested or begun[around] <= levels[around].in_flight
            case IterationDone() | IterationFailed():
                begun[payload.path[:-1]] -= 1


def _check_end(talk: LoopTalk) -> None:
    if "loop.cut" in talk.types():
        return  # what had not ended then has no result
    [done] = talk.payloads("loop.done")
    ended = {
        event.payload.path: event.payload
        for event in talk.log
        if isinstance(event.payload, IterationDone | IterationFailed)
    }
    depth = max((len(path) for path in ended), default=1)
    leaves = {path: end for path, end in ended.items() if len(path) == depth or isinstance(end, IterationFailed)}
    failed = [path for path, end in leaves.items() if isinstance(end, IterationFailed)]
    results = [None if path in failed else list(path) for path in sorted(leaves)]
    if all(len(path) == depth for path in leaves) and depth == len(_levels(talk)):
        assert (done.total, done.failed, done.results) == (len(leaves), len(failed), results)
        assert done.paths is None or done.paths == [list(path) for path in sorted(leaves)]


def _levels(talk: LoopTalk) -> list[Any]:
    from noetl.engine.loops.levels import levels_of

    return list(levels_of(talk.plan.step("start")))
