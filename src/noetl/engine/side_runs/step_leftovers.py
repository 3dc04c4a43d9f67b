"""Which steps leave something to be done beside their own end: something to undo, or a task nobody waits for."""

from __future__ import annotations

from noetl.net.net import Transition
from noetl.net.task import Task
from noetl.net.tasks import tasks_of

PLAYBOOK = "playbook"  # the kind whose child may have something to undo


def leaves_side_runs(step: Transition) -> bool:
    return step.compensation is not None or any(task.kind == PLAYBOOK or _is_async(task) for task in tasks_of(step))


def _is_async(task: Task) -> bool:
    return isinstance(task.spec.data, dict) and bool(task.spec.data.get("async"))
