"""The state after any event: the same as that of a log which ends there, and the changes lead from one to the next.

That its counts agree with the state of the engine is compared after every command of every `Conversation` of the suite.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.events.envelope import Event
from noetl.events.events import Payload
from noetl.events.loops import IterationDone, IterationFailed, IterationStarted, LoopKept, LoopStarted
from noetl.events.outcomes import Error
from noetl.events.payloads import EventSource
from noetl.events.projection.loop_cells import BLOCK, MOST_FAILURES, LoopCells, LoopCounts, NumberHistory
from noetl.events.projection.state_history import StateHistory
from noetl.events.steps import StepDone, StepFailed, StepScheduled, StepStarted
from noetl.events.tokens import TokenConsumed, TokenCreated, TokenDropped
from noetl.events.waits import TimerScheduled
from noetl.server.views.projection import loops_view, projection_view
from tests.properties.random_playbooks import playbooks, random_log
from tests.side_runs.sagas import undoing


def folded(events: list[Event]) -> StateHistory:
    history = StateHistory()
    history.take_all(events)
    return history


def shown(history: StateHistory, at: int, since: int = 0) -> tuple[Any, Any]:
    """All that a screen reads of a moment."""
    return (
        msgspec.to_builtins(projection_view("x1", history, at, since)),
        msgspec.to_builtins(loops_view("x1", history, at, since)),
    )


def logged(*payloads: tuple[Payload, str | None]) -> list[Event]:
    """Events of the step `a`; each with the step run it is about."""
    return [
        Event(
            execution_id="x1",
            seq=seq,
            event_id=f"e{seq}",
            ts=float(seq),
            source=EventSource.SERVER,
            trace_id="t1",
            step="a",
            step_run_id=run,
            payload=payload,
        )
        for seq, (payload, run) in enumerate(payloads, 1)
    ]


def created(token_id: str) -> TokenCreated:
    return TokenCreated(token_id=token_id, step="a", path="a", args={})


@settings(max_examples=25, deadline=None)
@given(text=playbooks(), choose=st.data())
def test_the_state_at_a_position_equals_the_fold_up_to_it(text: str, choose: st.DataObject) -> None:
    log = random_log(text, choose)
    whole = folded(log)
    at = choose.draw(st.integers(1, len(log)))

    assert shown(whole, at) == shown(folded(log[:at]), at)


@settings(max_examples=25, deadline=None)
@given(text=playbooks(), choose=st.data())
def test_the_changes_since_a_position_lead_to_the_next_state(text: str, choose: st.DataObject) -> None:
    log = random_log(text, choose)
    history = folded(log)
    before = choose.draw(st.integers(1, len(log)))
    at = choose.draw(st.integers(before, len(log)))

    (first, _), (changes, _), (whole, _) = shown(history, before), shown(history, at, before), shown(history, at)

    for name, key in (("steps", "step"), ("side_runs", "number")):
        merged = {one[key]: one for one in (*first[name], *changes[name])}
        assert merged == {one[key]: one for one in whole[name]}


def test_every_state_during_compensation_equals_the_fold_up_to_it() -> None:
    log = undoing().log
    whole = folded(log)

    for at in range(1, len(log) + 1):
        assert shown(whole, at) == shown(folded(log[:at]), at)
    listed = whole.side_runs.latest(len(log), most=10)
    assert [(one.step, one.status) for one in listed] == [("charge", "scheduled"), ("start", "pending")]
    assert whole.side_runs.counts(len(log))[0] == {
        "charge": {"compensation": {"scheduled": 1}},
        "start": {"compensation": {"pending": 1}},
    }


def test_a_token_is_tracked_into_and_out_of_its_step() -> None:
    history = folded(
        logged(
            (created("t1"), None),
            (StepScheduled(token_id="t1"), "r1"),
            (StepStarted(worker_id="w"), "r1"),
            (StepDone(), "r1"),
            (TimerScheduled(wait_id="w1", timer_id="w1", due_at=9.0), "r1"),
            (TokenConsumed(token_id="t1"), "r1"),
        )
    )

    told = [history.steps(at)[0] for at in range(1, 7)]
    assert [(one.tokens, one.running, one.done) for one in told] == [
        (1, 0, 0),
        (0, 1, 0),
        (0, 1, 0),
        (0, 1, 0),
        (0, 1, 0),
        (0, 0, 1),
    ]
    assert [one.status for one in told] == [None, "queued", "running", "running", "waiting", "done"]


def test_a_failure_is_counted_once_and_not_as_completed() -> None:
    history = folded(
        logged(
            (created("t1"), None),
            (StepScheduled(token_id="t1"), "r1"),
            (StepFailed(error=Error(kind="tool", message="no")), "r1"),
            (TokenConsumed(token_id="t1"), "r1"),
        )
    )

    [step] = history.steps(4)
    assert (step.status, step.running, step.done, step.failed) == ("failed", 0, 0, 1)


def test_a_cancelled_run_is_counted_as_neither_done_nor_new() -> None:
    history = folded(
        logged(
            (created("k1"), None),
            (StepScheduled(token_id="k1"), "r1"),
            (StepStarted(worker_id="w"), "r1"),
            (TokenDropped(token_id="k1", reason="cancelled"), "r1"),
        )
    )

    assert [history.steps(at)[0].status for at in (3, 4)] == ["running", "cancelled"]


def test_tokens_consumed_by_a_join_leave_without_a_step_run() -> None:
    history = folded(
        logged(
            (created("t1"), None),
            (created("t2"), None),
            (TokenConsumed(token_id="t1"), None),
        )
    )

    assert [history.steps(at)[0].tokens for at in (1, 2, 3)] == [1, 2, 1]


def test_iterations_of_nested_loops_are_cells_of_their_own_loop() -> None:
    error = Error(kind="tool", message="no luck")
    history = folded(
        logged(
            (LoopStarted(total=2, nested=True), "r"),
            (IterationStarted(index=1, path=(1,)), "r"),
            (LoopStarted(total=3, path=(1,)), "r"),
            (IterationFailed(index=0, path=(1, 0), error=error), "r"),
            (IterationDone(index=2, path=(1, 2)), "r"),
            (IterationDone(index=1, path=(1,)), "r"),
        )
    )
    around, inside = history.loops["r", ()], history.loops["r", (1,)]

    assert [around.blocks(at) for at in (1, 2, 6)] == [{0: "00"}, {0: "01"}, {0: "02"}]
    assert [inside.blocks(at) for at in (3, 4, 5)] == [{0: "000"}, {0: "300"}, {0: "302"}]
    assert [(one.index, one.kind, one.message) for one in inside.failures] == [(0, "tool", "no luck")]
    assert history.steps(6)[0].loop == LoopCounts(3, 1, 1), "the innermost iterations do the work"
    inner = loops_view("x1", history, 6, 0, step_run_id="r", path=(1, 2)).loops
    assert [one.path for one in inner] == [[], [1]]
    assert [one.path for one in loops_view("x1", history, 6, 0, step_run_id="r", path=(0,)).loops] == [[]]


def test_a_loop_extended_by_its_iterations_has_the_size_of_the_shown_position() -> None:
    cells = LoopCells("a", "r", 1, LoopStarted(total=1))
    cells.take(IterationStarted(index=0, path=(0,)), 2)
    cells.take(IterationDone(index=0, path=(0,), extend=[1, 2]), 3)
    cells.take(IterationDone(index=4, path=(4,)), 4)

    assert [cells.counts(at) for at in (1, 2, 3, 4)] == [
        LoopCounts(1, 0, 0),
        LoopCounts(1, 0, 0),
        LoopCounts(3, 1, 0),
        LoopCounts(5, 2, 0),
    ]
    assert [cells.blocks(at)[0] for at in (1, 2, 3, 4)] == ["0", "1", "200", "20002"]


def test_iterations_of_an_earlier_run_are_done_and_told_apart() -> None:
    cells = LoopCells("a", "r", 1, LoopStarted(total=4))
    cells.keep(LoopKept(indices=(0, 3), results=[1, 2]), 2)
    cells.take(IterationStarted(index=1, path=(1,)), 3)
    cells.take(IterationDone(index=1, path=(1,)), 4)

    assert [cells.blocks(at)[0] for at in (1, 2, 3, 4)] == ["0000", "4004", "4104", "4204"]
    assert [cells.counts(at).done for at in (1, 2, 3, 4)] == [0, 2, 2, 3]
    assert [cells.kept_count(at) for at in (1, 2, 4)] == [0, 2, 2]
    assert [cells.is_kept(index) for index in range(4)] == [True, False, False, True]


def test_only_changed_blocks_of_a_long_loop_are_sent() -> None:
    cells = LoopCells("a", "r", 1, LoopStarted(total=3 * BLOCK))
    cells.take(IterationStarted(index=BLOCK, path=(BLOCK,)), 2)
    cells.take(IterationDone(index=BLOCK, path=(BLOCK,)), 3)

    assert list(cells.blocks(3)) == [0, 1, 2]
    assert list(cells.blocks(3, since=1)) == [1]
    assert cells.blocks(3, since=3) == {}
    assert list(cells.blocks(2, since=1)) == [0, 1, 2], "a moment of the past is told whole"


def test_every_failure_is_counted_and_the_first_are_listed() -> None:
    total, error = MOST_FAILURES + 5, Error(kind="tool", message="x" * 10_000)
    cells = LoopCells("a", "r", 1, LoopStarted(total=total))
    for index in range(total):
        cells.take(IterationFailed(index=index, path=(index,), error=error), index + 2)

    assert cells.counts(total + 1).failed == total
    assert len(cells.failures) == MOST_FAILURES
    assert len(cells.failures[0].message) < 1_000


def test_a_long_log_uses_a_few_bytes_of_memory_per_event() -> None:
    iterations = 5_000
    history = folded(
        logged(
            (LoopStarted(total=iterations), "r"),
            *(
                (event, "r")
                for index in range(iterations)
                for event in (IterationStarted(index=index, path=(index,)), IterationDone(index=index, path=(index,)))
            ),
        )
    )

    assert history.seq == 2 * iterations + 1
    assert history.size_bytes / history.seq < 100


def test_a_number_history_returns_the_values_at_a_position() -> None:
    history = NumberHistory(2)
    history.put(3, 1, 1)
    history.put(5, 1, 1)
    history.put(7, 2, 0)
    history.put(7, 2, 1)

    assert [history.at(seq) for seq in (2, 3, 6, 7, 99)] == [None, (1, 1), (1, 1), (2, 1), (2, 1)]
    assert [history.is_changed(since, at) for since, at in ((0, 2), (0, 3), (3, 6), (3, 7))] == [
        False,
        True,
        False,
        True,
    ]
