"""Coverage: what this engine cannot run yet, told before anything begins.

A playbook may be valid and proven and still use a part of the language that this version only checks. Then it is
refused at the door with the whole list, and nothing is recorded as accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from noetl.engine.loops.opening import levels_of
from noetl.net.case import Action
from noetl.net.net import Net, Transition
from noetl.net.routing import Arc
from noetl.net.task import Task
from noetl.net.tasks import tasks_of
from noetl.pipeline.case.rules import waits_for_outside


def not_runnable(net: Net, runs_kind: Callable[[str], bool]) -> list[str]:
    """Everything in `net` that cannot be run yet, each with its place, in document order."""
    found = [*_of_playbook(net)]
    for step in net.transitions:
        found += [f"{what} (step {step.name})" for what in _of_step(step, runs_kind)]
    return found


def _of_playbook(net: Net) -> Iterator[str]:
    if net.executor.concurrency:
        yield "concurrency (executor)"


def _of_step(step: Transition, runs_kind: Callable[[str], bool]) -> Iterator[str]:
    parts = {
        "loop.spec.extend with partitioning": any(level.extend and level.partition for level in levels_of(step)),
        "timer": step.timer,
        "message": step.message,
        "signal": step.signal,
        "human_task": step.human_task,
        "timeout": step.timeout,
        "compensation": step.compensation,
        "on_event handlers": step.handlers,
        "eval_mode: on_event": step.case and step.case.on_event and waits_for_outside(step.case),
        "rate": step.rate,
    }
    yield from (name for name, part in parts.items() if part)
    for task in tasks_of(step):
        yield from (f"{what} of task {task.name}" for what in _of_task(task, runs_kind))
    for rule in step.case.rules if step.case else ():
        yield from _of_actions(rule.actions)
    for arc in step.router.arcs if step.router else ():
        yield from (f"{what} of the arc to {arc.target or 'a computed step'}" for what in _of_arc(arc))


def _of_actions(actions: tuple[Action, ...]) -> Iterator[str]:
    for action in actions:
        if action.delay is not None:
            yield "delay of a transition"
        if action.trigger_compensation:
            yield "trigger_compensation of a transition"


def _of_task(task: Task, runs_kind: Callable[[str], bool]) -> Iterator[str]:
    if not runs_kind(task.kind):
        yield f"tool kind {task.kind}"
    if task.policy is None:
        return
    if task.policy.before or task.policy.after or task.policy.finally_:
        yield "hooks"


def _of_arc(arc: Arc) -> Iterator[str]:
    parts = {
        "delay": arc.delay,
        "trigger_compensation": arc.trigger_compensation,
    }
    yield from (name for name, part in parts.items() if part)
