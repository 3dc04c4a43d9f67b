"""What this engine cannot run yet, told before anything begins.

A playbook may be valid and proven and still use a part of the language that this version only checks. Then it is
refused at the door with the whole list, and nothing is recorded as accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from noetl.engine.loops.levels import levels_of
from noetl.net.net import Net, Transition
from noetl.net.tasks import tasks_of


def not_runnable(net: Net, runs_kind: Callable[[str], bool]) -> list[str]:
    """Everything in `net` that cannot be run yet, each with its place, in document order."""
    return [f"{what} (step {step.name})" for step in net.transitions for what in _of_step(step, runs_kind)]


def _of_step(step: Transition, runs_kind: Callable[[str], bool]) -> Iterator[str]:
    if any(level.extend and level.partition for level in levels_of(step)):
        yield "loop.spec.extend with partitioning"
    for task in tasks_of(step):
        if not runs_kind(task.kind):
            yield f"tool kind {task.kind} of task {task.name}"
