"""Loops as they run: order, isolation, bounds, failures, nesting, results (LOOP-01 to LOOP-15)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from noetl.base.clock import ManualClock
from noetl.control.assembly import assemble
from noetl.control.commit.effects import Listeners
from noetl.events.loops import IterationDone, IterationStarted
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.operations.embedded import run_net
from noetl.store.memory import MemoryStore
from noetl.store.results.files import MemoryResults
from noetl.store.wakeups import MemoryWakeups
from noetl.tools.registry import Registry
from noetl.worker.leases import HeldLeases
from noetl.worker.slots import WorkerHandle
from noetl.worker.worker import Worker
from tests.engine_script import net_of
from tests.narrowing import payloads
from tests.playbook_runs import Ran, Scripted, broken, run_here
from tests.worker.loop_gate import Gate, always, unhurried, x_of

__all__ = ["unhurried"]


def loop(
    items: Any,
    *rules: dict[str, Any],
    spec: dict[str, Any] | None = None,
    inner: dict[str, Any] | None = None,
    step: dict[str, Any] | None = None,
    args: dict[str, Any] | None = None,
    tool: Scripted | None = None,
    payload: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
    more: list[dict[str, Any]] | None = None,
    **answers: Any,
) -> Ran:
    """A looped step `each` with one task `work`, and a step after it that tells what came of it."""
    task = {"name": "work", "kind": "python", "code": "x", "args": args or {"x": "{{ iter.x }}"}}
    if rules:
        task["spec"] = {"policy": {"rules": list(rules)}}
    level = {"in": items, "iterator": "x", **({"spec": spec} if spec else {}), **({"loop": inner} if inner else {})}
    workflow = [
        {
            "step": "start",
            "loop": level,
            "tool": [task, *(more or [])],
            "next": {
                "arcs": [
                    {"step": "told", "when": "{{ event.name == 'loop.done' }}", "args": {"data": "{{ event.data }}"}},
                    {"step": "broke", "when": "{{ event.name == 'step.failed' }}", "args": {"e": "{{ event.error }}"}},
                ]
            },
            **(step or {}),
        },
        {"step": "told", "tool": {"kind": "noop", "args": {"data": "{{ args.data }}", "result": "{{ start.data }}"}}},
        {"step": "broke", "tool": {"kind": "noop", "args": {"error": "{{ args.e }}"}}},
    ]
    executor = f"executor: {json.dumps({'spec': {'policy': {'limits': limits}}})}\n" if limits else ""
    return run_here(f"{executor}workflow: {json.dumps(workflow)}\n", payload, tool=tool, **answers)


PARALLEL = {"mode": "parallel"}
BEST_EFFORT = {"spec": {"policy": {"failure": {"mode": "best_effort"}}}}


@pytest.mark.req("LOOP-01", "LOOP-02", "LOOP-08", "LOOP-09")
@pytest.mark.parametrize("spec", [None, PARALLEL])
def test_each_element_is_one_iteration_with_its_index(spec: dict[str, Any] | None) -> None:
    ran = loop(["a", "b"], spec=spec, args={"x": "{{ iter.x }}", "bare": "{{ x }}", "i": "{{ iter.index }}"})

    seen = sorted((call["args"] for call in ran.tool.inputs_of("work")), key=lambda args: args["i"])
    assert seen == [{"x": "a", "bare": "a", "i": 0}, {"x": "b", "bare": "b", "i": 1}]
    counts = {name: ran.types().count(name) for name in ran.types() if name.startswith("loop.")}
    assert counts.pop("loop.scheduled") in (1, 2)
    assert counts == {"loop.started": 1, "loop.iteration.started": 2, "loop.iteration.done": 2, "loop.done": 1}
    assert "told" in [event.step for event in ran.events]
    assert [event.step for event in ran.events if event.event_type == "step.done"] == ["told"]


@pytest.mark.req("LOOP-01")
def test_the_collection_is_evaluated_once() -> None:
    grow = always(set_ctx={"items": [1, 2, 3, 4, 5]})
    ran = loop("{{ ctx.items | default([1, 2]) }}", grow)

    assert len(ran.tool.calls) == 2


@pytest.mark.req("LOOP-03", "SCOPE-08")
def test_iter_belongs_to_one_iteration() -> None:
    read = {"name": "read", "kind": "python", "code": "x", "args": {"v": "{{ iter.v }}", "x": "{{ iter.x }}"}}
    set_v = always(set_iter={"v": "{{ iter.x * 10 }}"})
    ran = loop([1, 2, 3], set_v, spec=PARALLEL, more=[read], tool=Gate())

    assert {(call["args"]["x"], call["args"]["v"]) for call in ran.tool.inputs_of("read")} == {
        (1, 10),
        (2, 20),
        (3, 30),
    }
    assert ran.result.ctx == {}


@pytest.mark.req("LOOP-04")
def test_a_loop_is_sequential_by_default() -> None:
    ran = loop([1, 2, 3], tool=(gate := Gate()))

    assert gate.most == 1
    about = [one.payload for one in ran.events if isinstance(one.payload, IterationStarted | IterationDone)]
    order = [(one.event_type.rpartition(".")[2], one.index) for one in about]
    assert order == [(what, index) for index in range(3) for what in ("started", "done")]


@pytest.mark.req("LOOP-05")
@pytest.mark.parametrize("spec", [{"max_in_flight": 2}, {"max_in_flight": 2, "policy": {"exec": "local"}}])
def test_a_parallel_loop_never_exceeds_max_in_flight(spec: dict[str, Any]) -> None:
    ran = loop([1, 2, 3, 4, 5, 6], spec={**PARALLEL, **spec}, tool=(gate := Gate()))

    assert gate.most == 2
    still_open = most = 0
    for event in ran.events:
        still_open += {"loop.iteration.started": 1, "loop.iteration.done": -1}.get(event.event_type, 0)
        most = max(most, still_open)
    assert 1 <= most <= 2


@pytest.mark.req("LOOP-05")
def test_without_a_bound_ten_iterations_are_in_flight() -> None:
    loop(list(range(40)), spec=PARALLEL, tool=(gate := Gate()))

    assert gate.most == 10


CITIES = [{"name": "oslo", "hotels": ["h1", "h2"]}, {"name": "rome", "hotels": ["h3", "h4", "h5"]}]
HOTELS = {"in": "{{ iter.x.hotels }}", "iterator": "hotel"}


@pytest.mark.req("LOOP-06", "LOOP-07", "O-04", "O-37")
@pytest.mark.parametrize("outer", ["sequential", "parallel"])
@pytest.mark.parametrize("inner", ["sequential", "parallel"])
def test_nested_loops_run_the_pipeline_once_per_innermost_element(outer: str, inner: str) -> None:
    ran = loop(
        CITIES,
        spec={"mode": outer},
        inner={**HOTELS, "spec": {"mode": inner}},
        args={"x": "{{ iter.parent.x.name }}/{{ iter.hotel }}", "i": "{{ iter.parent.index }}{{ iter.index }}"},
        work=x_of,
    )

    paths = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]]
    assert ran.result.result["result"] == ["oslo/h1", "oslo/h2", "rome/h3", "rome/h4", "rome/h5"]
    assert ran.result.result["data"]["paths"] == paths
    assert sorted(call["args"]["i"] for call in ran.tool.inputs_of("work")) == ["00", "01", "10", "11", "12"]
    assert sorted(list(processed.path) for processed in ran.payloads("task.processed") if processed.path) == paths
    assert (ran.result.result["data"]["total"], ran.types().count("loop.done")) == (5, 1)


def test_an_empty_inner_loop_ends_its_outer_iteration() -> None:
    ran = loop([{"hotels": []}, {"hotels": ["h"]}], inner=HOTELS, args={"x": "{{ iter.hotel }}"}, work=x_of)

    assert ran.result.result["result"] == ["h"]
    assert ran.result.result["data"]["paths"] == [[1, 0]]


def test_an_inner_loop_over_an_invalid_collection_fails_its_outer_iteration() -> None:
    ran = loop(
        [{"hotels": 7}, {"hotels": ["h"]}], inner=HOTELS, args={"x": "{{ iter.hotel }}"}, step=BEST_EFFORT, work=x_of
    )

    assert ran.result.result["result"] == [None, "h"]
    assert ran.result.result["data"]["failed"] == 1
    assert ran.payloads("loop.iteration.failed")[0].error.kind == "loop.collection"


@pytest.mark.req("LOOP-10")
def test_the_first_failed_iteration_fails_the_step_and_the_others_never_start() -> None:
    bad = lambda inputs, context: broken() if inputs["args"]["x"] == "bad" else 1  # noqa: E731
    ran = loop(["ok", "bad", "ok"], work=bad)

    assert len(ran.tool.calls) == 2
    assert ran.result.result["error"]["kind"] == "py.exception"
    assert "loop.done" not in ran.types()
    [failed] = [event for event in ran.events if event.event_type == "step.failed"]
    assert failed.on_behalf


@pytest.mark.req("LOOP-10", "LOOP-13", "ROUTE-09")
@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_best_effort_runs_all_iterations_and_counts_failures(mode: str) -> None:
    bad = lambda inputs, context: broken() if inputs["args"]["x"] == "bad" else 1  # noqa: E731
    ran = loop(["ok", "bad", "ok"], spec={"mode": mode}, step=BEST_EFFORT, work=bad)

    assert ran.result.result["result"] == [1, None, 1]
    assert ran.result.result["data"] == {
        "total": 3,
        "done": 2,
        "failed": 1,
        "results": [1, None, 1],
        "result": [1, None, 1],
    }


@pytest.mark.req("LOOP-10")
def test_a_failure_cancels_running_iterations() -> None:
    class Slow(Scripted):
        stopped = 0

        async def run(self, inputs: Any, context: Any) -> Any:
            if inputs["args"]["x"] == "bad":
                raise broken()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                Slow.stopped += 1
                raise

    ran = loop(["slow", "bad", "slow"], spec={**PARALLEL, "policy": {"exec": "local"}}, tool=Slow())

    assert Slow.stopped == 2
    assert ran.result.result["error"]["kind"] == "py.exception"


@pytest.mark.req("LOOP-12")
@pytest.mark.parametrize(
    ("items", "payload", "seen"),
    [
        ([], {}, []),
        ("{{ workload.m }}", {"m": {"b": 1, "a": 2}}, [{"key": "b", "value": 1}, {"key": "a", "value": 2}]),
        ({"b": 1, "a": 2}, {}, [{"key": "b", "value": 1}, {"key": "a", "value": 2}]),
    ],
)
def test_empty_collections_and_mappings_are_loops_too(items: Any, payload: dict[str, Any], seen: list[Any]) -> None:
    ran = loop(items, payload=payload, work=x_of)

    assert ran.result.result["result"] == seen
    assert ran.result.result["data"]["total"] == len(seen)
    assert ran.types().count("loop.started") == ran.types().count("loop.done") == 1


@pytest.mark.req("LOOP-12")
@pytest.mark.parametrize("value", ["text", 7, None, True])
def test_a_value_that_is_not_a_collection_fails_the_step(value: Any) -> None:
    ran = loop("{{ workload.m }}", payload={"m": value})

    assert ran.result.result["error"]["kind"] == "loop.collection"
    assert ran.tool.calls == []


@pytest.mark.req("LOOP-12")
@pytest.mark.parametrize(("value", "way_out"), [("a,b", ".split(',')"), (3, "range(…)")])
def test_text_that_resembles_a_collection_is_refused_with_a_conversion_hint(value: Any, way_out: str) -> None:
    ran = loop("{{ workload.m }}", payload={"m": value})

    assert way_out in ran.result.result["error"]["message"]


def test_an_undefined_collection_fails_the_step_and_the_run() -> None:
    ran = loop("{{ workload.nope }}", step={"next": {"arcs": [{"step": "told"}]}})

    assert (ran.result.status, ran.result.error.kind if ran.result.error else None) == ("failed", "loop.collection")


@pytest.mark.req("LOOP-13")
def test_results_are_in_index_order_with_any_timing() -> None:
    class Uneven(Scripted):
        async def run(self, inputs: Any, context: Any) -> Any:
            for _ in range(10 * (4 - inputs["args"]["x"])):
                await asyncio.sleep(0)
            return await super().run(inputs, context)

    ran = loop([1, 2, 3], spec=PARALLEL, tool=Uneven(work=lambda inputs, context: inputs["args"]["x"] ** 2))

    assert ran.result.result["result"] == [1, 4, 9]
    assert [done.index for done in ran.payloads("loop.iteration.done")] != [0, 1, 2]


@pytest.mark.req("LOOP-13", "RES-03")
def test_large_collections_and_results_are_passed_by_reference() -> None:
    items = [f"{number:050}" for number in range(40)]
    ran = loop("{{ workload.m }}", payload={"m": items}, spec=PARALLEL, limits={"max_payload_bytes": 1000}, work=x_of)

    [opened], [done] = ran.payloads("loop.started"), ran.payloads("loop.done")
    assert (opened.items, opened.items_ref.size > 1000) == (None, True)
    assert (done.results, done.ref.size > 1000) == (None, True)
    assert ran.result.result["result"] == items


@pytest.mark.req("LOOP-13", "RES-03")
def test_an_iteration_result_by_reference_stays_a_reference_in_the_list() -> None:
    ran = loop([1, 2], limits={"max_payload_bytes": 100}, work=["x" * 200, 2])

    assert ran.payloads("loop.iteration.done")[0].result.ref is not None
    assert ran.result.result["result"] == ["x" * 200, 2]


@pytest.mark.req("LOOP-13", "TPL-07")
@pytest.mark.parametrize("limits", [{}, {"max_payload_bytes": 100}], ids=["inline", "by reference"])
def test_elements_are_read_as_results_in_arcs_variables_and_later_steps(limits: dict[str, Any]) -> None:
    """As `{{ step.data.name }}` reads a single result; the server renders guards and `set_ctx`, a worker the task."""
    names = "{{ loop.results | map(attribute='data.name') | list }}"
    guard = "{{ event.data.results[0].data.name == 'ann' and event.result[1].result.name == 'bob' }}"
    read = {
        "one": "{{ start.results[1].data.name }}",
        "each": "{% for r in start.results %}{{ r.data.name }} {% endfor %}",
        "whole": "{{ start.results[0] }}",
    }
    ran = loop(
        ["ann", "bob"],
        limits=limits,
        step={
            "set_ctx": {"names": names},
            "next": {"arcs": [{"step": "told", "when": guard, "args": {"data": {key: read[key] for key in read}}}]},
        },
        work=lambda inputs, context: {"name": inputs["args"]["x"], "text": "x" * 100},
    )

    assert ran.result.ctx == {"names": ["ann", "bob"]}
    plain = {"name": "ann", "text": "x" * 100}
    assert ran.result.result["data"] == {"one": "bob", "each": "ann bob ", "whole": plain}
    assert ran.result.result["result"][0] == plain


@pytest.mark.req("WRK-02")
def test_every_task_of_an_iteration_names_its_worker_and_run_ids() -> None:
    second = {"name": "second", "kind": "python", "code": "x"}
    ran = loop([1, 2, 3], spec=PARALLEL, more=[second])

    events = [event for event in ran.events if event.event_type.startswith("task.") and event.step == "start"]
    assert len(events) == 12
    begun = [event.payload for event in events if isinstance(event.payload, TaskStarted | TaskProcessed)]
    assert len({one.worker_id for one in begun}) == 1
    assert len({event.task_run_id for event in events}) == 6


@pytest.mark.req("SCOPE-06", "LOOP-04")
def test_sequential_iterations_read_earlier_writes() -> None:
    count = always(set_ctx={"n": "{{ (ctx.n | default(0)) + 1 }}"})
    ran = loop([1, 2, 3], count, args={"n": "{{ ctx.n }}"})

    assert ran.result.ctx == {"n": 3}
    assert [call["args"]["n"] for call in ran.tool.inputs_of("work")] == [None, 1, 2]


@pytest.mark.req("SCOPE-06")
def test_parallel_iterations_read_their_own_writes_only() -> None:
    write = {"name": "write", "kind": "python", "code": "x", "args": {"mine": "{{ ctx.r }}", "x": "{{ iter.x }}"}}
    first = always(set_ctx={"r.{{ iter.index }}": "{{ iter.x }}"})
    ran = loop([7, 8], first, spec={**PARALLEL, "max_in_flight": 1}, more=[write])

    assert [call["args"]["mine"] for call in ran.tool.inputs_of("write")] == [{"0": 7}, {"1": 8}]
    assert ran.result.ctx == {"r": {"0": 7, "1": 8}}


@pytest.mark.req("SCOPE-05", "O-15")
def test_a_second_different_value_fails_that_iteration() -> None:
    write = always(set_ctx={"k": "{{ iter.x }}", "other.{{ iter.index }}": 1})
    ran = loop([1, 2], write, spec=PARALLEL, step=BEST_EFFORT, work=x_of)

    [failed] = ran.payloads("loop.iteration.failed")
    assert (failed.error.kind, failed.error.details) == ("ctx.conflict", {"key": "k"})
    assert ran.result.ctx["k"] == 2 - failed.index
    assert list(ran.result.ctx["other"]) == [str(1 - failed.index)], "none of the refused report's writes is applied"
    assert ran.result.result["result"][failed.index] is None


@pytest.mark.req("SCOPE-05")
def test_equal_values_and_separate_keys_are_no_conflict() -> None:
    write = always(set_ctx={"same": True, "r.{{ iter.index }}": "{{ iter.x }}"})
    ran = loop([1, 2, 3], write, spec=PARALLEL)

    assert ran.result.ctx == {"same": True, "r": {"0": 1, "1": 2, "2": 3}}


@pytest.mark.req("SCOPE-05")
def test_with_ctx_writes_last_the_last_write_in_iteration_order_wins() -> None:
    class Backwards(Scripted):
        async def run(self, inputs: Any, context: Any) -> Any:
            for _ in range(10 * (4 - inputs["args"]["x"])):
                await asyncio.sleep(0)
            return await super().run(inputs, context)

    write = always(set_ctx={"k": "{{ iter.x }}"})
    ran = loop([1, 2, 3], write, spec={**PARALLEL, "policy": {"ctx_writes": "last"}}, tool=Backwards())

    assert [done.index for done in ran.payloads("loop.iteration.done")] == [2, 1, 0]
    assert ran.result.ctx == {"k": 3}


@pytest.mark.req("LOOP-14")
@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_contributions_are_folded_in_iteration_order_in_one_patch(mode: str) -> None:
    write = always(set_ctx={"total": "{{ iter.x }}", "seen": "{{ iter.x }}"})
    spec = {"mode": mode, "policy": {"reducers": {"total": "sum", "seen": "append"}}}
    ran = loop([1, 2, 3], write, spec=spec, args={"x": "{{ ctx.total }}"})

    assert ran.result.ctx == {"total": 6, "seen": [1, 2, 3]}
    assert len(ran.payloads("ctx.patched")) == 1
    assert [call["args"]["x"] for call in ran.tool.inputs_of("work")] == [None, None, None]


@pytest.mark.req("LOOP-14")
def test_contributions_of_the_wrong_type_fail_the_step() -> None:
    spec = {"policy": {"reducers": {"total": "sum"}}}
    ran = loop([1, "two"], always(set_ctx={"total": "{{ iter.x }}"}), spec=spec)

    assert ran.result.result["error"]["kind"] == "loop.reduce"
    assert "'two' is not a number" in ran.result.result["error"]["message"]


@pytest.mark.req("LOOP-15")
def test_iterations_with_the_same_key_never_overlap() -> None:
    inside: list[str] = []
    overlaps: list[str] = []

    class Watched(Scripted):
        async def run(self, inputs: Any, context: Any) -> Any:
            key = inputs["args"]["x"]
            overlaps.extend(other for other in inside if other == key)
            inside.append(key)
            for _ in range(10):
                await asyncio.sleep(0)
            inside.remove(key)
            return await super().run(inputs, context)

    spec = {**PARALLEL, "policy": {"partitioning": {"key": "{{ iter.x }}"}}}
    ran = loop(["a", "b", "a", "a", "b"], spec=spec, tool=Watched(work=x_of))

    assert overlaps == []
    assert ran.result.result["result"] == ["a", "b", "a", "a", "b"]
    lanes = [scheduled.indices for scheduled in ran.payloads("loop.scheduled")]
    assert lanes == [(0, 2, 3), (1, 4)]


@pytest.mark.req("LOOP-15")
def test_a_queue_bound_limits_unclaimed_iterations() -> None:
    spec = {**PARALLEL, "policy": {"backpressure": {"max_queue": 3}}}
    ran = loop(list(range(20)), spec=spec, work=x_of)

    queued = most = 0
    lengths: dict[str, int] = {}
    for event in ran.events:
        payload: Any = event.payload
        if event.event_type == "loop.scheduled":
            lengths[payload.order_id] = payload.last - payload.first + 1
            queued += lengths[payload.order_id]
        elif event.event_type == "token.claimed":
            queued -= lengths.pop(payload.order_id, 0)
        most = max(most, queued)
    assert most == 3
    assert ran.result.result["result"] == list(range(20))


@pytest.mark.req("LOOP-15")
def test_shuffling_changes_the_order_of_work_and_not_of_results() -> None:
    spec = {**PARALLEL, "max_in_flight": 1, "policy": {"ordering": "shuffle"}}
    ran = loop(list(range(30)), spec=spec, work=x_of)

    done = [call["args"]["x"] for call in ran.tool.inputs_of("work")]
    assert done != sorted(done)
    assert ran.result.result["result"] == sorted(done) == list(range(30))


def test_an_iteration_of_a_loop_without_tools_ends_at_once() -> None:
    ran = run_here("workflow: [{step: start, loop: {in: [1, 2], iterator: x}}]")

    assert ran.result.result == [None, None]


def test_a_sequential_loop_inside_a_parallel_one_passes_its_writes_on_internally() -> None:
    """Rooms paged in sequence per hotel, hotels at the same time: each strand sees its own writes only (SCOPE-06)."""
    count = always(set_ctx={"n.{{ iter.parent.index }}": "{{ iter.hotel }}"})
    ran = loop(
        CITIES, count, spec=PARALLEL, inner=HOTELS, args={"x": "{{ iter.hotel }}", "n": "{{ ctx.n }}"}, tool=Gate()
    )

    seen = {call["args"]["x"]: call["args"]["n"] for call in ran.tool.inputs_of("work")}
    assert seen == {"h1": None, "h2": {"0": "h1"}, "h3": None, "h4": {"1": "h3"}, "h5": {"1": "h4"}}
    assert ran.result.ctx == {"n": {"0": "h2", "1": "h5"}}


def test_a_parallel_loop_inside_a_sequential_one_publishes_its_writes_at_its_end() -> None:
    count = always(set_ctx={"n.{{ iter.parent.index }}{{ iter.index }}": 1})
    ran = loop(
        [{"hotels": [1, 2]}, {"hotels": [3]}],
        count,
        inner={**HOTELS, "spec": PARALLEL},
        args={"x": "{{ iter.hotel }}", "n": "{{ ctx.n }}"},
    )

    seen = {call["args"]["x"]: call["args"]["n"] for call in ran.tool.inputs_of("work")}
    assert seen == {1: None, 2: None, 3: {"00": 1, "01": 1}}
    assert ran.result.ctx == {"n": {"00": 1, "01": 1, "10": 1}}


@pytest.mark.req("SCOPE-05", "O-15")
def test_a_refused_iteration_runs_no_further_task() -> None:
    second = {"name": "second", "kind": "python", "code": "x", "args": {"x": "{{ iter.x }}"}}
    write = always(set_ctx={"k": "{{ iter.x }}"})
    ran = loop([1, 2, 3], write, spec={**PARALLEL, "policy": {"exec": "local"}}, step=BEST_EFFORT, more=[second])

    refused = {failed.index for failed in ran.payloads("loop.iteration.failed")}
    assert len(refused) == 2
    assert [call["args"]["x"] - 1 for call in ran.tool.inputs_of("second")] == [({0, 1, 2} - refused).pop()]


async def drive(text: str, *workers: tuple[str, Scripted]) -> list[Any]:
    """A run with several workers on one control plane; its events."""
    dispatch, clock, events = MemoryWakeups(), ManualClock(), list[Any]()
    listeners = Listeners(watch=events.extend)
    executions, for_workers, *_ = assemble(MemoryStore(), MemoryResults(), dispatch, clock, listeners=listeners)
    serving = []
    for name, tool in workers:
        handle = WorkerHandle(name, dispatch.notify_workers, HeldLeases(clock))
        worker = Worker(for_workers, dispatch, Registry({"python": tool}), handle, clock=clock, slots=1)
        serving.append(asyncio.create_task(worker.serve()))
    async with asyncio.timeout(60):
        await executions.start(net_of(text), execution_id="x1", trace_id="t1", payload={})
        await executions.ended_execution("x1")
    for task in serving:
        task.cancel()
    await asyncio.wait(serving)
    return events


@pytest.mark.req("LOOP-11", "WRK-02")
@pytest.mark.parametrize(("where", "seen"), [("distributed", {"w1", "w2"}), ("local", {"w1"})])
async def test_a_distributed_loop_uses_several_workers_and_a_local_one_does_not(where: str, seen: set[str]) -> None:
    step = {
        "step": "start",
        "loop": {"in": [1, 2, 3, 4], "iterator": "x", "spec": {**PARALLEL, "policy": {"exec": where}}},
        "tool": [{"name": name, "kind": "python", "code": "x"} for name in ("a", "b")],
    }

    events = await drive(f"workflow: {json.dumps([step])}", ("w1", Gate()), ("w2", Gate()))

    assert {one.worker_id for one in payloads(events, IterationStarted)} == seen
    owners: dict[Any, set[str]] = {}
    for event in events:
        if event.event_type.startswith("task."):
            owners.setdefault(event.payload.path, set()).add(event.payload.worker_id)
    assert len(owners) == 4
    assert all(len(workers) == 1 for workers in owners.values())


def test_a_loop_on_a_file_store_behaves_as_in_memory(tmp_path: Any) -> None:
    """Orders made and withdrawn in one commit, closed without a lease, and by the hundred: all in SQLite."""
    items = list(range(300))
    bad = Scripted(work=lambda inputs, context: broken() if inputs["args"]["x"] == 170 else inputs["args"]["x"])
    step = {
        "step": "start",
        "loop": {"in": items, "iterator": "x", "spec": PARALLEL},
        "tool": {"name": "work", "kind": "python", "code": "x", "args": {"x": "{{ iter.x }}"}},
    }
    text = f"workflow: {json.dumps([step])}"

    async def run(tool: Scripted) -> Any:
        return await run_net(
            net_of(text), payload={}, db=tmp_path / "s.db", tools=Registry({"python": tool}), clock=ManualClock()
        )

    done, failed = asyncio.run(run(Scripted(work=x_of))), asyncio.run(run(bad))

    assert (done.status, done.result) == ("completed", items)
    assert (failed.status, failed.error.kind) == ("failed", "py.exception")
