"""Spans of an execution, told from its log: one for the whole, one for each step run, one for each task run.

Ids follow from those of the log, so that telling a trace twice tells the same one. Nothing of any payload is in them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from noetl.events.envelope import Event
from noetl.events.projection.projection import SIDE_RUN_EVENTS, STEP_EVENTS, TASK_EVENTS, Projection
from noetl.events.projection.views import StepRunView, TaskRunView
from noetl.events.steps import StepScheduled
from noetl.events.tasks import TaskStarted
from noetl.events.traces import span_id_of

TOLD = ("playbook.execution_requested", "playbook.processed", *STEP_EVENTS, *TASK_EVENTS, *SIDE_RUN_EVENTS)
MOST = 2_000  # of one execution: a loop of many items would drown whoever looks


class TraceSpan(msgspec.Struct, frozen=True, kw_only=True):
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
        self._execution_id, self._caller = execution_id, caller
        self._projection = Projection()
        self._views: dict[str, tuple[str, StepRunView | TaskRunView]] = {}  # with the run that each belongs to
        self._left_out = 0

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            view, payload, run_id = self._projection.take(event), event.payload, event.step_run_id
            if view is None or run_id is None:
                continue
            if isinstance(payload, StepScheduled):
                self._keep(run_id, self._execution_id, view)
            elif isinstance(payload, TaskStarted):
                self._keep(payload.task_run_id, run_id, view.pipeline.open[payload.task_run_id])

    def _keep(self, key: str, parent: str, view: StepRunView | TaskRunView) -> None:
        if len(self._views) < MOST:
            self._views.setdefault(key, (parent, view))
        elif key not in self._views:
            self._left_out += 1

    def spans(self) -> list[TraceSpan]:
        root = self._root()
        return [root, *(_span(key, parent, view, root.ended) for key, (parent, view) in self._views.items())]

    def _root(self) -> TraceSpan:
        told = self._projection
        about: dict[str, str | int] = {"noetl.execution_id": self._execution_id}
        if told.parent_execution_id:
            about["noetl.parent_execution_id"] = told.parent_execution_id
        if told.finished_at is not None:
            about["noetl.status"] = told.status
        if self._left_out:
            about["noetl.spans_left_out"] = self._left_out
        return TraceSpan(
            span_id=span_id_of(self._execution_id),
            parent_id=self._caller,
            name=told.path or "execution",
            begun=told.started_at or 0.0,
            ended=told.finished_at,
            error=told.error.kind if told.error is not None else None,
            attributes=about,
        )


def _span(key: str, parent: str, view: StepRunView | TaskRunView, end: float | None) -> TraceSpan:
    about: dict[str, str | int]
    if isinstance(view, StepRunView):
        name, begun, ended = view.step, view.scheduled_at, view.finished_at
        about = {"noetl.step": name, "noetl.step_run_id": key}
    else:
        name, begun, ended = view.task, view.started_at, view.reported_at
        about = {"noetl.task": name, "noetl.kind": view.kind, "noetl.attempt": view.attempt}
    return TraceSpan(
        span_id=span_id_of(key),
        parent_id=span_id_of(parent),
        name=name,
        begun=begun,
        ended=end if ended is None else ended,
        error=view.error.kind if view.error is not None else None,
        attributes=about,
    )
