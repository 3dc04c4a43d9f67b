"""Consequences of an iteration beside its own events: how it is undone, tasks it did not wait for (SAGA-04, TOOL-12).

A report may hold all of an iteration at once, so where it stood at each entry is followed here.
"""

from __future__ import annotations

from typing import Any

from noetl.engine.async_tasks import defer
from noetl.engine.compensation import register_iteration
from noetl.engine.decision import Draft
from noetl.engine.execution import Execution, StepRun
from noetl.engine.loops.orders import ctx_for
from noetl.engine.loops.scopes import outer_of
from noetl.engine.loops.state import Begun, Range
from noetl.engine.pipeline.patches import put_last, written
from noetl.engine.pipeline.progress import after
from noetl.engine.plan import Plan
from noetl.engine.side_runs.evolution import child_of
from noetl.events.loops import IterationDone, Path
from noetl.events.position import Position
from noetl.events.tasks import TaskProcessed


class Consequences:
    def __init__(self, plan: Plan, draft: Draft, execution: Execution, run: StepRun, span: Range) -> None:
        self._plan, self._draft, self._execution, self._run, self._span = plan, draft, execution, run, span
        self._step = plan.step(run.step)
        self._stands: dict[Path, Position] = {}
        self._children: dict[Path, tuple[str, ...]] = {}
        self._writes: dict[Path, dict[str, Any]] = {}

    def processed(self, entry: TaskProcessed, event_id: str, at: float) -> None:
        path, position = entry.path, self._position(entry.path)
        if entry.deferred:
            ctx, outer = self._ctx(path), outer_of(self._plan, self._run, self._step, path)
            defer(self._draft, self._run, self._step, entry, position, event_id=event_id, outer=outer, ctx=ctx)
        self._stands[path] = after(position, entry, at)
        writes = self._writes[path] = dict(self._written(path))
        for key, value in entry.decision.set_ctx.items():
            put_last(writes, key, value)
        if child := child_of(entry):
            self._children[path] = (*self._children.get(path, ()), child)

    def ended(self, entry: IterationDone) -> None:
        path, step = entry.path, self._step
        begun = self._begun(path)
        children = (*(begun.children if begun is not None else ()), *self._children.get(path, ()))
        if step.compensation is None and not children:
            return
        outer = outer_of(self._plan, self._run, step, path)
        position = self._position(path)
        register_iteration(
            self._draft,
            self._execution,
            self._run,
            step,
            outer,
            entry.result,
            position.iter,
            children,
            self._ctx(path),
        )

    def _begun(self, path: Path) -> Begun | None:
        return self._run.loop.begun.get(path) if self._run.loop is not None else None

    def _position(self, path: Path) -> Position:
        if path in self._stands:
            return self._stands[path]
        begun = self._begun(path)
        return begun.stands() if begun is not None else self._run.position

    def _ctx(self, path: Path) -> dict[str, Any]:
        """`ctx` as the iteration sees it."""
        return written(ctx_for(self._execution, self._run, self._span), self._written(path))

    def _written(self, path: Path) -> dict[str, Any]:
        begun = self._begun(path)
        return self._writes.get(path) or (begun.writes if begun is not None else {})
