"""Hooks: tasks before a task's tool, after its directive is chosen, and whenever the task is left (POL-13, O-31).

They change nothing: no scope, no directive. Their results are read by name in the same task run only, and what goes
wrong in one is told as `hook.failed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from noetl.base.ids import derived
from noetl.engine.pipeline.scopes import outcome_of
from noetl.events.outcomes import Outcome
from noetl.events.tasks import HookFailed, TaskProcessed
from noetl.net.task import Directive, Task

if TYPE_CHECKING:
    from noetl.worker.pipeline_run import PipelineRun
    from noetl.worker.task_context import TaskContext


def has_hooks(task: Task) -> bool:
    policy = task.policy
    return policy is not None and bool(policy.before or policy.after or policy.finally_)


async def with_hooks(pipeline: PipelineRun, run: TaskContext) -> TaskProcessed:
    """Run the task among its hooks. A retry does not leave the task, so `finally` waits for what comes of it."""
    policy = run.task.policy
    assert policy is not None
    hooks = _Hooks(pipeline, run)
    processed: TaskProcessed | None = None
    try:
        await hooks.each("before", policy.before)
        processed = await pipeline.judged(run.at(hooks.position))
        hooks.outcome = processed.outcome
        await hooks.each("after", policy.after)
        return processed
    finally:
        # None: the task was cancelled or its time was over. `finally` runs then, too.
        if processed is None or processed.decision.do != Directive.RETRY:
            await hooks.each("finally", policy.finally_)


class _Hooks:
    """The hooks of one task run. `position` has their results; it is nobody else's."""

    def __init__(self, pipeline: PipelineRun, run: TaskContext) -> None:
        self._pipeline, self._run = pipeline, run
        self.position = run.position
        self.outcome: Outcome | None = None

    async def each(self, phase: str, hooks: tuple[Task, ...]) -> None:
        for index, hook in enumerate(hooks):
            names = {} if self.outcome is None else {"outcome": outcome_of(self.outcome, self._pipeline.around.load)}
            beside = self._pipeline.for_hook(names)
            own_id = derived(self._run.run_id, phase, index)
            _, _, outcome = await beside.outcome(beside.task_run(hook, self.position, own_id))
            results = {**self.position.results, hook.name: outcome.as_result()}
            self.position = msgspec.structs.replace(self.position, results=results)
            if outcome.error is not None:
                self._run.remark(HookFailed, hook=hook.name, phase=phase, error=outcome.error)
