"""Spans of an execution, told from its log: one for the whole, one for each step run, one for each task run.

Ids follow from those of the log, so that telling a trace twice tells the same one. Nothing of any payload is in them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from noetl.events.envelope import Event
from noetl.events.executions import ExecutionRequested, PlaybookProcessed
from noetl.events.steps import StepDone, StepFailed, StepScheduled
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.events.traces import span_id_of

TOLD = ("playbook.execution_requested", "playbook.processed", "step.*", "task.started", "task.processed")
MOST = 2_000  # of one execution: a loop of many items would drown whoever looks


class TraceSpan(msgspec.Struct, kw_only=True):
    """Times are seconds; `error` is the kind of what went wrong."""

    span_id: int
    parent_id: int | None
    name: str
    begun: float
    ended: float | None = None
    error: str | None = None
    attributes: dict[str, str | int] = {}


class Trace:
    """Events of one execution in their order; `spans` once there are no more. `caller` is the span of who asked for it,
    in another program."""

    def __init__(self, execution_id: str, caller: int | None = None) -> None:
        self._root = TraceSpan(span_id=span_id_of(execution_id), parent_id=caller, name="execution", begun=0.0)
        self._root.attributes = {"noetl.execution_id": execution_id}
        self._spans: dict[str, TraceSpan] = {}
        self._left_out = 0

    def spans(self) -> list[TraceSpan]:
        if self._left_out:
            self._root.attributes["noetl.spans_left_out"] = self._left_out
        for span in self._spans.values():
            if span.ended is None:
                span.ended = self._root.ended
        return [self._root, *self._spans.values()]

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            self._add(event)

    def _add(self, event: Event) -> None:
        match event.payload:
            case ExecutionRequested(path=path, parent_execution_id=parent):
                self._root.name, self._root.begun = path, event.ts
                self._root.attributes |= {"noetl.parent_execution_id": parent} if parent else {}
            case PlaybookProcessed(status=status, error=error):
                self._root.ended, self._root.error = event.ts, error.kind if error else None
                self._root.attributes["noetl.status"] = status.value
            case StepScheduled():
                step = event.step or ""
                about: dict[str, str | int] = {"noetl.step": step, "noetl.step_run_id": event.step_run_id or ""}
                self._begin(event.step_run_id, self._root.span_id, step, event.ts, about)
            case StepDone():
                self._end(event.step_run_id, event.ts, None)
            case StepFailed(error=error):
                self._end(event.step_run_id, event.ts, error.kind)
            case TaskStarted(task=task, kind=kind, attempt=attempt, task_run_id=run_id):
                about = {"noetl.task": task, "noetl.kind": kind, "noetl.attempt": attempt}
                self._begin(run_id, span_id_of(event.step_run_id or ""), task, event.ts, about)
            case TaskProcessed(outcome=outcome, task_run_id=run_id):
                self._end(run_id, event.ts, outcome.error.kind if outcome.error else None)

    def _begin(self, key: str | None, parent_id: int, name: str, at: float, about: dict[str, str | int]) -> None:
        if key is None or key in self._spans:
            return  # an attempt after a lost lease goes on with what was begun
        if len(self._spans) >= MOST:
            self._left_out += 1
            return
        span_id = span_id_of(key)
        self._spans[key] = TraceSpan(span_id=span_id, parent_id=parent_id, name=name, begun=at, attributes=about)

    def _end(self, key: str | None, at: float, error: str | None) -> None:
        span = self._spans.get(key or "")
        if span is not None:
            span.ended, span.error = at, error
