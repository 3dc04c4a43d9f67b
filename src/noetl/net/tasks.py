"""Every task of a transition, wherever it stands: its pipeline, sinks, case rules, hooks, compensation, handlers."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.net.net import Transition
from noetl.net.task import Task


def tasks_of(step: Transition) -> Iterator[Task]:
    """In document order, hooks after the task they belong to."""
    for task in _written(step):
        yield task
        yield from (policy.sink for policy in task.repeat if policy.sink is not None)
        if task.policy is not None:
            yield from (*task.policy.before, *task.policy.after, *task.policy.finally_)


def _written(step: Transition) -> Iterator[Task]:
    yield from step.tasks
    if step.sink is not None:
        yield step.sink
    for rule in step.case.rules if step.case else ():
        yield from (action.task for action in rule.actions if action.task is not None)
        yield from (policy.sink for policy in rule.repeat if policy.sink is not None)
    if step.compensation is not None:
        yield from step.compensation.tasks
    for handler in step.handlers.handlers if step.handlers else ():
        yield from handler.tasks
