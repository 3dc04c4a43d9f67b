"""Calling a tool as a worker does, with made-up surroundings, and what came of it."""

from __future__ import annotations

from typing import Any

from noetl.events.outcomes import Outcome
from noetl.testing.tool_conformance import outcome_of
from noetl.testing.tool_conformance import tool_context as context

__all__ = ["context", "error", "outcome_of", "result"]


def result(outcome: Outcome) -> Any:
    """What a task that succeeded has returned."""
    assert outcome.error is None, outcome.error
    return outcome.result


def error(outcome: Outcome) -> Any:
    """The error of a task that failed."""
    assert outcome.error is not None, outcome.result
    return outcome.error
