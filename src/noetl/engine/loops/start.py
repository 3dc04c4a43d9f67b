"""The beginning of a looped step run: admitted, its collection evaluated in the same breath (LOOP-01, LOOP-12)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from noetl.base.errors import TemplateError, ToolError
from noetl.engine.decision import Decision, Draft
from noetl.engine.execution import Execution
from noetl.engine.identity import SERVER
from noetl.engine.loops.levels import KIND, not_opened, open_level, value_or_reference
from noetl.engine.loops.scopes import first_scope
from noetl.engine.plan import Plan
from noetl.events.loops import LoopKept, LoopStarted
from noetl.events.rerun_state import KeptIterations
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


# A loop of which some iterations are kept: an earlier run had done them, and only the others run (CLI-04).
def without_kept(plan: Plan, opened: LoopStarted, kept: KeptIterations) -> LoopStarted:
    """The level with lanes of those iterations alone that are to run. ToolError `loop.collection` where the collection
    is another one: the results that are kept are not of its items then."""
    if not _is_same(opened, kept):
        raise ToolError(
            KIND,
            "the collection is not the one that the earlier run had, so its results cannot be kept: "
            "run the whole step again, with --from and without --failed-items",
        )
    lanes = _lanes(plan, opened, frozenset(kept.indices))
    inline, reference = value_or_reference(plan, lanes)
    return msgspec.structs.replace(opened, lanes=inline, lanes_ref=reference, lane_count=len(lanes))


def _is_same(opened: LoopStarted, kept: KeptIterations) -> bool:
    if opened.items_ref is not None and kept.items_ref is not None:
        return opened.items_ref.checksum == kept.items_ref.checksum
    return opened.items is not None and opened.items == kept.items


def _lanes(plan: Plan, opened: LoopStarted, kept: Collection[int]) -> list[list[int]]:
    """Those of equal keys stay together; else one for each where they may run at the same time, and one for all."""
    if opened.lane_count is not None:
        lanes = opened.lanes if opened.lanes is not None else plan.collection(opened.lanes_ref)  # type: ignore[arg-type]
        left = [[index for index in lane if index not in kept] for lane in lanes]
        return [lane for lane in left if lane]
    left_over = [index for index in range(opened.total) if index not in kept]
    return [[index] for index in left_over] if opened.parallel else [left_over]
