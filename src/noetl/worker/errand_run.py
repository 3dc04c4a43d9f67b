"""One errand on one worker: a pipeline like any other, that ends when its tasks have."""

from __future__ import annotations

from noetl.pipeline.case.names import input_names
from noetl.pipeline.surroundings import Surroundings
from noetl.records.orders import Errand
from noetl.records.position import Position
from noetl.worker.pipeline_run import PipelineRun
from noetl.worker.workplace import Workplace


class ErrandRun(PipelineRun):
    """`once`: that a task has begun is recorded before it begins, so that nobody begins it again (SAGA-03)."""

    def __init__(self, place: Workplace, around: Surroundings, errand: Errand, *, interrupted: bool) -> None:
        super().__init__(place, around, interrupted=interrupted)
        self.once, self.calls_as = errand.once, errand.task_run_id

    def _named(self, around: Surroundings, position: Position) -> Surroundings:
        return around if position.case is None else input_names(self._place.step, around, position)
