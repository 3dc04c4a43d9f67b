"""A worker over HTTP claims, reports, stores and asks, and what is lost on the way is sent again (WRK-01, WRK-06)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from fastapi import Request, Response

from noetl.base import durations
from noetl.base.clock import ManualClock
from noetl.base.errors import RefusedError
from noetl.engine.commands import PauseExecution, ResumeExecution
from noetl.events.orders import (
    MAX_TURN_BYTES,
    MAX_TURN_ENTRIES,
    MAX_TURN_REPORTS,
    ReportResult,
    Turn,
    TurnAnswer,
    is_oversized,
    read_turn,
)
from noetl.events.outcomes import Reference, TaskResult
from noetl.events.tasks import TaskProcessed
from noetl.tools.registry import Registry
from noetl.worker import remote_worker
from noetl.worker.http1 import Reply
from noetl.worker.remote_control_plane import RemoteControlPlane
from noetl.worker.remote_values import RemoteValues
from noetl.worker.remote_worker import RemoteWorker, WorkerSpec
from noetl.worker.server_connection import ServerClock, ServerConnection, ServerRefusedError
from tests.narrowing import payloads, present
from tests.playbook_runs import Scripted
from tests.server.talking import WorkerClient
from tests.server.worker_turns import done
from tests.worker.http_app import TWO, WireServer, wire_server
from tests.worker.orders import an_order


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "FIRST_DELAY_S", 0.001)


def spec(server: WireServer, **more: Any) -> WorkerSpec:
    return WorkerSpec(url=server.url, name="w", concurrency=more.pop("concurrency", 2), **more)


@asynccontextmanager
async def working(server: WireServer, tool: Scripted, **more: Any) -> AsyncIterator[RemoteWorker]:
    worker = RemoteWorker(spec(server, **more), Registry({"python": tool}))
    serving = asyncio.ensure_future(worker.serve())
    try:
        yield worker
    finally:
        worker.drain()
        async with asyncio.timeout(60):
            await serving
        await server.left_alone()


@pytest.mark.req("WRK-01")
async def test_a_remote_worker_completes_a_playbook() -> None:
    async with wire_server() as server, working(server, Scripted(a=1, b=2, c={"n": 3})):
        ended = await server.run(TWO)

    assert ended.lifecycle.status == "completed"
    assert ended.outputs.results["then"].result == {"n": 3}


@pytest.mark.req("WRK-01")
async def test_a_remote_worker_registers_and_signs_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_worker, "_DEREGISTER_S", 60.0)
    async with wire_server() as server:
        async with working(server, Scripted(), labels={"zone": "a"}, pools=("default", "gpu")):
            await server.run(TWO)
            told = dict(server.workers["w:1:2"])
        assert server.workers == {}

    assert told["pools"] == ["default", "gpu"]
    assert told["capacity"] == 2
    assert told["labels"] == {"zone": "a"}
    assert "python" in told["kinds"]
    assert "shell" not in told["kinds"], "nobody turned it on"
    assert told["protocol"] == 1


def lost(_: Request) -> Response:
    return Response(status_code=503)


def busy(_: Request) -> Response:
    return Response(status_code=429, headers={"Retry-After": "0"})


@pytest.mark.parametrize("fault", [lost, busy])
async def test_reports_that_the_server_could_not_accept_are_sent_again(fault: Any) -> None:
    async with wire_server() as server:
        server.faults.extend([fault, lambda _: None] * 10)
        async with working(server, Scripted(a=1, b=2, c=3), concurrency=1):
            ended = await server.run(TWO)

    assert ended.lifecycle.status == "completed"
    assert server.names().count("task.processed") == 3


async def test_a_repeated_report_after_a_lost_response_has_no_second_effect() -> None:
    """The report is sent again, and the server has it already."""
    async with wire_server() as server:
        answered: list[int] = []

        class Losing(Scripted):
            async def run(self, inputs: Any, context: Any) -> Any:
                if context.task_run.task == "a" and not answered:
                    answered.append(1)
                    turn, losing = server.for_workers.turn, pytest.MonkeyPatch()

                    async def twice(told: Any) -> Any:
                        if told.reports and not told.capacity:
                            losing.undo()
                            await turn(told)
                        return await turn(told)

                    losing.setattr(server.for_workers, "turn", twice)
                return await super().run(inputs, context)

        async with working(server, Losing(a=1, b=2, c=3), concurrency=1):
            ended = await server.run(TWO)

    assert ended.lifecycle.status == "completed"
    assert server.names().count("task.processed") == 3
    assert len({event.event_id for event in server.events}) == len(server.events)


@pytest.mark.parametrize(("status", "words"), [(401, "NOETL_TOKEN"), (403, "403"), (426, "another protocol")])
async def test_a_server_that_refuses_the_worker_is_reported_clearly(status: int, words: str) -> None:
    async with wire_server() as server:
        server.faults.append(lambda _: Response('{"detail": "another protocol"}', status))

        with pytest.raises(RefusedError, match=words):
            await RemoteWorker(spec(server), Registry()).serve()


async def test_an_unreadable_report_affects_its_own_order_only() -> None:
    """Two orders are reported in one turn; what is wrong with one of them must not stop the worker, nor the other."""
    refused: list[str] = []

    async with wire_server() as server:
        first = await server.start(TWO)

        def unreadable(turn: Any) -> bool:
            return any(report.execution_id == first for report in turn.reports)

        server.unreadable = unreadable
        async with working(server, Scripted(a=1, b=2, c=3), concurrency=2):
            second = await server.run(TWO)
            async with asyncio.timeout(60):
                while not refused:
                    refused += [one.execution_id for turn in server.turns for one in turn.reports if unreadable(turn)]
                    await asyncio.sleep(0.01)

    assert second.lifecycle.status == "completed"
    assert first in refused


@pytest.mark.req("WRK-06")
async def test_large_results_are_uploaded_before_the_report_that_references_them() -> None:
    large = "x" * 200_000
    async with wire_server() as server, working(server, Scripted(a=large, b=2, c=lambda i, c: len(str(i)))):
        ended = await server.run(TWO)

    stored = [at for at, (method, _) in enumerate(server.requests) if method == "PUT"]
    assert ended.lifecycle.status == "completed"
    assert len(stored) == 1
    named, *_ = payloads(server.events, TaskProcessed)
    assert server.results.load(present(named.outcome.ref)) is not None


READS = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: reads, path: tests/reads }
workflow:
  - step: start
    tool: [{ name: a, kind: python, code: x }]
    next: { arcs: [{ step: then }] }
  - step: then
    tool: [{ name: b, kind: python, args: { all: "{{ start }}" }, code: x }]
"""


@pytest.mark.req("WRK-06", "RES-06")
async def test_a_large_result_is_fetched_before_its_order_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask for it in the middle of a template would hold up everything else that the worker does."""

    def blocking(*_: Any, **__: Any) -> Any:
        raise AssertionError("the event loop was held up")

    class Pausing(Scripted):
        async def run(self, inputs: Any, context: Any) -> Any:
            await server.executions.control(context.task_run.execution_id, PauseExecution(at=0.0))
            return await super().run(inputs, context)

    monkeypatch.setattr(RemoteValues, "_read", blocking)
    large = "x" * 3_000_000
    async with wire_server() as server:
        async with working(server, Pausing(a=large)):
            execution_id = await server.start(READS)
            async with asyncio.timeout(60):
                while "step.done" not in server.names():
                    await asyncio.sleep(0.01)
        await server.executions.control(execution_id, ResumeExecution(at=0.0))
        tool = Scripted(b=lambda inputs, _: len(inputs["args"]["all"]))
        async with working(server, tool), asyncio.timeout(60):
            ended = await server.executions.ended_execution(execution_id)

    assert (ended.lifecycle.status, ended.outputs.results["then"].result) == ("completed", len(large))


async def test_as_many_large_results_are_prefetched_as_fit_in_the_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("noetl.worker.remote_values.CACHE_BYTES", 30_000)
    async with wire_server() as server:
        found = {size: server.results.put("x" * size) for size in (9_000, 14_000, 11_000)}
        results = {f"of_{size}": TaskResult(ref=reference) for size, reference in found.items()}
        line = ServerConnection(server.url, None)
        try:
            await RemoteValues(line, pytest.fail, "w").prefetch(an_order("a", results=results))
        finally:
            await line.close()

    fetched = {path.rpartition("/")[2] for _, path in server.requests}
    assert fetched == {found[9_000].checksum, found[11_000].checksum}


@pytest.mark.req("SRV-07")
async def test_a_paused_execution_starts_no_further_task_until_it_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.worker.remote_control_plane.PAUSE_S", 0.02)

    class Pausing(Scripted):
        async def run(self, inputs: Any, context: Any) -> Any:
            if context.task_run.task == "a":
                await server.executions.control(context.task_run.execution_id, PauseExecution(at=0.0))
            return await super().run(inputs, context)

    async with wire_server() as server:
        tool = Pausing(a=1, b=2, c=3)
        async with working(server, tool):
            started = await server.start(TWO)
            async with asyncio.timeout(60):
                while sum(1 for turn in server.turns for one in turn.reports if not one.entries) < 3:
                    await asyncio.sleep(0.01)
            before = [name for name, _ in tool.calls]
            await server.executions.control(started, ResumeExecution(at=0.0))
            async with asyncio.timeout(60):
                ended = await server.executions.ended_execution(started)

    assert before == ["a"]
    assert [name for name, _ in tool.calls] == ["a", "b", "c"]
    assert ended.lifecycle.status == "completed"


@pytest.mark.parametrize(
    ("date", "ahead_s"),
    [
        ("Wed, 01 Jan 2025 00:00:00 GMT", 0.0),
        ("Wed, 01 Jan 2025 00:00:05 GMT", 0.0),
        ("Wed, 01 Jan 2025 01:00:00 GMT", 3600.5),
        ("Tue, 31 Dec 2024 23:00:00 GMT", -3599.5),
        ("not a date", 0.0),
        (None, 0.0),
    ],
)
def test_a_wrong_clock_is_corrected_by_the_server_time(date: str | None, ahead_s: float) -> None:
    clock = ServerClock(ManualClock())
    clock.note_server_time(date)

    assert clock.ahead_s == ahead_s
    assert clock.now() == ManualClock().now() + ahead_s


async def test_draining_finishes_running_orders_and_claims_no_more() -> None:
    begun, gate, said = asyncio.Event(), asyncio.Event(), list[str]()

    class Slow(Scripted):
        async def run(self, inputs: Any, context: Any) -> Any:
            begun.set()
            await gate.wait()
            return await super().run(inputs, context)

    async with wire_server() as server:
        worker = RemoteWorker(spec(server), Registry({"python": Slow(a=1, b=2, c=3)}), say=said.append)
        serving = asyncio.ensure_future(worker.serve())
        await server.start(TWO)
        await begun.wait()
        worker.drain()
        async with asyncio.timeout(60):
            while not any(word.startswith("draining: 1 to finish") for word in said):
                await asyncio.sleep(0.001)
        await server.left_alone()
        assert not serving.done()
        gate.set()
        assert await serving == 0

    assert server.names().count("step.done") == 1, "its step is over and reported"
    assert server.names().count("step.started") == 1, "the next one is for somebody else"


async def test_a_drain_that_times_out_stops_the_tools_and_counts_them() -> None:
    begun, stopped = asyncio.Event(), []

    class Endless(Scripted):
        async def run(self, inputs: Any, context: Any) -> Any:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped.append(1)
                raise

    async with wire_server() as server:
        worker = RemoteWorker(spec(server, drain_s=0.05), Registry({"python": Endless()}))
        serving = asyncio.ensure_future(worker.serve())
        await server.start(TWO)
        await begun.wait()
        worker.drain()

        assert await serving == 1
        assert stopped == [1]


async def test_a_worker_stopped_before_the_server_answers_ends() -> None:
    worker = RemoteWorker(WorkerSpec(url="http://127.0.0.1:9", name="w"), Registry())
    serving = asyncio.ensure_future(worker.serve())
    await asyncio.sleep(0.02)
    worker.drain()

    assert await asyncio.wait_for(serving, 60) == 0


class Answers:
    """A connection to a server that refuses the first values it is sent, and answers turns with a verdict."""

    url, headers, verify = "", dict[str, str](), True

    def __init__(self, verdict: ReportResult, refusals: int) -> None:
        self.verdict, self.refusals = verdict, refusals
        self.turns: list[Turn] = []

    async def ask(self, method: str, path: str, *, body: bytes, **_: Any) -> Reply:
        if method == "PUT":
            if self.refusals:
                self.refusals -= 1
                raise ServerRefusedError("this worker holds no order of the execution", 403, {})
            stored = Reference(store="files", key="k", checksum=path.rpartition("/")[2], size=len(body))
            return Reply(200, "OK", {}, msgspec.json.encode(stored))
        self.turns.append(read_turn(body))
        return Reply(200, "OK", {}, msgspec.json.encode(TurnAnswer(verdicts=(self.verdict,))))


async def reported(verdict: ReportResult, refusals: int, tries: int) -> tuple[list[ReportResult], list[Turn]]:
    line = Answers(verdict, refusals)
    values = RemoteValues(line, pytest.fail, "w")  # type: ignore[arg-type]  # a stand-in
    control_plane = RemoteControlPlane(line, values, worker_id="w")  # type: ignore[arg-type]
    order, verdicts = an_order("o"), list[ReportResult]()
    for _ in range(tries):
        kept = msgspec.to_builtins(values.keep({"much": "x" * 100}, order.execution_id))
        report = done(WorkerClient(), order, {"_ref": kept})
        await values.settled([report])
        verdicts += (await control_plane.turn(Turn(worker_id="w", reports=(report,)))).verdicts
    return verdicts, line.turns


@pytest.mark.req("WRK-04", "RES-06")
async def test_a_value_refused_once_counts_when_the_worker_gets_the_order_again() -> None:
    verdicts, turns = await reported(ReportResult.ACCEPTED, refusals=1, tries=2)

    assert verdicts == [ReportResult.REFUSED, ReportResult.ACCEPTED]
    assert [len(turn.reports[0].entries) for turn in turns] == [0, 2], "what was not stored is not reported"


@pytest.mark.req("SRV-11", "RES-06")
async def test_a_worker_learns_of_a_cancelled_order_even_if_its_value_was_refused() -> None:
    """What its tools have begun elsewhere is ended only then."""
    verdicts, _ = await reported(ReportResult.CANCELLED, refusals=1, tries=1)

    assert verdicts == [ReportResult.CANCELLED]


class Verdicts:
    """A connection to a server that accepts every report but one."""

    url, headers, verify = "", dict[str, str](), True

    def __init__(self, fenced: int = -1) -> None:
        self.turns: list[Turn] = []
        self.sizes: list[int] = []
        self._fenced = fenced

    async def ask(self, method: str, path: str, *, body: bytes, **_: Any) -> Reply:
        turn = read_turn(body)
        self.turns.append(turn)
        self.sizes.append(len(body))
        is_fenced = len(self.turns) - 1 == self._fenced
        verdict = ReportResult.FENCED if is_fenced else ReportResult.ACCEPTED
        answer = TurnAnswer(verdicts=(verdict,) * len(turn.reports), paused=("o0",) if not is_fenced else ())
        return Reply(200, "OK", {}, msgspec.json.encode(answer))


def remote(line: Verdicts) -> RemoteControlPlane:
    values = RemoteValues(line, pytest.fail, "w")  # type: ignore[arg-type]  # a stand-in
    return RemoteControlPlane(line, values, worker_id="w")  # type: ignore[arg-type]


@pytest.mark.req("WRK-01", "SRV-04")
async def test_more_than_a_turn_may_hold_is_sent_as_several_turns() -> None:
    line = Verdicts()
    large = [done(WorkerClient(), an_order(f"o{one}"), "x" * 1_000_000) for one in range(12)]
    small = [msgspec.structs.replace(large[0], order_id=f"p{one}", entries=()) for one in range(MAX_TURN_REPORTS + 1)]
    asked = Turn(worker_id="w", reports=(*large, *small), capacity=3)

    answer = await remote(line).turn(asked)

    assert answer.verdicts == (ReportResult.ACCEPTED,) * len(asked.reports)
    assert max(line.sizes) <= MAX_TURN_BYTES
    assert not any(is_oversized(turn) for turn in line.turns)
    assert [report for turn in line.turns for report in turn.reports] == list(asked.reports), "in their order"
    assert [turn.capacity for turn in line.turns[-2:]] == [0, 3], "orders are taken once, after everything is reported"


@pytest.mark.req("WRK-01", "SRV-04")
@pytest.mark.parametrize("fenced", [-1, 0, 1])
async def test_a_long_report_is_sent_in_parts_and_has_one_verdict(fenced: int) -> None:
    line = Verdicts(fenced)
    report = done(WorkerClient(), an_order("o"), 1)
    report = msgspec.structs.replace(report, entries=report.entries * MAX_TURN_ENTRIES)

    answer = await remote(line).turn(Turn(worker_id="w", reports=(report,)))

    assert answer.verdicts == (ReportResult.ACCEPTED if fenced < 0 else ReportResult.FENCED,)
    assert len(line.turns) == 2
    assert tuple(entry for turn in line.turns for entry in turn.reports[0].entries) == report.entries


@pytest.mark.req("SRV-04")
async def test_an_entry_that_no_turn_can_hold_is_sent_as_it_is() -> None:
    """The server refuses it and says why."""
    line = Verdicts()
    report = done(WorkerClient(), an_order("o"), "x" * MAX_TURN_BYTES)
    report = msgspec.structs.replace(report, entries=report.entries[:1])

    await remote(line).turn(Turn(worker_id="w", reports=(report,)))

    assert len(line.turns) == 1
