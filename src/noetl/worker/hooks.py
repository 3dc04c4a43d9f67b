"""Hooks: tasks before a task's tool, after its directive is chosen, and whenever the task is left (POL-13, O-31).

They change nothing: no scope, no directive. Their results are read by name in the same task run only, and what goes
wrong in one is told as `hook.failed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from noetl.ids import derived
from noetl.net.task import Directive, Task
from noetl.pipeline.scopes import outcome_of
from noetl.records.outcomes import Outcome
from noetl.records.position import Position
from noetl.records.remarks import HookFailed
from noetl.records.tasks import TaskProcessed

if TYPE_CHECKING:
    from noetl.worker.pipeline_run import PipelineRun


def has_hooks(task: Task) -> bool:
    policy = task.policy
    return policy is not None and bool(policy.before or policy.after or policy.finally_)


async def with_hooks(
    run: PipelineRun, task: Task, following: str | None, position: Position, run_id: str
) -> TaskProcessed:
    """Run the task among its hooks. A retry does not leave the task, so `finally` waits for what comes of it."""
    assert task.policy is not None
    hooks = _Hooks(run, task, position, run_id)
    processed: TaskProcessed | None = None
    try:
        await hooks.each("before", task.policy.before)
        processed = await run.judged(task, following, hooks.position, run_id)
        hooks.outcome = processed.outcome
        await hooks.each("after", task.policy.after)
        return processed
    finally:
        if processed is None or processed.decision.do != Directive.RETRY:
            await hooks.each("finally", task.policy.finally_)


class _Hooks:
    """The hooks of one task run. `position` has their results; it is nobody else's."""

    def __init__(self, run: PipelineRun, task: Task, position: Position, run_id: str) -> None:
        self._run, self._task, self._run_id, self._own = run, task, run_id, position
        self.position = position
        self.outcome: Outcome | None = None

    async def each(self, phase: str, hooks: tuple[Task, ...]) -> None:
        for index, hook in enumerate(hooks):
            names = {} if self.outcome is None else {"outcome": outcome_of(self.outcome, self._run.around.load)}
            _, _, outcome = await self._run.beside(names).outcome(
                hook, self.position, derived(self._run_id, phase, index)
            )
            results = {**self.position.results, hook.name: outcome.as_result()}
            self.position = msgspec.structs.replace(self.position, results=results)
            if outcome.error is not None:
                told = {"hook": hook.name, "phase": phase, "error": outcome.error}
                self._run.remark(self._task, self._own, self._run_id, HookFailed, **told)
