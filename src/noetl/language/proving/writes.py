"""Writes: which `ctx`, `vars` and `iter` keys the parts of a step set (POL-10, POL-11, V2C-09, V2C-21)."""

from __future__ import annotations

from collections.abc import Iterable

from noetl.language.proving.reads import ReadKeys, keys
from noetl.net.net import Loop, Transition
from noetl.net.task import Mutations, Task


def task_ctx(task: Task) -> ReadKeys:
    """Shared keys that the rules of a task set; older dialects' `vars` are the same store (C-05)."""
    found = ReadKeys()
    for mutations in _mutations(task):
        found |= keys(mutations.set_ctx, mutations.set_vars, mutations.set_shared)
    return found


def task_iter(task: Task) -> ReadKeys:
    found = ReadKeys()
    for mutations in _mutations(task):
        found |= keys(mutations.set_iter)
    return found


def _mutations(task: Task) -> Iterable[Mutations]:
    return [rule.mutations for rule in (task.policy.rules if task.policy else ()) if rule.mutations is not None]


def ending_ctx(step: Transition) -> ReadKeys:
    """Keys set when the run ends: the step's set_ctx or vars, its arcs, its case rules, and what its loop folds."""
    found = keys(step.set_ctx, *(arc.set_ctx for arc in (step.router.arcs if step.router else ())))
    for rule in step.case.rules if step.case else ():
        for action in rule.actions:
            found |= keys(action.set_ctx)
            if action.task is not None:
                found |= task_ctx(action.task)
    loop: Loop | None = step.loop
    while loop is not None:
        found |= ReadKeys(frozenset(loop.reducers))
        loop = loop.inner
    for repeat in (r for task in step.tasks for r in task.repeat):
        if repeat.collect is not None:
            found |= ReadKeys(frozenset({repeat.collect.into}))
    return found


def beside_ctx(step: Transition) -> ReadKeys:
    """Keys that handlers and compensations set: at any time, as far as can be told."""
    found = ReadKeys()
    for handler in step.handlers.handlers if step.handlers else ():
        for task in handler.tasks:
            found |= task_ctx(task)
    for task in step.compensation.tasks if step.compensation else ():
        found |= task_ctx(task)
    return found


def step_ctx(step: Transition) -> ReadKeys:
    """Everything a run of the step may set."""
    found = ending_ctx(step) | beside_ctx(step)
    for task in step.tasks:
        found |= task_ctx(task)
    return found
