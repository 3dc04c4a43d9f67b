"""Durations and times rendered by templates, in seconds (TMR-03, HUM-04). Also the time at which the lifetime of a
step run ends."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from noetl.base.durations import seconds
from noetl.base.errors import TemplateError
from noetl.engine.execution import Execution, StepRun
from noetl.events.outcomes import Error
from noetl.templates.render import render
from noetl.templates.scope import Scope
from noetl.templates.values import Authored

_MOMENT_FORM = "write it as 2025-01-31T06:00:00Z, with its offset"


def duration_s(what: str, written: Authored, scope: Scope, now: float) -> float:
    """The rendered duration in seconds; TemplateError says what is wrong with anything else."""
    try:
        return seconds(render(written, scope, now=now))
    except ValueError as problem:
        raise TemplateError(f"{what}: {problem}") from None


def rendered_time(what: str, written: Authored, scope: Scope, now: float) -> float:
    """The rendered moment, in seconds since the epoch."""
    value = render(written, scope, now=now)
    parsed = _parsed_time(value)
    if parsed is None:
        raise TemplateError(f"{what}: {value!r} is not a time: {_MOMENT_FORM}")
    return parsed


def rendered_time_or_end(what: str, written: Authored, scope: Scope, now: float) -> float:
    """A moment, or the end of a duration that begins now."""
    value = render(written, scope, now=now)
    parsed = _parsed_time(value)
    if parsed is not None:
        return parsed
    try:
        return now + seconds(value)
    except ValueError as problem:
        raise TemplateError(f"{what}: {problem}; or a time: {_MOMENT_FORM}") from None


def _parsed_time(value: Any) -> float | None:
    """None for what is no moment; one without an offset would be another moment elsewhere."""
    if not isinstance(value, str) or len(value) < len("2025-01-01T00:00Z"):
        return None
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        return None
    return parsed.timestamp() if parsed.tzinfo is not None else None


# Lifetimes: the time at which a step run ends in any state (WRK-07, O-21).


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


def timeout_error(step: str) -> Error:
    """By its own `timeout` block (TMR-05)."""
    return Error(kind="timeout", message=f'step "{step}" was stopped: its timeout is over')


def expiry_error(kind: str) -> Error:
    return Error(kind=kind, message=f"the step was stopped: {_WORDS[kind]}")
