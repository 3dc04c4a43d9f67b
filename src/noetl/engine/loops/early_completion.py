"""Early completion: after each end of an iteration, whether the level has what it wanted (beyond.md §1).

`complete_when` reads the iteration that ended as `iter`, with its `result` and how many of the level are `done`,
`failed` and in `total`; and `ctx` with what the loop has written so far.
"""

from __future__ import annotations

from typing import Any

from noetl.base.errors import TemplateError, ToolError
from noetl.engine.decision import CloseOrder, Draft
from noetl.engine.execution import Execution, StepRun
from noetl.engine.loops.levels import level_at
from noetl.engine.loops.scopes import judging_scope
from noetl.engine.loops.state import Frame
from noetl.engine.loops.writes import settled
from noetl.engine.pipeline.patches import written
from noetl.engine.plan import Plan
from noetl.events.loops import LoopCut, Path
from noetl.events.outcomes import Error
from noetl.templates.render import holds


class EndedIteration:
    """An iteration that has just ended: the counts include it. `writes` are those of its report, not yet applied."""

    def __init__(self, path: Path, result: Any, *, done: int, failed: int, writes: dict[str, Any]) -> None:
        self.path, self.result, self.done, self.failed, self.writes = path, result, done, failed, writes


def cut_if_complete(
    plan: Plan, draft: Draft, execution: Execution, run: StepRun, frame: Frame, ended: EndedIteration, at: float
) -> bool:
    """Cut the level short where its condition holds; a condition that cannot be judged fails the step (TPL-09)."""
    guard = level_at(plan.step(run.step), frame.path).complete_when
    if guard is None:
        return False
    error = None
    try:
        if not holds(guard, _scope(plan, execution, run, frame, ended), now=at):
            return False
    except (TemplateError, ToolError) as problem:
        error = Error(kind=problem.kind, message=f'complete_when of step "{run.step}": {problem}')
    draft.add(LoopCut(path=frame.path, error=error), run=run, parent_id=frame.event_id)
    assert run.loop is not None
    for span in run.loop.ranges.values():
        if span.path[: len(frame.path)] == frame.path:
            draft.add_effect(CloseOrder(span.order_id, run.step_run_id, span.lease_epoch))
    return True


def _scope(plan: Plan, execution: Execution, run: StepRun, frame: Frame, ended: EndedIteration) -> Any:
    assert run.loop is not None
    region = run.loop.region_of(frame)
    ctx = execution.ctx if region is None else written(execution.ctx, settled(region.writes))
    counts = {"result": ended.result, "done": ended.done, "failed": ended.failed, "total": frame.total}
    return judging_scope(plan, execution, run, ended.path, written(ctx, ended.writes), counts)
