"""Lifetimes: when a step run is over whatever it does (WRK-07, O-21)."""

from __future__ import annotations

from noetl.engine.execution import Execution, StepRun


def expiries_of(execution: Execution, run: StepRun) -> dict[str, float]:
    """The moments, by the kind of the error they lead to."""
    expiries = {}
    if run.timeout_s is not None and run.started_at is not None:
        expiries["timeout"] = run.started_at + run.timeout_s
    if run.deadline_s is not None and execution.started_at is not None:
        expiries["deadline"] = execution.started_at + run.deadline_s
    return expiries


def expiry_of(execution: Execution, run: StepRun) -> tuple[str, float] | None:
    """The first of them."""
    if run.timeout_s is None and run.deadline_s is None:
        return None
    return min(expiries_of(execution, run).items(), key=lambda one: one[1], default=None)
