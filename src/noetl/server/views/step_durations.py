"""How long each step took in executions that are over, kept because it cannot change any more.

Whoever edits a playbook asks for it with every change of the net. The logs are read once; the executions that were not
asked for longest go first when too many figures are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from noetl.events.projection.views import StepRunView
from noetl.operations.comparisons import step_runs
from noetl.operations.net_cost import covered_s
from noetl.store.contract import ExecutionRow, Store

_RECENT = 20  # executions: enough for a median, and few logs to read
_PAGES = 5  # of a log: an execution of 1,000 steps has some 4,000 events that tell of them
_KEPT = 50_000  # figures, a few megabytes


class StepDurations:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[str, Mapping[str, float]] = OrderedDict()
        self._figures = 0

    async def recent(self, path: str) -> list[Mapping[str, float]]:
        """The seconds of each step in the newest executions of a playbook that are over, one mapping for each."""
        rows = await self._store.executions(limit=2 * _RECENT, path=path)  # some may be open
        ended = [row for row in rows if row.finished_at is not None and row.path == path]
        return [await self._of(row) for row in ended[:_RECENT]]

    async def _of(self, row: ExecutionRow) -> Mapping[str, float]:
        found = self._kept.get(row.execution_id)
        if found is None:
            found = _durations(await step_runs(self._store, row.execution_id, pages=_PAGES))
            self._kept[row.execution_id] = found
            self._figures += len(found)
        self._kept.move_to_end(row.execution_id)
        while self._figures > _KEPT and len(self._kept) > 1:
            self._figures -= len(self._kept.popitem(last=False)[1])
        return found


def _durations(runs: list[StepRunView]) -> dict[str, float]:
    """Of steps whose last visit was done: one that failed, or was cancelled, does not say how long the step takes."""
    visits: dict[str, list[StepRunView]] = {}
    for run in runs:
        visits.setdefault(run.step, []).append(run)
    return {
        step: covered_s((one.active_since, one.finished_at) for one in found if one.finished_at is not None)
        for step, found in visits.items()
        if found[-1].status == "done"
    }
