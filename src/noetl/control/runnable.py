"""Runnable: whether a compiled playbook can be run by the tools at hand, told before anything of it begins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from noetl.base.errors import RefusedError
from noetl.engine.loops.levels import levels_of
from noetl.net.net import Net, Transition, tasks_of
from noetl.tools.registry import Registry


def check_runnable(net: Net, tools: Registry, elsewhere: Collection[str] = ()) -> None:
    """RefusedError says what cannot be run here, and the way out where there is one. The kinds `elsewhere` are run by
    workers on other machines, whose operators have allowed them there."""
    if off := _turned_off(net, tools, elsewhere):
        raise RefusedError(off)
    if missing := not_runnable(net, lambda kind: kind in elsewhere or tools.runs(kind)):
        raise RefusedError(f"this playbook uses {', '.join(missing)}, which this version cannot run yet")


def _turned_off(net: Net, tools: Registry, elsewhere: Collection[str]) -> str | None:
    """Why a kind of this playbook cannot be run here, where its operator can do something about it."""
    kinds = dict.fromkeys(task.kind for step in net.transitions for task in tasks_of(step))
    return next((why for kind in kinds if kind not in elsewhere and (why := tools.refusal(kind))), None)


def not_runnable(net: Net, runs_kind: Callable[[str], bool]) -> list[str]:
    """Everything in `net` that cannot be run yet, each with its place, in document order: a playbook may be valid and
    proven and still use a part of the language that this version only checks."""
    return [f"{what} (step {step.name})" for step in net.transitions for what in _of_step(step, runs_kind)]


def _of_step(step: Transition, runs_kind: Callable[[str], bool]) -> Iterator[str]:
    if any(level.extend and level.partition for level in levels_of(step)):
        yield "loop.spec.extend with partitioning"
    for task in tasks_of(step):
        if not runs_kind(task.kind):
            yield f"tool kind {task.kind} of task {task.name}"
