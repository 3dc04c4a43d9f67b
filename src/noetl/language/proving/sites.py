"""Sites: the places of a step where templates read names, and how far the run has come there."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from noetl.language.proving.reads import references
from noetl.net.debug import arc_address, case_address, part_address, rule_address, step_address, task_address
from noetl.net.net import Loop, Transition
from noetl.net.routing import Arc
from noetl.net.task import Task
from noetl.templates.authored import Authored
from noetl.templates.logic import GuardReference

BEFORE = -1  # before the first task
AFTER = 1_000_000  # when the run has ended


class ReadSite(msgspec.Struct, frozen=True):
    """`position`: of the task that reads, or BEFORE, or AFTER. `own_args`: `args` is the task's, not the token's."""

    step: str
    address: str
    position: int
    reads: tuple[GuardReference, ...]
    own_args: bool = False


def sites(step: Transition) -> Iterator[ReadSite]:
    """Every place of `step` that reads something, in the order a run comes to it."""
    for site in (*_before(step), *_tasks(step), *_after(step)):
        if site.reads:
            yield site


def _before(step: Transition) -> Iterator[ReadSite]:
    name = step.name
    rules = step.admission.rules if step.admission else ()
    admitted = references(*(rule.when for rule in rules), *(rule.set_token for rule in rules))
    yield ReadSite(name, part_address(name, "admission"), BEFORE, admitted)
    yield ReadSite(name, part_address(name, "args"), BEFORE, references(step.args))
    loop: Loop | None = step.loop
    while loop is not None:
        yield ReadSite(name, part_address(name, "loop"), BEFORE, references(loop.items, loop.max_in_flight))
        loop = loop.inner


def _tasks(step: Transition) -> Iterator[ReadSite]:
    for at, task in enumerate(step.tasks):
        yield from task_sites(step.name, task, at)


def task_sites(step: str, task: Task, position: int) -> Iterator[ReadSite]:
    """The inputs of a task and the rules of its policy."""
    own = task.args is not None
    address = task_address(step, task.name)
    if task.args is not None:
        yield ReadSite(step, address, position, references(task.args))
    yield ReadSite(step, address, position, references(task.inputs, task.spec), own)
    for index, rule in enumerate(task.policy.rules if task.policy else ()):
        values: list[Authored | None] = [rule.when, rule.error]
        if rule.retry is not None:
            values += [rule.retry.attempts, rule.retry.delay, rule.retry.max_delay]
        if rule.mutations is not None:
            m = rule.mutations
            values += [m.set_iter, m.set_ctx, m.set_vars, m.set_shared, m.set_prev]
        yield ReadSite(step, rule_address(step, task.name, index), position, references(*values), own)


def _after(step: Transition) -> Iterator[ReadSite]:
    name = step.name
    yield from _waits(step)
    if step.sink is not None:
        yield ReadSite(name, part_address(name, "sink"), AFTER, references(step.sink.inputs), True)
    yield ReadSite(name, part_address(name, "set_ctx"), AFTER, references(step.set_ctx))
    for at, rule in enumerate(step.case.rules if step.case else ()):
        values: list[Authored | None] = [rule.when]
        for action in rule.actions:
            values += [action.set_ctx, action.guard, action.delay, action.task.inputs if action.task else None]
            values += [value for arc in action.transition for value in (arc.args, arc.computed)]
        yield ReadSite(name, case_address(name, at), AFTER, references(*values))
    for emit in step.emit:
        yield ReadSite(name, step_address(name), AFTER, references(emit.when, emit.data))
    for at, arc in enumerate(step.router.arcs if step.router else ()):
        yield ReadSite(name, arc_address(name, at), AFTER, references(*_of_arc(arc)))


def _of_arc(arc: Arc) -> tuple[Authored | None, ...]:
    return arc.when, arc.args, arc.set_ctx, arc.computed, arc.delay


def _waits(step: Transition) -> Iterator[ReadSite]:
    parts: dict[str, tuple[Authored | None, ...]] = {}
    if step.timer is not None:
        parts["timer"] = (step.timer.duration, step.timer.until)
    if step.message is not None:
        parts["message"] = (step.message.name, step.message.correlation, step.message.timeout)
    if step.signal is not None:
        parts["signal"] = (step.signal.name,)
    if step.human_task is not None:
        task = step.human_task
        parts["human_task"] = (task.title, task.description, task.data, task.role, task.user, task.due_date)
    for part, values in parts.items():
        yield ReadSite(step.name, part_address(step.name, part), AFTER, references(*values))
