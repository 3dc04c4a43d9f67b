"""Forgery: reports that say what is not a worker's to say (SRV-04, WRK-05). They are kept as refused, and start
nothing."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.engine.execution import StepRun
from noetl.engine.plan import Plan
from noetl.net.net import Transition
from noetl.net.tasks import tasks_of
from noetl.pipeline.case.parts import has_case
from noetl.records.cases import CaseDecision
from noetl.records.events import CaseStarted, CaseWaiting, Decided, TaskProcessed
from noetl.records.orders import Entry, Report


def forged(plan: Plan, run: StepRun, report: Report) -> str | None:
    """What the report claims and may not; None for an honest one."""
    if report.surplus:
        return f"a report has no {', '.join(report.surplus)}"
    step = plan.step(run.step)
    if has_case(step):
        return None  # its rules are evaluated by the worker, and what they took is checked when it is routed (V2C-24)
    return next(_claims(step, (timed.entry for timed in report.entries)), None)


def _claims(step: Transition, entries: Iterator[Entry]) -> Iterator[str]:
    for entry in entries:
        match entry:
            case CaseStarted() | CaseWaiting() | TaskProcessed(decision=Decided(case=CaseDecision())):
                yield f'step "{step.name}" has no case rules'
            case TaskProcessed(decision=Decided(next=str() as name)) if not _has_task(step, name):
                yield f'step "{step.name}" has no task "{name}"'


def _has_task(step: Transition, name: str) -> bool:
    return any(task.name == name for task in tasks_of(step))
