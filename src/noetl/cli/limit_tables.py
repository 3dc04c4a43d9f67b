"""Tables of limits: what the playbook says, what was set instead, and how many run and wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noetl.cli.columns import columns


def playbook_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    shown = [
        (row["path"], _text(row["key"]), _text(row["written"]), _text(row["limit"]), *_counts(row)) for row in rows
    ]
    return columns(("PLAYBOOK", "KEY", "WRITTEN", "SET", "RUNNING", "WAITING"), shown, nothing="no limits")


def step_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    shown = [
        (row["step"], what, _text(written), _text(wanted), str(running), str(waiting))
        for row in rows
        for what, written, wanted, running, waiting in _lines(row)
    ]
    return columns(("STEP", "WHAT", "WRITTEN", "SET", "RUNNING", "WAITING"), shown, nothing="no limits")


def _lines(row: dict[str, Any]) -> list[tuple[str, Any, Any, Any, Any]]:
    """A step may have a limit, a rate, or both."""
    found: list[tuple[str, Any, Any, Any, Any]] = []
    if row["written"] is not None or row["limit"] is not None:
        found.append(("at once", row["written"], row["limit"], row["running"], row["waiting"]))
    if row["written_rate"] is not None or row["rate"] is not None:
        found.append(("rate", _rate(row["written_rate"]), _rate(row["rate"]), "-", row["paced"]))
    return found


def _rate(rate: dict[str, Any] | None) -> str | None:
    if rate is None:
        return None
    per = rate["per"]
    return f"{rate['limit']} in {f'{per:g} s' if isinstance(per, int | float) else per}"


def _counts(row: dict[str, Any]) -> tuple[str, str]:
    return str(row["running"]), str(row["waiting"])


def _text(value: Any) -> str:
    return "-" if value is None else str(value)
