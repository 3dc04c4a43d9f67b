"""What lists of executions show of an execution besides its state: iterations that were not run, why it failed, whom
and what it waits for, that it is late.

It follows from the state of the execution alone, so that `noetl db rebuild` makes it again from the log. Stores keep it
as JSON in one column: another fact needs no other column and no other type of row.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.engine.execution import Execution


class RowSummary(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Counts, the reason of a failure, and lateness."""

    # The `seq` of the event that this summary belongs to. A program of an earlier version moves an execution without
    # changing its summary; a summary that is older than its row is not shown.
    seq: int = 0
    # Iterations that were not run to their end, since their loop ended after a failure.
    unrun: int = 0
    # Iterations that are done although a task of theirs failed (`do: continue`).
    passed_over: int = 0
    # Human tasks that are open.
    tasks: int = 0
    # Waits for messages and for signals that are open.
    messages: int = 0
    signals: int = 0
    # It is open for longer than was expected.
    late: bool = False
    # The kind of the error that it failed with, and the step that this came from.
    error: str | None = None
    step: str | None = None

    def readable(self) -> dict[str, Any]:
        """As other programs read it, among the fields of the row."""
        return {
            "unrun_iterations": self.unrun,
            "passed_over_iterations": self.passed_over,
            "open_tasks": self.tasks,
            "awaited_messages": self.messages,
            "awaited_signals": self.signals,
            "is_late": self.late,
            "error_kind": self.error,
            "failed_step": self.step,
        }


NOTHING = RowSummary()


def summary_of(execution: Execution) -> RowSummary | None:
    """The summary of an execution; None if it is empty, as after most commits."""
    counts, lifecycle, waits = execution.counts.failed_iterations, execution.lifecycle, execution.open_waits
    is_open = execution.is_open
    tasks, messages, signals = (waits.people, waits.messages, waits.signals) if is_open else (0, 0, 0)
    # A paused one is not late: somebody wants it to wait.
    late = is_open and lifecycle.late and not lifecycle.paused
    error = lifecycle.error if lifecycle.state == "failed" else None
    if not (counts.unrun or counts.passed_over or tasks or messages or signals or late or error):
        return None
    return RowSummary(
        seq=execution.log.seq,
        unrun=counts.unrun,
        passed_over=counts.passed_over,
        tasks=tasks,
        messages=messages,
        signals=signals,
        late=late,
        error=error.kind if error is not None else None,
        step=lifecycle.failed_step if error is not None else None,
    )


def stored_summary(summary: RowSummary | None) -> str | None:
    """As its column holds it."""
    return msgspec.json.encode(summary).decode() if summary is not None else None


def summary_at(stored: str | None, seq: int) -> RowSummary | None:
    """The summary of a row whose last event is `seq`; None where an earlier program has moved the row since."""
    summary = msgspec.json.decode(stored, type=RowSummary) if stored is not None else None
    return summary if summary is not None and summary.seq == seq else None
