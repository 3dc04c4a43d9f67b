"""Figures: one row of the table, and statistics of many measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]


def row(group: str, what: str, value: float, goal: float | None, unit: str) -> Row:
    """A row whose value should be small."""
    return {"group": group, "what": what, "value": round(value, 4), "unit": unit, "goal": goal}


def rate(group: str, what: str, value: float, goal: float | None, unit: str) -> Row:
    """A row whose value should be large."""
    return {**row(group, what, value, goal, unit), "higher_is_better": True}


def quantile(taken: Sequence[float], part: float) -> float:
    return sorted(taken)[min(int(len(taken) * part), len(taken) - 1)]
