"""Coverage: what this engine cannot run yet, told before anything begins.

A playbook may be valid and proven and still use a part of the language that this version only checks. Then it is
refused at the door with the whole list, and nothing is recorded as accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from noetl.net.net import Net, Transition
from noetl.net.routing import Arc
from noetl.net.task import Task


def not_runnable(net: Net, runs_kind: Callable[[str], bool]) -> list[str]:
    """Everything in `net` that cannot be run yet, each with its place, in document order."""
    found = [*_of_playbook(net)]
    for step in net.transitions:
        found += [f"{what} (step {step.name})" for what in _of_step(step, runs_kind)]
    return found


def _of_playbook(net: Net) -> Iterator[str]:
    if net.keychain:
        yield "keychain (playbook)"
    if net.executor.concurrency:
        yield "concurrency (executor)"
    if net.executor.fail_fast:
        yield "failure mode fail_fast (executor)"


def _of_step(step: Transition, runs_kind: Callable[[str], bool]) -> Iterator[str]:
    parts = {
        "loop": step.loop,
        "join": step.join,
        "timer": step.timer,
        "message": step.message,
        "signal": step.signal,
        "human_task": step.human_task,
        "timeout": step.timeout,
        "compensation": step.compensation,
        "on_event handlers": step.handlers,
        "case": step.case,
        "sink": step.sink,
        "emit": step.emit,
        "concurrency": step.concurrency,
        "rate": step.rate,
        "end: execution": step.ends_execution,
        "on_error: continue": step.on_error_continue,
        "admission with park": step.admission and any(rule.park for rule in step.admission.rules),
    }
    yield from (name for name, part in parts.items() if part)
    for task in step.tasks:
        yield from (f"{what} of task {task.name}" for what in _of_task(task, runs_kind))
    for arc in step.router.arcs if step.router else ():
        yield from (f"{what} of the arc to {arc.target or 'a computed step'}" for what in _of_arc(arc))


def _of_task(task: Task, runs_kind: Callable[[str], bool]) -> Iterator[str]:
    if not runs_kind(task.kind):
        yield f"tool kind {task.kind}"
    if task.repeat:
        yield "retry with pagination"
    if task.policy is None:
        return
    if task.policy.before or task.policy.after or task.policy.finally_:
        yield "hooks"
    for name in ("set_vars", "set_shared", "set_prev"):
        if any(rule.mutations and getattr(rule.mutations, name) for rule in task.policy.rules):
            yield name


def _of_arc(arc: Arc) -> Iterator[str]:
    parts = {
        "computed target": arc.computed,
        "delay": arc.delay,
        "priority": arc.priority,
        "dedupe": arc.dedupe,
        "partition": arc.partition,
        "tokens": arc.tokens != 1,
        "cancel": arc.cancel,
        "trigger_compensation": arc.trigger_compensation,
    }
    yield from (name for name, part in parts.items() if part)
