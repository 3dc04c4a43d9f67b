"""Decisions: the events a command leads to, and the effects that the control plane performs once they are stored."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.errors import TemplateError
from noetl.engine.execution import Execution, StepRun
from noetl.engine.pipeline.patches import patched
from noetl.engine.waits.state import OpenHumanTask
from noetl.events.envelope import Event
from noetl.events.events import Payload
from noetl.events.executions import Final
from noetl.events.orders import ReportResult
from noetl.events.payloads import EventSource
from noetl.events.steps import CtxPatched


class DispatchStep(msgspec.Struct, frozen=True, gc=False):
    """An order is ready for a worker of its `pool` (None: the default one); those of a higher `priority` are claimed
    first (SRV-08, ADV-03)."""

    order_id: str
    step_run_id: str
    priority: int = 0
    pool: str | None = None


class LeaseOrder(msgspec.Struct, frozen=True, gc=False):
    """A worker holds the order now, fenced by `lease_epoch`."""

    order_id: str
    step_run_id: str
    worker_id: str
    lease_epoch: int
    priority: int = 0
    pool: str | None = None


class CloseOrder(msgspec.Struct, frozen=True, gc=False):
    """The order was withdrawn: no worker needs to run it."""

    order_id: str
    step_run_id: str
    lease_epoch: int


class OpenWait(msgspec.Struct, frozen=True, kw_only=True):
    """A message or a signal from outside may end this wait from now on. `kind`: message | signal."""

    wait_id: str
    step_run_id: str
    kind: str
    name: str
    correlation: dict[str, Any] = {}
    opened_at: float


class CloseWait(msgspec.Struct, frozen=True):
    """A wait that was opened is over."""

    wait_id: str


class ChangeTask(msgspec.Struct, frozen=True):
    """The work list shows this state of the task from now on."""

    task: OpenHumanTask


class EndExecution(msgspec.Struct, frozen=True):
    """The execution is over."""

    status: Final


class PauseChildren(msgspec.Struct, frozen=True, kw_only=True):
    """Pause the open children of this execution."""

    reason: str


class ResumeChildren(msgspec.Struct, frozen=True, kw_only=True):
    """Resume the open children of this execution."""

    reason: str


class CancelChildren(msgspec.Struct, frozen=True, kw_only=True):
    """Cancel the open children of this execution. With `compensate` they undo what they did, and a child that is
    already compensating continues."""

    reason: str
    compensate: bool = False


class CancelCalled(msgspec.Struct, frozen=True, kw_only=True):
    """Cancel the children that this step run has called and waited for."""

    step_run_id: str
    reason: str


ChildEffect = PauseChildren | ResumeChildren | CancelChildren | CancelCalled
Effect = DispatchStep | LeaseOrder | CloseOrder | OpenWait | CloseWait | ChangeTask | EndExecution | ChildEffect


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why one field of a request is refused (HUM-03)."""

    field: str
    found: str
    allowed: str


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of a command. A decision without events changes nothing."""

    events: tuple[Event, ...] = ()
    # Performed after the events are stored and never before: a worker must not start an order that may be rolled back.
    effects: tuple[Effect, ...] = ()
    # The answer to a report, a claim or a request from outside; `detail` and `problems` give the reason of a refusal.
    verdict: ReportResult = ReportResult.ACCEPTED
    # Paths of iterations, or of the level around them, that the server has ended although their worker still runs them.
    stopped: tuple[tuple[int, ...], ...] = ()
    detail: str | None = None
    problems: tuple[Refusal, ...] = ()


# One shared value: most checks of a state decide nothing, and need no object of their own.
NO_CHANGE = Decision()


class Draft:
    """The events of one decision while it is made. `cause` is their parent unless another one is passed.

    The id of an event follows from its position in the log. A decision that is repeated on the same state has the same
    ids, and the store keeps only one of the two (O-05, docs/decisions/0018)."""

    def __init__(self, execution: Execution, at: float, cause: str | None) -> None:
        self._execution, self._seq = execution, execution.log.seq
        self.at = at
        self._cause = cause
        self.events: list[Event] = []
        self.effects: list[Effect] = []

    def add(
        self,
        payload: Payload,
        *,
        run: StepRun | None = None,
        event_id: str | None = None,
        ts: float | None = None,
        source: EventSource = EventSource.SERVER,
        parent_id: str | None = None,
        step: str | None = None,
        step_run_id: str | None = None,
        task_run_id: str | None = None,
        on_behalf: bool = False,
    ) -> Event:
        """Add one event. Pass `event_id` where other events refer to it by a derived id, such as a registration."""
        execution = self._execution
        self._seq = seq = self._seq + 1
        if run is not None:
            step, step_run_id = step or run.step, step_run_id or run.step_run_id
        event = Event(
            execution_id=execution.execution_id,
            trace_id=execution.trace_id,
            seq=seq,
            # The same as `positional` in base/ids.py, inlined: a call for every event is measurable.
            event_id=f"{execution.execution_id}/{seq}" if event_id is None else event_id,
            ts=self.at if ts is None else ts,
            source=source,
            payload=payload,
            parent_id=parent_id or self._cause,
            step=step,
            step_run_id=step_run_id,
            task_run_id=task_run_id,
            on_behalf=on_behalf,
        )
        self.events.append(event)
        return event

    def report(self, payload: Payload, run: StepRun, *, at: float, parent_id: str, task_run_id: str | None) -> Event:
        """Add one event that a worker reported. A faster `add` for ranges, whose reports hold thousands of entries."""
        execution = self._execution
        self._seq = seq = self._seq + 1
        event = Event(
            execution_id=execution.execution_id,
            trace_id=execution.trace_id,
            seq=seq,
            event_id=f"{execution.execution_id}/{seq}",
            ts=at,
            source=EventSource.WORKER,
            payload=payload,
            parent_id=parent_id,
            step=run.step,
            step_run_id=run.step_run_id,
            task_run_id=task_run_id,
        )
        self.events.append(event)
        return event

    def add_effect(self, effect: Effect) -> None:
        self.effects.append(effect)

    def decision(self) -> Decision:
        return Decision(events=tuple(self.events), effects=tuple(self.effects))


# A patch of `ctx` is one event that holds only the written keys (SCOPE-03, SCOPE-07).
def patch_ctx(
    draft: Draft, execution: Execution, run: StepRun, patch: Any, *, parent_id: str | None = None
) -> dict[str, Any]:
    """Record `patch` and return the new `ctx`."""
    if not isinstance(patch, dict):
        raise TemplateError(f"set_ctx must be a mapping, this gave {type(patch).__name__}")
    if not patch:
        return execution.variables.ctx
    draft.add(CtxPatched(patch=patch, previous=execution.variables.writers_of(patch)), run=run, parent_id=parent_id)
    return patched(execution.variables.ctx, patch)
