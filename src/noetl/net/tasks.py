"""Every task of a transition, wherever it stands: its pipeline, sinks, case rules, hooks, compensation, handlers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from noetl.net.net import Transition
from noetl.net.task import Task


def tasks_of(step: Transition) -> Iterator[Task]:
    """In document order, hooks after the task they belong to."""
    return with_hooks((*_own(step), *_side_tasks(step)))


def pipeline_of(step: Transition) -> Iterator[Task]:
    """Those that an order of the step may run: neither compensation nor handlers, which are run by orders of their
    own."""
    return with_hooks(_own(step))


def with_hooks(tasks: Iterable[Task]) -> Iterator[Task]:
    """Each with the sinks of its retries and its hooks after it."""
    for task in tasks:
        yield task
        yield from (policy.sink for policy in task.repeat if policy.sink is not None)
        if task.policy is not None:
            yield from (*task.policy.before, *task.policy.after, *task.policy.finally_)


def _own(step: Transition) -> Iterator[Task]:
    yield from step.tasks
    if step.sink is not None:
        yield step.sink
    for rule in step.case.rules if step.case else ():
        yield from (action.task for action in rule.actions if action.task is not None)
        yield from (policy.sink for policy in rule.repeat if policy.sink is not None)


def _side_tasks(step: Transition) -> Iterator[Task]:
    if step.compensation is not None:
        yield from step.compensation.tasks
    for handler in step.handlers.handlers if step.handlers else ():
        yield from handler.tasks
