"""Needs of orders and abilities of workers: which tool kinds an order wants, and who may take it (SRV-08, WRK-05). Also
whether a whole playbook can be run by the tools at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import msgspec

from noetl.base.errors import RefusedError
from noetl.engine.execution import Execution
from noetl.engine.loops.levels import levels_of
from noetl.engine.plan import Plan
from noetl.engine.side_runs.state import SideRun, SideRunKind
from noetl.net.net import ENDS, TRANSFER, Net, Transition, pipeline_of, tasks_of, with_hooks
from noetl.net.task import Task
from noetl.tools.registry import BUILT_IN, Registry

_NEEDS = "needs of"  # in the memo of a plan


def needs_of(plan: Plan, execution: Execution, order_id: str) -> frozenset[str]:
    """Those of an open order; nothing for one that is over."""
    run = execution.run_of(order_id)
    if run is None:
        return frozenset()
    # A job that a provider runs is undone through the tool that started it, whose kind is the task's name in the
    # registration.
    undone = execution.side_work.saga.under_way if execution.side_work.saga is not None else None
    if run.side_run is not None and undone is not None and run.side_run.of == undone.registration_id and undone.job_id:
        return frozenset({undone.task})
    return kinds_for(plan, run.step, run.side_run)


def kinds_for(plan: Plan, step: str, side_run: SideRun | None = None) -> frozenset[str]:
    """Those of a step's pipeline, or of a side run of it."""
    part = _NEEDS, step, "" if side_run is None else f"{side_run.kind}/{side_run.index}/{side_run.task}"
    found: frozenset[str] | None = plan.memo.get(part)
    if found is None:
        found = plan.memo[part] = frozenset(_kinds(tasks_for(plan.step(step), side_run)))
    return found


def tasks_for(step: Transition, side_run: SideRun | None) -> Iterable[Task]:
    """The tasks of an order of a step, or of a side run of it, with their hooks."""
    match side_run:
        case None:
            return pipeline_of(step)
        case SideRun(kind=SideRunKind.COMPENSATION):
            own = step.compensation.tasks if step.compensation is not None else ()
            return with_hooks(own)  # a nested execution is undone by a playbook task, which every worker runs
        case SideRun(kind=SideRunKind.HANDLER):
            return with_hooks(step.handlers.handlers[side_run.index].tasks if step.handlers is not None else ())
        case _:
            return [task for task in tasks_of(step) if task.name == side_run.task]


def _kinds(tasks: Iterable[Task]) -> Iterator[str]:
    for task in tasks:
        yield task.kind
        inputs = task.inputs.data
        if task.kind == TRANSFER and isinstance(inputs, Mapping):
            yield from (kind for end in ENDS if (kind := _kind_of(inputs.get(end))) is not None)


def _kind_of(end: object) -> str | None:
    """The kind that an end of a transfer is asked through, where it is written plainly."""
    kind = end.get("kind") if isinstance(end, Mapping) else None
    return kind if kind in BUILT_IN else None  # of another one the tool says what is wrong with it


# Ability: what a worker runs and what it carries, and so which orders it may be given (SRV-08, WRK-05).
class WorkerAbilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of itself when it registers."""

    # Tool kinds. None: the worker did not say what it runs, as older ones do not, and is given everything.
    kinds: frozenset[str] | None = None
    labels: Mapping[str, str] = {}

    def runs(self, needs: frozenset[str] | None) -> bool:
        """Whether it covers these tool kinds; what is not known yet is tried."""
        return self.kinds is None or needs is None or needs <= self.kinds

    def carries(self, required: Mapping[str, str]) -> bool:
        return all(self.labels.get(key) == value for key, value in required.items())


ANY = WorkerAbilities()


def labels_text(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))


# Runnable: whether a compiled playbook can be run by the tools at hand, told before anything of it begins.


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
