"""Lifetimes: when a step run is over whatever it does (WRK-07, O-21)."""

from __future__ import annotations

from noetl.engine.execution import Execution, StepRun
from noetl.events.outcomes import Error


def expiries_of(execution: Execution, run: StepRun) -> dict[str, float]:
    """The moments, by the kind of the error they lead to."""
    expiries = {}
    if run.timing.timeout_s is not None and run.timing.started_at is not None:
        expiries["timeout"] = run.timing.started_at + run.timing.timeout_s
    if run.timing.deadline_s is not None and execution.origin.started_at is not None:
        expiries["deadline"] = execution.origin.started_at + run.timing.deadline_s
    return expiries


def expiry_of(execution: Execution, run: StepRun) -> tuple[str, float] | None:
    """The first of them."""
    if run.timing.timeout_s is None and run.timing.deadline_s is None:
        return None
    return min(expiries_of(execution, run).items(), key=lambda one: one[1], default=None)


_WORDS = {"timeout": "its timeout_s is over", "deadline": "the deadline_s of the execution is over"}


def timed_out(step: str) -> Error:
    """By its own `timeout` block (TMR-05)."""
    return Error(kind="timeout", message=f'step "{step}" was stopped: its timeout is over')


def expired(kind: str) -> Error:
    return Error(kind=kind, message=f"the step was stopped: {_WORDS[kind]}")
