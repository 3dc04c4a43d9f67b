"""Awaited children: which nested executions step runs wait for, as far as this process knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from noetl.events.orders import PlaybookCall
from noetl.store.contract import Commit


class AwaitedChildren:
    def __init__(self) -> None:
        self._calls: dict[str, dict[str, PlaybookCall]] = {}  # by step run, then by child

    def __iter__(self) -> Iterator[tuple[str, PlaybookCall]]:
        """Every call that is waited for, with its step run."""
        return ((run, call) for run, own in self._calls.items() for call in own.values())

    def calls_of(self, step_run_id: str) -> list[PlaybookCall]:
        return list(self._calls.get(step_run_id, {}).values())

    def left_by(self, step_run_id: str | None) -> list[str]:
        """The children that a step run waited for, which has ended. They are kept until they end themselves: should
        what was decided come to nothing, it is asked again."""
        return list(self._calls.get(step_run_id or "", ()))

    def add(self, child_id: str, call: PlaybookCall) -> None:
        self._calls.setdefault(call.step_run_id, {})[child_id] = call

    def remove(self, step_run_id: str, child_id: str) -> None:
        waiting = self._calls.get(step_run_id, {})
        waiting.pop(child_id, None)
        if not waiting:
            self._calls.pop(step_run_id, None)

    def stored(self, commits: Sequence[Commit]) -> None:
        """A child that is over is waited for no longer, whoever did."""
        for commit in commits:
            row = commit.execution
            if row.finished_at is not None and row.parent_execution_id is not None and self._calls:
                for step_run_id in [one for one, children in self._calls.items() if row.execution_id in children]:
                    self.remove(step_run_id, row.execution_id)
