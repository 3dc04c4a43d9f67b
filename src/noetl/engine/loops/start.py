"""The beginning of a looped step run: admitted, its collection evaluated in the same breath (LOOP-01, LOOP-12)."""

from __future__ import annotations

from typing import Any

from noetl.base.errors import TemplateError, ToolError
from noetl.engine.decision import Decision, Draft
from noetl.engine.execution import Execution
from noetl.engine.identity import SERVER
from noetl.engine.loops.kept_iterations import without_kept
from noetl.engine.loops.levels import not_opened, open_level
from noetl.engine.loops.scopes import first_scope
from noetl.engine.plan import Plan
from noetl.events.loops import LoopKept
from noetl.events.steps import StepFailed, StepScheduled, StepStarted
from noetl.events.tokens import TokenClaimed
from noetl.net.net import Transition


def begin_loop(
    plan: Plan,
    execution: Execution,
    draft: Draft,
    step: Transition,
    scheduled: StepScheduled,
    *,
    names: dict[str, Any],
    about: dict[str, Any],
    at: float,
) -> Decision:
    """Open the outermost level, or fail the step run. What no worker will see, the server claims itself."""
    draft.add(scheduled, **about)
    try:
        opened = open_level(plan, step, (), first_scope(plan, execution, {**names, "args": scheduled.args}), at)
        kept = execution.outputs.kept_iterations
        if kept is not None and kept.step != step.name:
            kept = None
        opened = opened if kept is None else without_kept(plan, opened, kept)
    except (TemplateError, ToolError) as problem:
        _claim(draft, scheduled, about)
        draft.add(StepFailed(error=not_opened(problem, step)), on_behalf=True, **about)
        return draft.decision()
    if opened.total == 0:
        _claim(draft, scheduled, about)
    draft.add(opened, **about)
    if kept is not None:
        draft.add(LoopKept(indices=kept.indices, results=kept.results), **about)
    return draft.decision()


def _claim(draft: Draft, scheduled: StepScheduled, about: dict[str, Any]) -> None:
    draft.add(TokenClaimed(token_id=scheduled.token_id, worker_id=SERVER), **about)
    draft.add(StepStarted(worker_id=SERVER), **about)
