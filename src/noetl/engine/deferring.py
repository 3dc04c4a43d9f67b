"""Deferring: a task with `spec.async` was accepted by its pipeline and runs beside it, as an errand (TOOL-12)."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.engine.decision import DispatchStep, Draft
from noetl.engine.execution import StepRun
from noetl.engine.identity import order_id_of
from noetl.ids import derived
from noetl.net.net import Transition
from noetl.records.compensation import Surrounding
from noetl.records.errands import AsyncStarted
from noetl.records.orders import Outer
from noetl.records.position import Position
from noetl.records.tasks import TaskProcessed


def defer(
    draft: Draft,
    run: StepRun,
    step: Transition,
    entry: TaskProcessed,
    position: Position,
    *,
    event_id: str,
    outer: tuple[Outer, ...] = (),
    ctx: dict[str, Any] | None = None,
) -> None:
    """Begin what `entry` accepted, from where its pipeline stood. An iteration's `ctx` is its own, so it is kept."""
    run_id = derived("async", entry.task_run_id)
    order_id = order_id_of(run_id)
    started = AsyncStarted(
        owner=run.step_run_id,
        task=entry.task,
        task_run_id=entry.task_run_id,
        order_id=order_id,
        position=msgspec.structs.replace(
            position, task=entry.task, visit=1, attempt=1, runs=0, not_before=0.0, pages=()
        ),
        ctx=ctx or {},
        path=entry.path,
        around=tuple(Surrounding(iterator=one.iterator, index=one.index, item=one.item) for one in outer),
        tolerated=step.best_effort,
    )
    draft.add(
        started,
        step=run.step,
        step_run_id=run_id,
        task_run_id=entry.task_run_id,
        event_id=run_id,
        parent_id=event_id,
        on_behalf=True,
    )
    draft.owe(DispatchStep(order_id, run_id, pool=run.pool))
