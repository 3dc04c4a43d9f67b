"""Forgery: reports that say what is not a worker's to say (SRV-04, WRK-05). They are kept as refused, and start
nothing."""

from __future__ import annotations

from noetl.engine.execution import StepRun
from noetl.engine.pipeline.case.parts import has_case
from noetl.engine.plan import Plan
from noetl.events.case_runs import CaseStarted, CaseWaiting
from noetl.events.orders import Report
from noetl.events.tasks import TaskProcessed
from noetl.net.net import Transition
from noetl.net.tasks import tasks_of

_DECIDING = TaskProcessed | CaseStarted | CaseWaiting


def forged_claim(plan: Plan, run: StepRun, report: Report) -> str | None:
    """What the report claims and may not; None for an honest one."""
    if report.surplus:
        return f"a report has no {', '.join(report.surplus)}"
    step = plan.step(run.step)
    if has_case(step):
        return None  # its rules are evaluated by the worker, and what they took is checked when it is routed (V2C-24)
    for timed in report.entries:
        if isinstance(timed.entry, _DECIDING) and (claimed := _claim(step, timed.entry)):
            return claimed
    return None


def _claim(step: Transition, entry: TaskProcessed | CaseStarted | CaseWaiting) -> str | None:
    if not isinstance(entry, TaskProcessed) or entry.decision.case is not None:
        return f'step "{step.name}" has no case rules'
    name = entry.decision.next
    if name is not None and not _has_task(step, name):
        return f'step "{step.name}" has no task "{name}"'
    return None


def _has_task(step: Transition, name: str) -> bool:
    return any(task.name == name for task in tasks_of(step))
