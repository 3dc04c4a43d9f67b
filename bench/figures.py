"""Figures: one row of the table, and what follows from many measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]


def row(group: str, what: str, value: float, goal: float | None, unit: str) -> Row:
    """The less, the better."""
    return {"group": group, "what": what, "value": round(value, 4), "unit": unit, "goal": goal}


def rate(group: str, what: str, value: float, goal: float | None, unit: str) -> Row:
    """The more, the better."""
    return {**row(group, what, value, goal, unit), "higher_is_better": True}


def quantile(taken: Sequence[float], part: float) -> float:
    return sorted(taken)[min(int(len(taken) * part), len(taken) - 1)]
