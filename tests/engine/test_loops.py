"""Loops as the engine decides them: ranges, leases, reports, failures, what is written (LOOP, SCOPE-05)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noetl.engine.loops.next_action import shuffled
from noetl.events.loops import IterationDone, IterationFailed, IterationStarted
from noetl.events.orders import ReportResult
from noetl.events.outcomes import Error
from noetl.events.steps import StepFailed
from tests.engine.looping import BROKE, LoopTalk
from tests.narrowing import payload


def talk_about(
    items: Any, *, spec: dict[str, Any] | None = None, best_effort: bool = False, inner: dict[str, Any] | None = None
) -> LoopTalk:
    step: dict[str, Any] = {
        "step": "start",
        "loop": {"in": items, "iterator": "x", "spec": spec or {}, **({"loop": inner} if inner else {})},
        "tool": [{"name": "work", "kind": "python", "code": "x"}, {"name": "more", "kind": "python", "code": "x"}],
        "spec": {"policy": {"failure": {"mode": "best_effort" if best_effort else "fail_fast"}}},
        "next": {"arcs": [{"step": "end"}]},
    }
    talk = LoopTalk(f"workflow: {json.dumps([step, {'step': 'end'}])}")
    talk.start()
    return talk


PARALLEL = {"mode": "parallel"}


@pytest.mark.req("LOOP-05", "LOOP-11")
@pytest.mark.parametrize(
    ("total", "spec", "ranges"),
    [
        (5, {}, [(0, 4, 1)]),
        (4, {"policy": {"exec": "distributed"}}, [(0, 0, 1)]),
        (5, PARALLEL, [(index, index, 1) for index in range(5)]),
        (1000, PARALLEL, [(first, first + 31, 2) for first in range(0, 160, 32)]),
        (1000, {**PARALLEL, "max_in_flight": 3}, [(first, first + 83, 1) for first in range(0, 252, 84)]),
        (1000, {**PARALLEL, "policy": {"exec": "local"}}, [(0, 999, 10)]),
        (100_000, {**PARALLEL, "max_in_flight": 100}, [(n * 500, n * 500 + 499, 13 if n < 7 else 9) for n in range(8)]),
    ],
)
def test_iterations_are_issued_in_ranges(total: int, spec: dict[str, Any], ranges: list[Any]) -> None:
    kept: dict[str, Any] = {}
    step = {"step": "start", "loop": {"in": "{{ workload.n }}", "iterator": "x", "spec": spec}}
    talk = LoopTalk(f"workflow: {json.dumps([step])}")
    talk.plan.keep = lambda value: kept.setdefault("ref", _reference(value))
    talk.start(n=list(range(total)))

    assert [(span.first, span.last, span.slots) for span in talk.ranges()] == ranges
    assert sum(span.slots for span in talk.ranges()) <= spec.get("max_in_flight", 10)


@pytest.mark.req("LOOP-04", "LOOP-11", "SCOPE-06")
def test_a_distributed_sequential_loop_issues_one_iteration_at_a_time() -> None:
    talk = talk_about([1, 2], spec={"policy": {"exec": "distributed"}})
    first = list(talk.ranges())
    talk.take(first[0], worker_id="w1")

    talk.iterate(0, set_ctx={"n": 1})
    second = list(talk.ranges())
    talk.take(second[0], worker_id="w2")
    talk.iterate(1, set_ctx={"n": 2})

    assert [(span.first, span.last) for span in [*first, *second]] == [(0, 0), (1, 1)]
    assert [started.worker_id for started in talk.payloads("loop.iteration.started")] == ["w1", "w2"]
    assert [patched.patch for patched in talk.payloads("ctx.patched")] == [{"n": 1}, {"n": 2}]
    assert talk.payloads("loop.done")[0].done == 2


def _reference(value: Any) -> Any:
    from noetl.events.outcomes import Reference

    return Reference(store="test", key="k", checksum="c", size=len(value))


@pytest.mark.req("LOOP-09")
def test_the_loop_is_done_once_after_the_last_iteration() -> None:
    talk = talk_about([1, 2], spec=PARALLEL)
    talk.take_all()

    talk.iterate(1, "b")
    assert "loop.done" not in talk.types()
    talk.iterate(0, "a")

    [done] = talk.payloads("loop.done")
    assert (done.total, done.done, done.failed, done.results) == (2, 2, 0, ["a", "b"])
    assert talk.types().count("next.selected") == 2
    assert talk.status == "completed"


@pytest.mark.req("EVT-06")
def test_a_repeated_report_of_iterations_adds_nothing() -> None:
    talk = talk_about([1, 2])
    talk.take_all()
    [span] = talk.ranges()
    entries = [talk.begin(span, 0), *talk.work(span, 0, 1), talk.end(span, 0, 1), talk.begin(span, 1)]

    first, second = talk.say(span, *entries), talk.say(span, *entries)

    assert first[0] is ReportResult.ACCEPTED
    assert (second[0], second[1]) == (ReportResult.DUPLICATE, [])


@pytest.mark.req("EVT-06")
def test_the_start_of_an_iteration_task_is_recorded_once() -> None:
    talk = talk_about([1, 2])
    talk.take_all()
    [span] = talk.ranges()
    entries = [talk.begin(span, 0), talk.work(span, 0, 1)[0]]

    first, second = talk.say(span, *entries), talk.say(span, *entries)

    assert first[0] is ReportResult.ACCEPTED
    assert (second[0], second[1]) == (ReportResult.DUPLICATE, [])


@pytest.mark.req("WRK-03")
def test_a_late_report_on_a_range_of_another_worker_is_refused() -> None:
    talk = talk_about([1, 2])
    talk.take_all()
    [span] = talk.ranges()
    talk.take(span, worker_id="w2")

    verdict, events = talk.say(span, talk.begin(span, 0), epoch=1)

    assert verdict is ReportResult.FENCED
    assert [event.event_type for event in events] == ["report.refused"]


@pytest.mark.req("WRK-04", "SRV-12")
def test_a_range_claimed_again_skips_done_iterations_and_resumes_started_ones() -> None:
    from noetl.control.claiming.orders import order_for

    talk = talk_about([1, 2, 3], spec={**PARALLEL, "policy": {"exec": "local"}})
    talk.take_all()
    [span] = talk.ranges()
    talk.iterate(1, "b")
    entries = talk.work(span, 2, 7, next="more", set_iter={"k": 5}, set_ctx={"w": 9})
    started, _ = talk.work(span, 2, visit=2)
    talk.say(span, talk.begin(span, 2), *entries, started)

    talk.take(span, worker_id="w2")
    order = order_for(talk.plan, talk.execution, span.order_id)

    assert order.iterations is not None
    assert (order.lease_epoch, order.iterations.indices, order.iterations.items) == (2, (0, 2), [1, 3])
    [(index, resumed)] = order.iterations.begun.items()
    assert (index, resumed.interrupted, resumed.writes) == (2, True, {"w": 9})
    position = resumed.position
    assert (position.task, position.visit, position.iter) == ("more", 2, {"k": 5})
    assert position.prev is not None
    assert position.prev.result == 7


@pytest.mark.req("LOOP-10", "EVT-04")
def test_a_failed_iteration_cancels_the_other_ranges() -> None:
    talk = talk_about([1, 2, 3], spec=PARALLEL)
    talk.take_all()
    running = talk.ranges()[2]

    talk.iterate(0, error=BROKE)
    verdict, events = talk.say(running, talk.begin(running, 2))

    [failed] = [event for event in talk.log if event.event_type == "step.failed"]
    assert (failed.on_behalf, payload(failed, StepFailed).error) == (True, BROKE)
    assert (talk.status, verdict, events) == ("failed", ReportResult.TERMINAL, [])


@pytest.mark.req("LOOP-10")
def test_a_report_on_a_cancelled_range_stops_the_worker() -> None:
    step = {"step": "start", "next": {"spec": {"mode": "inclusive"}, "arcs": [{"step": "each"}, {"step": "other"}]}}
    each = {
        "step": "each",
        "loop": {"in": [1, 2], "iterator": "x", "spec": PARALLEL},
        "tool": {"name": "work", "kind": "python", "code": "x"},
    }
    other = {"step": "other", "tool": {"kind": "python", "code": "x"}}
    talk = LoopTalk(f"workflow: {json.dumps([step, each, other])}")
    talk.start()
    first, second = talk.ranges("each")
    talk.take(first)
    talk.take(second)
    talk.say(first, talk.begin(first, 0), talk.end(first, 0, error=BROKE))

    verdict, events = talk.say(second, talk.begin(second, 1))

    assert (verdict, events) == (ReportResult.CANCELLED, [])


@pytest.mark.req("WRK-07")
def test_a_range_that_times_out_fails_the_whole_step_run() -> None:
    talk = talk_about([1, 2], spec=PARALLEL, best_effort=True)
    talk.take_all()
    span = talk.ranges()[0]

    talk.say(span, talk.begin(span, 0), StepFailed(error=Error(kind="timeout", message="over")))

    assert talk.payloads("step.failed")[0].error.kind == "timeout"
    assert "loop.done" not in talk.types()


@pytest.mark.req("SCOPE-05", "O-15")
def test_the_second_writer_of_a_key_in_one_report_fails_with_all_its_writes() -> None:
    talk = talk_about([1, 2], spec={**PARALLEL, "policy": {"exec": "local"}}, best_effort=True)
    talk.take_all()
    [span] = talk.ranges()
    entries: list[Any] = []
    for index in (0, 1):
        entries += [talk.begin(span, index)]
        entries += talk.work(span, index, next="more", set_ctx={f"own{index}": True})
        entries += talk.work(span, index, visit=2, set_ctx={"k": index})
        entries += [talk.end(span, index)]

    talk.say(span, *entries)

    [refused] = talk.payloads("loop.iteration.failed")
    assert (refused.index, refused.error.kind) == (1, "ctx.conflict")
    assert talk.execution.variables.ctx == {"own0": True, "k": 0}
    assert talk.payloads("loop.done")[0].results == [None, None]


@pytest.mark.req("SCOPE-03", "SCOPE-05")
def test_ctx_written_by_parallel_iterations_is_patched_at_the_end_of_the_loop() -> None:
    talk = talk_about([1, 2], spec=PARALLEL)
    talk.take_all()

    talk.iterate(1, set_ctx={"b": 2})
    assert (talk.execution.variables.ctx, talk.types().count("ctx.patched")) == ({}, 0)
    talk.iterate(0, set_ctx={"a": 1})

    assert [patched.patch for patched in talk.payloads("ctx.patched")] == [{"a": 1, "b": 2}]
    assert talk.types().index("ctx.patched") < talk.types().index("loop.done")


@pytest.mark.req("SCOPE-04", "SCOPE-06")
@pytest.mark.parametrize(
    ("writes", "ctx"),
    [
        ([{"k.a": 1}, {"k": {"b": 1}}, {"k.a": 2}], {"k": {"b": 1, "a": 2}}),
        ([{"k": {"b": 1}}, {"k.a": 1}, {"k": {"b": 1}}], {"k": {"b": 1}}),
    ],
)
def test_rewriting_a_key_moves_it_after_the_writes_before_it(writes: list[dict[str, Any]], ctx: dict[str, Any]) -> None:
    talk = talk_about([1], spec=PARALLEL)
    talk.take_all()
    (span,) = talk.ranges()

    talk.say(span, talk.begin(span, 0))
    for visit, patch in enumerate(writes, start=1):
        talk.say(span, *talk.work(span, 0, visit=visit, do="jump", next="work", set_ctx=patch))
    talk.say(span, talk.end(span, 0))

    assert talk.execution.variables.ctx == ctx


def test_ctx_written_by_iterations_survives_the_failure_of_the_loop() -> None:
    talk = talk_about([1, 2], spec=PARALLEL)
    talk.take_all()

    talk.iterate(1, set_ctx={"b": 2})
    talk.iterate(0, error=BROKE, set_ctx={"a": 1})

    assert talk.execution.variables.ctx == {"a": 1, "b": 2}


@pytest.mark.req("LOOP-07", "EVT-04")
def test_the_server_starts_and_ends_outer_iterations() -> None:
    talk = talk_about([[1], [2]], inner={"in": "{{ iter.x }}", "iterator": "y"})

    assert [span.path for span in talk.ranges()] == [(0,)]
    talk.take_all()
    talk.iterate(0, "a")
    assert [span.path for span in talk.ranges()] == [(1,)]
    talk.take_all()
    talk.iterate(0, "b")

    told = [
        (event.event_type.rpartition(".")[2], event.payload.path, event.on_behalf)
        for event in talk.log
        if isinstance(event.payload, IterationStarted | IterationDone | IterationFailed)
    ]
    assert told == [
        ("started", (0,), True),
        ("started", (0, 0), False),
        ("done", (0, 0), False),
        ("done", (0,), True),
        ("started", (1,), True),
        ("started", (1, 0), False),
        ("done", (1, 0), False),
        ("done", (1,), True),
    ]
    assert talk.payloads("loop.done")[0].paths == [[0, 0], [1, 0]]
    assert [opened.path for opened in talk.payloads("loop.started")] == [(), (0,), (1,)]


def test_event_ids_are_unique() -> None:
    talk = talk_about([[1, 2], [3]], spec=PARALLEL, inner={"in": "{{ iter.x }}", "iterator": "y", "spec": PARALLEL})
    talk.take_all()
    for span in talk.ranges():
        talk.say(span, talk.begin(span, span.first), *talk.work(span, span.first), talk.end(span, span.first))

    ids = [event.event_id for event in talk.log]
    assert len(set(ids)) == len(ids)
    assert talk.status == "completed"


@pytest.mark.req("LOOP-12")
@pytest.mark.parametrize("in_flight", ["{{ workload.nope }}", "{{ 'many' }}", "{{ 0 }}"])
def test_an_invalid_bound_fails_the_step(in_flight: str) -> None:
    talk = talk_about([1], spec={**PARALLEL, "max_in_flight": in_flight})

    assert talk.payloads("step.failed")[0].error.kind == "template.error"
    assert "max_in_flight must be a whole number from 1" in talk.payloads("step.failed")[0].error.message


@pytest.mark.req("LOOP-15")
@pytest.mark.parametrize("total", [1, 2, 3, 4, 5, 30, 97, 1000])
def test_shuffling_is_a_permutation_and_deterministic_per_run(total: int) -> None:
    whole = shuffled(range(total), total, "run")

    assert sorted(whole) == list(range(total))
    assert whole == tuple(index for first in range(total) for index in shuffled(range(first, first + 1), total, "run"))
    assert total < 5 or list(whole) != list(range(total))
