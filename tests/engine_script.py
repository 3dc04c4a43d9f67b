"""Conversations with the engine alone: a playbook text, commands one by one, and the events they lead to.

No worker and no store: a test plays the worker by reporting what it likes. After every command the log so far is
replayed and must give the live state, so every conversation is also a replay test (EVT-07).
"""

from __future__ import annotations

from textwrap import dedent
from typing import Any

from noetl.base.clock import ManualClock
from noetl.base.diagnostics import Findings, Source
from noetl.engine.commands import (
    CancelExecution,
    ClaimOrder,
    Command,
    PauseExecution,
    RecordReport,
    ResumeExecution,
    StartExecution,
)
from noetl.engine.decide import advance
from noetl.engine.decision import Decision
from noetl.engine.evolve import replay
from noetl.engine.execution import Execution, StepRun
from noetl.engine.pipeline.progress import task_run_id
from noetl.engine.plan import Plan
from noetl.events.envelope import Event
from noetl.events.orders import Entry, Report, ReportResult, Timed
from noetl.events.outcomes import Error, Meta, Outcome, Status, TaskResult
from noetl.events.projection.projection import Projection
from noetl.events.projection.state_history import StateHistory
from noetl.events.steps import StepDone, StepFailed
from noetl.events.tasks import Decided, TaskProcessed, TaskStarted
from noetl.events.tokens import TokenDropped
from noetl.language.compiling.compiler import compile_playbook
from noetl.language.reading.reader import read_playbook
from noetl.net.net import Net
from noetl.operations.results import MAX_STEP_ENDS, STEP_END_TYPES, carried_step_end, step_end
from noetl.tools.kinds import KINDS
from tests.events.projected import compare_history, compare_projection
from tests.narrowing import present

HEAD = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: test, path: tests/test}
"""


def playbook(text: str) -> str:
    """A whole document from the parts that matter to a test."""
    text = dedent(text)
    return text if "apiVersion" in text else HEAD + text


def net_of(text: str) -> Net:
    """The net of a playbook, which must have no errors."""
    findings = Findings()
    read = read_playbook(Source("test.yaml", playbook(text)), findings, kinds=KINDS)
    assert read is not None, list(findings)
    compiled = compile_playbook(read, KINDS, findings)
    assert not findings.has_errors, list(findings)
    assert compiled.net is not None
    return compiled.net


class Conversation:
    """One execution, driven by hand. Step runs are named `step#n`, n counting the runs of a step from one."""

    def __init__(self, text: str | Net, *, worker_id: str = "w1", load: Any = None) -> None:
        self.plan = Plan(text if isinstance(text, Net) else net_of(text), **({"load": load} if load else {}))
        self.execution = Execution(execution_id="x1", trace_id="t1")
        self.clock = ManualClock()
        self.log: list[Event] = []
        self.worker_id = worker_id
        self.names: dict[str, str] = {}
        self._runs_of: dict[str, int] = {}
        self._projection, self._history = Projection(), StateHistory()

    def tell(self, command: Command) -> list[Event]:
        """Give the engine a command; the events it led to."""
        return list(self.decide(command).events)

    def decide(self, command: Command) -> Decision:
        decision = advance(self.plan, self.execution, command)
        for event in decision.events:
            if event.event_type == "step.scheduled":
                self._name(event)
        self.log += decision.events
        assert replay("x1", "t1", self.log) == self.execution, "replay must equal the live state at every point"
        self._compare_results()
        self._projection.take_all(decision.events)
        compare_projection(self._projection, self.execution)
        self._history.take_all(decision.events)
        compare_history(self._history, self.execution)
        return decision

    def _compare_results(self) -> None:
        """The results of a step as read from the log without a replay."""
        for step, result in self.execution.outputs.results.items():
            telling = [event for event in self.log if event.step == step and event.event_type in STEP_END_TYPES]
            told = step_end(telling[-MAX_STEP_ENDS:], step) or carried_step_end(self.log[0], step)
            assert told is not None, f"nothing tells how {step} ended"
            assert told.result == result if told.error is None else told.error == result.error, step

    def _name(self, event: Event) -> None:
        assert event.step is not None
        assert event.step_run_id is not None
        number = self._runs_of[event.step] = self._runs_of.get(event.step, 0) + 1
        self.names[f"{event.step}#{number}"] = event.step_run_id

    def start(self, **payload: Any) -> list[Event]:
        return self.tell(StartExecution(at=self.clock.now(), net_hash=self.plan.net_hash, payload=payload))

    def pause(self) -> list[Event]:
        return self.tell(PauseExecution(at=self.clock.now()))

    def resume(self) -> list[Event]:
        return self.tell(ResumeExecution(at=self.clock.now()))

    def cancel(self, reason: str = "on request") -> list[Event]:
        return self.tell(CancelExecution(at=self.clock.now(), reason=reason))

    def running(self) -> list[str]:
        """The step runs that are going on, by name."""
        return sorted(name for name, run_id in self.names.items() if run_id in self.execution.runs)

    def dropped(self) -> list[tuple[str, str]]:
        """The tokens that were dropped: where, and why."""
        return [
            (event.step or "", present(event.payload.reason))
            for event in self.log
            if isinstance(event.payload, TokenDropped)
        ]

    def run(self, name: str) -> StepRun:
        return self.execution.runs[self.names[name if "#" in name else f"{name}#1"]]

    def claim(self, name: str, *, worker_id: str | None = None) -> list[Event]:
        run = self.run(name)
        assert run.lease.order_id is not None, f"{name} is decided in the server"
        return self.tell(
            ClaimOrder(
                at=self.clock.now(),
                order_id=run.lease.order_id,
                worker_id=worker_id or self.worker_id,
                seen_epoch=run.lease.lease_epoch,
            )
        )

    def report_of(self, name: str, *entries: Entry, epoch: int | None = None, worker_id: str | None = None) -> Report:
        run = self.run(name)
        assert run.lease.order_id is not None
        return Report(
            order_id=run.lease.order_id,
            execution_id="x1",
            lease_epoch=run.lease.lease_epoch if epoch is None else epoch,
            worker_id=worker_id or self.worker_id,
            entries=tuple(Timed(self.clock.now(), entry) for entry in entries),
        )

    def report(self, report: Report) -> tuple[ReportResult, list[Event]]:
        decision = self.decide(RecordReport(at=self.clock.now(), report=report))
        return decision.verdict, list(decision.events)

    def task(self, name: str, result: Any = None, *, error: Error | None = None, **decided: Any) -> list[Entry]:
        """The two entries of the current task of a step run, with this outcome."""
        run = self.run(name)
        position = run.progress.position
        assert position.task is not None
        run_id = task_run_id(run.step_run_id, position)
        now = self.clock.now()
        meta = Meta(attempt=position.attempt, started_at=now, finished_at=now, trace_id="t1", task_run_id=run_id)
        about: dict[str, Any] = {"task": position.task, "visit": position.visit, "attempt": position.attempt}
        about["task_run_id"] = run_id
        outcome = Outcome(status=Status.ERROR if error else Status.SUCCESS, result=result, error=error, meta=meta)
        decision = Decided(**{"rule": "default", "do": "fail" if error else "continue", "error": error, **decided})
        return [
            TaskStarted(kind="python", **about),
            TaskProcessed(outcome=outcome, decision=decision, **about),
        ]

    def done(self, name: str, result: Any = None, **decided: Any) -> list[Event]:
        """Claim a step run and report that its one task gave `result`."""
        if self.run(name).lease.lease_epoch == 0:
            self.claim(name)
        entries = self.task(name, result, **decided)
        return self.report(self.report_of(name, *entries, StepDone(result=TaskResult(result=result))))[1]

    def failed(self, name: str, kind: str = "py.exception", message: str = "it broke") -> list[Event]:
        if self.run(name).lease.lease_epoch == 0:
            self.claim(name)
        error = Error(kind=kind, message=message)
        entries = self.task(name, error=error)
        return self.report(self.report_of(name, *entries, StepFailed(error=error)))[1]

    def types(self, *, of: str | None = None) -> list[str]:
        """The names of all events so far, or of those of one step run."""
        wanted = self.names[of if "#" in of else f"{of}#1"] if of else None
        return [event.event_type for event in self.log if of is None or event.step_run_id == wanted]

    def payloads(self, event_type: str) -> list[Any]:
        return [event.payload for event in self.log if event.event_type == event_type]

    @property
    def status(self) -> str:
        return self.execution.lifecycle.status.value if self.execution.lifecycle.status else "running"

    def ran(self) -> list[str]:
        """Steps in the order their runs were scheduled."""
        return [event.step or "" for event in self.log if event.event_type == "step.scheduled"]
