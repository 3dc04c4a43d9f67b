"""Side runs under whatever may happen: lost workers, pauses, cancellations, events at any moment.

The log is replayed after every command (`tests.engine_script`); here it is the end that counts: every execution
comes to
one, and leaves nothing behind.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec
import pytest

from noetl.engine.commands import CancelExecution, ClaimOrder, InjectEvent, RecordReport
from noetl.engine.execution import StepRun
from noetl.events.orders import Entry, Report, ReportResult, Timed
from noetl.events.outcomes import Error
from noetl.events.side_runs import CompensationDone, CompensationFailed, CompensationStarted, CompensationUnknown
from noetl.events.steps import StepDone, StepFailed
from noetl.events.tasks import TaskProcessed
from tests.engine_script import Conversation
from tests.narrowing import payloads
from tests.volume import one_in

TEXT = """
executor: {spec: {policy: {compensation: auto}}}
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: quiet}]}
  - step: a
    tool:
      - {name: a1, kind: python, code: x}
      - {name: a2, kind: python, code: x, spec: {async: true}}
    compensate: {tool: {kind: python, code: x}}
    on_event: {handlers: [{event: hey, then: [{name: ha, kind: python, code: x}]}]}
    next: {arcs: [{step: c, when: "{{ event.name == 'step.failed' }}", spec: {trigger_compensation: true}}, {step: c}]}
  - step: b
    tool: {kind: python, code: x}
    compensate: {spec: {idempotent: true}, tool: [{name: b1, kind: python, code: x}, {name: b2, kind: python, code: x}]}
    on_event: {spec: {interrupting: true}, handlers: [{event: hey, then: [{name: hb, kind: python, code: x}]}]}
    next: {arcs: [{step: c}]}
  - step: quiet
    tool: {kind: python, code: x}
    next: {arcs: [{step: c, spec: {trigger_compensation: true}}]}
  - step: c
    spec: {join: all}
    tool: {kind: python, code: x}
    compensate: {tool: {kind: python, code: x}}
"""


class Chaos:
    def __init__(self, seed: int) -> None:
        self.random, self.talk = Random(seed), Conversation(TEXT)
        self.talk.start()

    def run(self) -> None:
        talk = self.talk
        for _ in range(60):
            talk.clock.advance(1)
            self._something()
            if talk.status != "running":
                return
        talk.resume()
        while talk.status == "running":
            runs = self._with_orders()
            assert runs, "somebody must be at work"
            self._work(runs[0], lose=False)

    def _something(self) -> None:
        talk, dice = self.talk, self.random.random()
        runs = self._with_orders()
        if dice < 0.05:
            talk.pause()
        elif dice < 0.2:
            talk.resume()
        elif dice < 0.3:
            talk.tell(InjectEvent(at=talk.clock.now(), name="hey"))
        elif dice < 0.32:
            talk.tell(CancelExecution(at=talk.clock.now(), compensate=self.random.random() < 0.6))
        elif runs:
            self._work(self.random.choice(runs), lose=self.random.random() < 0.2)

    def _with_orders(self) -> list[StepRun]:
        return [
            run
            for run in self.talk.execution.runs.values()
            if run.lease.order_id in self.talk.execution.order_states.open
        ]

    def _work(self, run: StepRun, *, lose: bool) -> None:
        """Claim the order, or go on with it; a lost worker tells nothing more."""
        talk = self.talk
        assert run.lease.order_id is not None
        if run.lease.lease_epoch == 0 or lose:
            worker = f"w{self.random.randrange(3)}"
            claim = ClaimOrder(
                at=talk.clock.now(), order_id=run.lease.order_id, worker_id=worker, seen_epoch=run.lease.lease_epoch
            )
            talk.tell(claim)
            return
        talk.names["now#1"] = run.step_run_id
        self._report(run, self._entries(run))

    def _entries(self, run: StepRun) -> list[Entry]:
        if run.progress.position.task is None:
            return [StepDone()]
        dice = self.random.random()
        error = Error(kind="py.exception", message="it broke") if dice < 0.2 else None
        more = {"a1": "a2", "b1": "b2"}.get(run.progress.position.task) if error is None else None
        started, processed = self.talk.task("now", 1, error=error, next=more)
        if 0.2 <= dice < 0.35:
            return [started]
        assert isinstance(processed, TaskProcessed)
        if run.progress.position.task == "a2" and run.side_run is None and error is None:
            processed = msgspec.structs.replace(processed, deferred=True)
        if more is not None:
            return [started, processed]
        return [started, processed, StepFailed(error=error) if error is not None else StepDone()]

    def _report(self, run: StepRun, entries: list[Entry]) -> None:
        talk = self.talk
        assert run.lease.order_id is not None
        assert run.lease.worker_id is not None
        report = Report(
            order_id=run.lease.order_id,
            execution_id="x1",
            lease_epoch=run.lease.lease_epoch,
            worker_id=run.lease.worker_id,
            entries=tuple(Timed(talk.clock.now(), entry) for entry in entries),
        )
        verdict, _ = talk.report(report)
        assert verdict in (ReportResult.ACCEPTED, ReportResult.DUPLICATE)
        if self.random.random() < 0.3:  # the worker did not hear of it, and tells again
            again = talk.decide(RecordReport(at=talk.clock.now(), report=report))
            assert again.verdict is not ReportResult.ACCEPTED or talk.execution.run_of(run.lease.order_id) is not None


@pytest.mark.req("SAGA-03", "ADV-01", "TOOL-12", "EVT-07")
@pytest.mark.parametrize("seed", one_in(2, range(150)))
def test_every_random_execution_with_side_runs_ends_and_leaves_nothing_open(seed: int) -> None:
    chaos = Chaos(seed)
    chaos.run()

    execution, log = chaos.talk.execution, chaos.talk.log
    assert execution.lifecycle.status is not None
    for left in (
        execution.tokens,
        execution.runs,
        execution.side_work.step_runs,
        execution.order_states.open,
        execution.agenda,
    ):
        assert left == {}
    assert (execution.side_work.handlers, execution.side_work.pending_handlers) == ({}, {})
    ends = Counter(
        event.payload.registration_id
        for event in log
        if isinstance(event.payload, CompensationDone | CompensationFailed | CompensationUnknown)
    )
    assert all(number == 1 for number in ends.values()), "each registration is used once"
    began = [one.registration_id for one in payloads(log, CompensationStarted)]
    assert sorted(began) == sorted(ends)
    asked = Counter(event.event_type for event in log)
    assert asked["task.async_started"] == asked["task.async_done"]
    assert asked["handler.started"] == asked["handler.done"] + asked["handler.failed"]
