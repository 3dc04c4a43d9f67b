"""A task with `spec.async` was accepted by its pipeline and runs beside it, as a side run (TOOL-12)."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.ids import derived
from noetl.engine.decision import DispatchStep, Draft
from noetl.engine.execution import StepRun
from noetl.engine.identity import order_id_of
from noetl.events.compensation import Surrounding
from noetl.events.orders import Outer
from noetl.events.position import Position
from noetl.events.side_runs import AsyncStarted
from noetl.events.tasks import TaskProcessed
from noetl.net.net import Transition


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
    # From the task run: a report that is repeated names the same side run, and begins no second one.
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
    draft.add_effect(DispatchStep(order_id, run_id, pool=run.lease.pool))
