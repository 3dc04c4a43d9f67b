"""Lifetimes: what a step run that took too long is told, by whoever stops it (WRK-07, O-21)."""

from __future__ import annotations

from noetl.events.outcomes import Error

_WORDS = {"timeout": "its timeout_s is over", "deadline": "the deadline_s of the execution is over"}


def timed_out(step: str) -> Error:
    """By its own `timeout` block (TMR-05)."""
    return Error(kind="timeout", message=f'step "{step}" was stopped: its timeout is over')


def expired(kind: str) -> Error:
    return Error(kind=kind, message=f"the step was stopped: {_WORDS[kind]}")
