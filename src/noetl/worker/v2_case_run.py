"""One case run: a step run of v2-case, or one iteration of it, on one worker (O-29, V2C-10, V2C-24).

Tools, delays and reports are those of any pipeline. A walk decides what follows each task; which step follows is only
reported.
"""

from __future__ import annotations

from typing import Any

from noetl.engine.pipeline.policy import PolicyRun
from noetl.engine.pipeline.progress import position_after_entry
from noetl.engine.pipeline.scopes import PipelineScope
from noetl.engine.v2_case.names import input_names, next_task, step_result
from noetl.engine.v2_case.parts import CALL
from noetl.engine.v2_case.position import CaseSite
from noetl.engine.v2_case.walk import CaseWalk, decided
from noetl.events.orders import Position
from noetl.events.steps import CaseStarted, CaseWaiting, StepDone, StepFailed
from noetl.events.tasks import Decided
from noetl.events.v2_case_positions import Phase
from noetl.net.task import Task
from noetl.worker.order_context import OrderContext
from noetl.worker.pipeline_run import Ended, PipelineRun


def run_of(context: OrderContext, around: PipelineScope, *, interrupted: bool) -> PipelineRun:
    """The pipeline of a step run or of an iteration of this step."""
    kind = CaseRun if context.facts.has_rules else PipelineRun
    return kind(context, around, interrupted=interrupted)


class CaseRun(PipelineRun):
    async def to_end(self, position: Position) -> Ended:
        if position.case is None:
            position = self._entry_position(position)
            if position.case is not None and position.case.listens:
                await self._context.flush()  # from here on the server stores events of other steps for it (V2C-13)
        return await super().to_end(position)

    def _entry_position(self, position: Position) -> Position:
        walk = CaseWalk(self._site(self._context.clock.now()), position)
        walk.enter()
        decision = decided(walk)
        self._context.journal.add(self._context.writer.masked(CaseStarted(decision=decision, path=self._path)))
        self._write(decision)
        return position_after_entry(position, decision)

    def _site(self, now: float, spread: float = 0.0) -> CaseSite:
        return CaseSite(
            step=self._context.step,
            steps=self._context.steps,
            around=self.around,
            now=now,
            spread=spread,
            looped=self.around.iteration is not None,
        )

    def _task(self, position: Position) -> tuple[Task, str | None]:
        return next_task(self._context.step, position), None

    def _scope_with_names(self, around: PipelineScope, position: Position) -> PipelineScope:
        return input_names(self._context.step, around, position)

    def _input_overrides(self, position: Position) -> dict[str, Any] | None:
        case = position.case
        return case.calls.over if case is not None and case.at == CALL else None

    def _judge(self, run: PolicyRun) -> Decided:
        walk = CaseWalk(self._site(run.now, int(run.task_run_id[:8], 16) / 0x1_0000_0000), run.position)
        walk.resume(run.outcome)
        again = walk.case.at == CALL and run.position.case is not None and run.position.case.at == CALL
        return decided(walk, again=again)

    def _end(self, position: Position) -> Ended:
        assert position.case is not None
        if position.case.phase is Phase.LISTEN:
            return CaseWaiting()
        error, looped = position.case.error, self.around.iteration is not None
        if error is not None:
            handled = looped and bool(position.case.taken)  # a rule handled it, so the loop does not fail
            return StepDone() if handled else StepFailed(error=error)
        return self._context.writer.fitted(StepDone(result=step_result(self._context.step, position, self.around.load)))

    def _ending(self, position: Position, decision: Decided) -> Ended | None:
        return self._end(position) if position.task is None else None
