"""Conversations about loops: a test plays the workers that hold ranges, one iteration at a time."""

from __future__ import annotations

from typing import Any

from noetl.engine.commands import ClaimOrder
from noetl.engine.loops.state import LoopRun, Range
from noetl.engine.pipeline.progress import task_run_id
from noetl.events.envelope import Event
from noetl.events.loops import IterationDone, IterationFailed, IterationStarted
from noetl.events.orders import Entry, Report, ReportResult, Timed
from noetl.events.outcomes import Error, Meta, Outcome, Status, TaskResult
from noetl.events.tasks import Decided, TaskProcessed, TaskStarted
from tests.engine_script import Conversation

BROKE = Error(kind="py.exception", message="it broke")


class LoopTalk(Conversation):
    def loop(self, name: str = "start") -> LoopRun:
        loop = self.run(name).loop
        assert loop is not None
        return loop

    def ranges(self, name: str = "start") -> list[Range]:
        """The open ranges, oldest first."""
        run = self.execution.runs.get(self.names[f"{name}#1"])
        return list(run.loop.ranges.values()) if run is not None and run.loop is not None else []

    def take(self, span: Range, *, worker_id: str = "w1") -> list[Event]:
        """A worker claims a range, or claims it again after its lease was lost."""
        return self.tell(
            ClaimOrder(at=self.clock.now(), order_id=span.order_id, worker_id=worker_id, seen_epoch=span.lease_epoch)
        )

    def take_all(self) -> None:
        for span in self.ranges():
            if span.lease_epoch == 0:
                self.take(span)

    def say(self, span: Range, *entries: Entry, epoch: int | None = None) -> tuple[ReportResult, list[Event]]:
        return self.report(
            Report(
                order_id=span.order_id,
                execution_id="x1",
                lease_epoch=span.lease_epoch if epoch is None else epoch,
                worker_id=span.worker_id or "w1",
                entries=tuple(Timed(self.clock.now(), entry) for entry in entries),
            )
        )

    def begin(self, span: Range, index: int) -> IterationStarted:
        return IterationStarted(index=index, path=(*span.path, index), worker_id=span.worker_id)

    def work(
        self, span: Range, index: int, result: Any = None, *, visit: int = 1, error: Error | None = None, **decided: Any
    ) -> list[Entry]:
        """One task of an iteration."""
        path = (*span.path, index)
        run_id = task_run_id(self.names["start#1"], self.run("start").progress.position, path) + str(visit)
        now = self.clock.now()
        meta = Meta(attempt=1, started_at=now, finished_at=now, trace_id="t1", task_run_id=run_id)
        outcome = Outcome(status=Status.ERROR if error else Status.SUCCESS, result=result, error=error, meta=meta)
        about: dict[str, Any] = {"task": "work", "visit": visit, "attempt": 1, "task_run_id": run_id, "path": path}
        decision = Decided(**{"rule": "default", "do": "fail" if error else "continue", "error": error, **decided})
        return [TaskStarted(kind="python", **about), TaskProcessed(outcome=outcome, decision=decision, **about)]

    def end(self, span: Range, index: int, result: Any = None, *, error: Error | None = None) -> Entry:
        path = (*span.path, index)
        if error is not None:
            return IterationFailed(index=index, path=path, error=error)
        return IterationDone(index=index, path=path, result=TaskResult(result=result))

    def claim(self, name: str, *, worker_id: str | None = None) -> list[Event]:
        """A looped step run has no order of its own: the oldest of its unclaimed ranges is claimed."""
        run = self.run(name)
        if run.loop is None:
            return super().claim(name, worker_id=worker_id)
        span = next(span for span in run.loop.ranges.values() if span.lease_epoch == 0)
        return self.take(span, worker_id=worker_id or self.worker_id)

    def iterate(
        self,
        at: int | tuple[int, ...],
        result: Any = None,
        *,
        name: str = "start",
        error: Error | None = None,
        **decided: Any,
    ) -> list[Event]:
        """A whole iteration, in one report of its holder."""
        *around, index = (at,) if isinstance(at, int) else at
        spans = self.ranges(name.partition("#")[0])
        span = next(span for span in spans if index in span and (isinstance(at, int) or span.path == tuple(around)))
        entries = [self.begin(span, index), *self.work(span, index, result, error=error, **decided)]
        return self.say(span, *entries, self.end(span, index, result, error=error))[1]
