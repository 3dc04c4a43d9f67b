"""The projection of a log: the same in one piece, in pieces, and from the events that its readers ask for.

That it agrees with the state of the engine is compared after every command of every `Conversation` of the suite.
"""

from __future__ import annotations

import copy
from fnmatch import fnmatch

from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.events.envelope import Event
from noetl.events.events import Payload
from noetl.events.payloads import EventSource
from noetl.events.projection.projection import SIDE_RUN_EVENTS, STEP_EVENTS, TASK_EVENTS, Projection
from noetl.events.projection.views import LostStart, StepRunView
from noetl.events.side_runs import StepInterrupted
from noetl.events.steps import StepScheduled
from noetl.events.tasks import TaskStarted
from tests.properties.random_playbooks import playbooks, random_log
from tests.side_runs.sagas import undoing


def folded(events: list[Event]) -> Projection:
    projection = Projection([])
    projection.take_all(events)
    return projection


@settings(max_examples=30, deadline=None)
@given(text=playbooks(), choose=st.data())
def test_folding_a_log_in_parts_equals_folding_it_at_once(text: str, choose: st.DataObject) -> None:
    log = random_log(text, choose)
    cut = choose.draw(st.integers(0, len(log)))

    before = folded(log[:cut])
    after = copy.deepcopy(before)
    after.take_all(log[cut:])

    assert vars(after) == vars(folded(log))
    assert vars(before) == vars(folded(log[:cut])), "going on from a copy leaves the copied one as it was"


@settings(max_examples=30, deadline=None)
@given(text=playbooks(), choose=st.data())
def test_the_timeline_events_alone_give_the_same_timeline_as_all_events(text: str, choose: st.DataObject) -> None:
    log = random_log(text, choose)
    read = (*STEP_EVENTS, *TASK_EVENTS, *SIDE_RUN_EVENTS)

    some = folded([event for event in log if any(fnmatch(event.event_type, name) for name in read)])

    assert some.history == folded(log).history


def test_compensations_are_listed_from_their_request_on() -> None:
    projection = folded(undoing().log)

    beside = [view for view in projection.history or () if view.origin is not None]
    assert [(view.step, view.status) for view in beside] == [("charge", "scheduled"), ("start", "pending")]
    assert list(projection.side_runs.values()) == beside[:1]
    assert list(projection.pending.values()) == beside[1:]


def event(payload: Payload, seq: int) -> Event:
    return Event(
        execution_id="x1",
        seq=seq,
        event_id=f"e{seq}",
        ts=float(seq),
        source=EventSource.SERVER,
        payload=payload,
        trace_id="t",
        step="a",
        step_run_id="r1",
    )


def test_an_interrupted_step_run_has_ended() -> None:
    history: list[StepRunView] = []
    projection = Projection(history)

    projection.take_all([event(StepScheduled(token_id="k"), 1), event(StepInterrupted(event="stop.it"), 2)])

    [view] = history
    assert (view.status, view.finished_at, projection.steps, projection.done) == ("done", 2.0, {}, 1)


def start(worker_id: str) -> TaskStarted:
    return TaskStarted(task="copy", kind="python", visit=1, attempt=1, task_run_id="r1/copy", worker_id=worker_id)


def test_a_lost_start_is_listed_next_to_the_one_that_followed() -> None:
    history: list[StepRunView] = []
    payloads: tuple[Payload, ...] = (StepScheduled(token_id="k"), start("w1"), start("w2"), start("w3"))

    Projection(history).take_all(event(payload, seq) for seq, payload in enumerate(payloads, 1))

    [task] = history[0].pipeline.listed
    assert task.lost == (LostStart(2.0, 3.0, "w1"), LostStart(3.0, 4.0, "w2"))
    assert (task.started_at, task.last_started_at, task.worker_id) == (2.0, 4.0, "w3")


def test_a_limited_number_of_lost_starts_is_listed() -> None:
    history: list[StepRunView] = []
    payloads: tuple[Payload, ...] = (StepScheduled(token_id="k"), *(start(f"w{number}") for number in range(1_000)))

    Projection(history).take_all(event(payload, seq) for seq, payload in enumerate(payloads, 1))

    [task] = history[0].pipeline.listed
    assert len(task.lost) == 20
    assert (task.lost[-1].worker_id, task.worker_id, task.last_started_at) == ("w998", "w999", 1_001.0)
