"""Spans as they are told from a log: when each ends, and how many there are at most."""

from __future__ import annotations

from noetl.events.envelope import Event
from noetl.events.events import Payload
from noetl.events.executions import Final, PlaybookProcessed
from noetl.events.loops import IterationDone, LoopDone, LoopStarted
from noetl.events.payloads import EventSource
from noetl.events.steps import StepDone, StepScheduled
from noetl.events.tasks import TaskStarted
from noetl.events.tokens import NextSelected
from noetl.events.waits import SignalAwaited
from noetl.server.tracing import MOST, Trace, TraceSpan

END = PlaybookProcessed(status=Final.COMPLETED)


def spans_of(*payloads: Payload) -> list[TraceSpan]:
    """Of one step run that these are told of, one each second."""
    trace = Trace("x1")
    for second, payload in enumerate(payloads, 1):
        event = Event(
            execution_id="x1",
            seq=second,
            event_id=f"e{second}",
            ts=float(second),
            source=EventSource.SERVER,
            payload=payload,
            trace_id="t",
            step="a",
            step_run_id="r1",
        )
        trace.add([event])
    return trace.spans()


def test_the_span_of_a_looped_step_ends_with_its_loop() -> None:
    loop = (LoopStarted(total=1), IterationDone(index=0, path=(0,)), LoopDone(total=1, done=1, failed=0))

    [root, step] = spans_of(StepScheduled(token_id="k"), *loop, END)

    assert (step.begun, step.ended, root.ended) == (1.0, 4.0, 5.0)


def test_the_span_of_a_waiting_step_ends_with_its_wait() -> None:
    waits = (StepDone(), SignalAwaited(wait_id="w", name="go"), NextSelected(event="signal.received", mode="exclusive"))

    [_, step] = spans_of(StepScheduled(token_id="k"), *waits, END)

    assert (step.begun, step.ended) == (1.0, 4.0)


def test_excess_spans_are_counted_and_a_restarted_task_is_one_span() -> None:
    started = [
        TaskStarted(task="t", kind="noop", visit=1, attempt=1, task_run_id=f"t{n}", path=(n,)) for n in range(MOST + 2)
    ]

    [root, step, *tasks] = spans_of(StepScheduled(token_id="k"), started[0], *started, END)

    assert len(tasks) == MOST - 1
    assert root.attributes["noetl.spans_left_out"] == 3
    assert {task.parent_id for task in tasks} == {step.span_id}
    assert {task.ended for task in tasks} == {root.ended}, "nobody reported them"
