"""The end of a level, of a loop, and of a failing loop: writes of iterations are applied first (LOOP-09, LOOP-10)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from noetl.base.errors import TemplateError, ToolError
from noetl.engine.decision import CloseOrder, Decision, Draft
from noetl.engine.execution import Execution, StepRun
from noetl.engine.loops.evolution import collected_value
from noetl.engine.loops.levels import judging_scope, level_at, levels_of
from noetl.engine.loops.reducers import fold_all, merged_writes
from noetl.engine.loops.state import Frame
from noetl.engine.pipeline.patches import patched
from noetl.engine.pipeline.payloads import refuse_above_cap
from noetl.engine.pipeline.result_schemas import asks_for_storing
from noetl.engine.pipeline.scopes import Load
from noetl.engine.plan import Plan
from noetl.events.loops import IterationDone, LoopCut, LoopDone, Path
from noetl.events.outcomes import Error, TaskResult
from noetl.events.steps import CtxPatched, StepFailed
from noetl.templates.render import holds

_KEYS = 500  # of one patch event; a loop may write many


def end_level(plan: Plan, execution: Execution, run: StepRun, frame: Frame, at: float) -> Decision:
    """An outer iteration ends with the loop inside it; if that was the parallel region, its writes become seen."""
    draft = Draft(execution, at, frame.event_id)
    writes = _patch_region(draft, execution, run, frame) if frame.region == frame.path else {}
    draft.add(IterationDone(index=frame.path[-1], path=frame.path), run=run, on_behalf=True, parent_id=frame.event_id)
    assert run.loop is not None
    around = run.loop.frames[frame.path[:-1]]
    ended = EndedIteration(frame.path, frame.results, done=around.done + 1, failed=around.failed, writes=writes)
    cut_if_complete(plan, draft, execution, run, around, ended, at)
    return draft.decision()


def end_loop(plan: Plan, execution: Execution, run: StepRun, frame: Frame, at: float) -> Decision:
    """`loop.done`, recorded once, after everything the iterations wrote."""
    assert run.loop is not None
    draft = Draft(execution, at, frame.event_id)
    about: dict[str, Any] = {"run": run, "parent_id": frame.event_id}
    try:
        _settle(draft, execution, run)
        done = _loop_done(plan, run, frame)
    except ToolError as problem:  # contributions that do not fit, a result that cannot be read
        draft = Draft(execution, at, frame.event_id)
        error = Error(kind=problem.kind, message=f'loop of step "{run.step}": {problem.message}')
        draft.add(StepFailed(error=error), on_behalf=True, **about)
        return draft.decision()
    draft.add(done, **about)
    return draft.decision()


def fail_loop(execution: Execution, run: StepRun, error: Error, at: float) -> Decision:
    """The step fails with the error of the iteration that failed first; open iterations are withdrawn."""
    loop = run.loop
    assert loop is not None
    root = loop.frames[()]
    draft = Draft(execution, at, root.event_id)
    with suppress(ToolError):  # the step fails as it is, with the error that came first
        _settle(draft, execution, run)
    draft.add(StepFailed(error=error), run=run, on_behalf=True, parent_id=root.event_id)
    for span in loop.ranges.values():
        draft.add_effect(CloseOrder(span.order_id, run.step_run_id, span.lease_epoch))
    return draft.decision()


def _loop_done(plan: Plan, run: StepRun, frame: Frame) -> LoopDone:
    assert run.loop is not None
    levels = len(levels_of(plan.step(run.step)))
    results = loop_results(frame, levels, plan.load)
    paths = result_paths(frame, levels) if levels > 1 else None
    inline = plan.fits(results) and not asks_for_storing(plan.step(run.step).result)
    paths_inline = paths is not None and plan.fits(paths)
    if not inline:
        refuse_above_cap(len(msgspec.json.encode(results)))
    return LoopDone(
        total=len(results),
        done=run.loop.done,
        failed=run.loop.failed,
        results=results if inline else None,
        ref=None if inline else plan.keep(results),
        paths=paths if paths_inline else None,
        paths_ref=plan.keep(paths) if paths is not None and not paths_inline else None,
    )


def _settle(draft: Draft, execution: Execution, run: StepRun) -> None:
    """Everything that waits for the end: writes of open regions, then contributions on top of them (LOOP-14)."""
    loop, ctx = run.loop, execution.variables.ctx
    assert loop is not None
    for path in sorted(loop.regions):
        ctx = patched(ctx, _patch_region(draft, execution, run, loop.frames[path]))
    in_order = {
        key: [write.value for write in sorted(writes, key=lambda write: write.path)]
        for key, writes in loop.contributions.items()
    }
    _patch(draft, execution, run, fold_all(ctx, loop.reducers, in_order), loop.frames[()].event_id)


def _patch_region(draft: Draft, execution: Execution, run: StepRun, frame: Frame) -> dict[str, Any]:
    assert run.loop is not None
    patch = merged_writes(run.loop.regions[frame.path].writes)
    _patch(draft, execution, run, patch, frame.event_id)
    return patch


def _patch(draft: Draft, execution: Execution, run: StepRun, patch: dict[str, Any], parent_id: str) -> None:
    for part in _parts(patch):
        draft.add(CtxPatched(patch=part, previous=execution.variables.writers_of(part)), run=run, parent_id=parent_id)


def _parts(patch: dict[str, Any]) -> Iterator[dict[str, Any]]:
    keys = list(patch)
    for start in range(0, len(keys), _KEYS):
        yield {key: patch[key] for key in keys[start : start + _KEYS]}


# The result of a loop: the payloads of its innermost iterations in path order (LOOP-13, O-37).


def loop_results(frame: Frame, levels: int, load: Load) -> list[Any]:
    """The results of a loop, null for a failed iteration. Stored values are loaded, up to a limit. ToolError
    `result.too_large`."""
    values = frame.results if levels == 1 else [value for _, value in _leaf_results(frame.results, levels, ())]
    results, loaded_bytes = [], 0
    for value in values:
        loaded = _loaded(value, load)
        if loaded is not value:
            loaded_bytes += len(msgspec.json.encode(loaded))
            refuse_above_cap(loaded_bytes)
        results.append(loaded)
    return results


def result_paths(frame: Frame, levels: int) -> list[list[int]]:
    return [list(path) for path, _ in _leaf_results(frame.results, levels, ())]


def _leaf_results(results: list[Any], levels: int, path: Path) -> Iterator[tuple[Path, Any]]:
    """An outer iteration that could not open its inner loop is a leaf itself, and failed."""
    for index, value in enumerate(results):
        if levels > 1 and isinstance(value, list):
            yield from _leaf_results(value, levels - 1, (*path, index))
        else:
            yield (*path, index), value


def _loaded(value: Any, load: Load) -> Any:
    if isinstance(value, TaskResult):
        assert value.ref is not None
        loaded = load(value.ref)
        return collected_value(TaskResult(result=loaded, wrapped=value.wrapped))
    return value


# Early completion: after each end of an iteration, whether the level has what it wanted (beyond.md §1).
# `complete_when` reads the iteration that ended as `iter`, with its `result` and how many of the level are `done`,
# `failed` and in `total`; and `ctx` with what the loop has written so far.
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
        if not holds(guard, _guard_scope(plan, execution, run, frame, ended), now=at):
            return False
    except (TemplateError, ToolError) as problem:
        error = Error(kind=problem.kind, message=f'complete_when of step "{run.step}": {problem}')
    draft.add(LoopCut(path=frame.path, error=error), run=run, parent_id=frame.event_id)
    assert run.loop is not None
    for span in run.loop.ranges.values():
        if span.path[: len(frame.path)] == frame.path:
            draft.add_effect(CloseOrder(span.order_id, run.step_run_id, span.lease_epoch))
    return True


def _guard_scope(plan: Plan, execution: Execution, run: StepRun, frame: Frame, ended: EndedIteration) -> Any:
    assert run.loop is not None
    region = run.loop.region_of(frame)
    ctx = execution.variables.ctx if region is None else patched(execution.variables.ctx, merged_writes(region.writes))
    counts = {"result": ended.result, "done": ended.done, "failed": ended.failed, "total": frame.total}
    return judging_scope(plan, execution, run, ended.path, patched(ctx, ended.writes), counts)
