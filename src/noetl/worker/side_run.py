"""One side run on one worker: a pipeline like any other, that ends when its tasks have."""

from __future__ import annotations

from noetl.engine.pipeline.case.names import input_names
from noetl.engine.pipeline.pipeline_scope import PipelineScope
from noetl.events.orders import SideRunOrder
from noetl.events.position import Position
from noetl.worker.order_context import OrderContext
from noetl.worker.pipeline_run import PipelineRun


class SideRunPipeline(PipelineRun):
    """`once`: that a task has begun is recorded before it begins, so that nobody begins it again (SAGA-03)."""

    def __init__(
        self, place: OrderContext, around: PipelineScope, side_run: SideRunOrder, *, interrupted: bool
    ) -> None:
        super().__init__(place, around, interrupted=interrupted)
        self.once, self.calls_as = side_run.once, side_run.task_run_id

    def _named(self, around: PipelineScope, position: Position) -> PipelineScope:
        return around if position.case is None else input_names(self._place.step, around, position)
