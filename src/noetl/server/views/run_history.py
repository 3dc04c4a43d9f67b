"""The last runs of one playbook, side by side: how each ended, how long it took, and what became of each step.

Each run is read up to a bound, and only what tells of steps: a loop of 100,000 items costs no more than its step.
"""

from __future__ import annotations

import msgspec

from noetl.events.outcomes import Error
from noetl.events.projection.views import StepRunView
from noetl.operations.api_shapes import ExecutionView
from noetl.server.services import Services
from noetl.server.views.timeline import step_runs
from noetl.store.contract import ExecutionRow

_FAILED = ("failed", "cancelled")


class StepCell(msgspec.Struct, frozen=True, kw_only=True):
    """One step in one run: its last visit's status, all its visits' time. `failed` counts iterations."""

    step: str
    status: str
    duration_s: float | None
    visits: int
    failed: int


class PlaybookRun(ExecutionView, frozen=True, kw_only=True):
    """`steps` are in the order in which they first began. `reason` is why the last failed step failed."""

    version: int | None
    failed_step: str | None
    reason: str | None
    steps: list[StepCell]


class RunHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first. Of those that ended: how many completed, and how long they took."""

    path: str
    runs: list[PlaybookRun]
    ended: int
    completed: int
    p50_s: float | None
    p95_s: float | None


async def run_history(services: Services, path: str, limit: int) -> RunHistory:
    rows = await services.store.executions(limit=limit, path=path)
    versions = {one.net_hash: one.version for one in reversed(await services.store.catalog.versions(path))}
    runs = [await _run(services, row, versions.get(row.net_hash)) for row in rows]
    spans = sorted(row.finished_at - row.created_at for row in rows if row.finished_at is not None)
    return RunHistory(
        path=path,
        runs=runs,
        ended=len(spans),
        completed=sum(row.status == "completed" for row in rows),
        p50_s=spans[len(spans) // 2] if spans else None,
        p95_s=spans[min(len(spans) - 1, len(spans) * 95 // 100)] if spans else None,
    )


async def _run(services: Services, row: ExecutionRow, version: int | None) -> PlaybookRun:
    runs = await step_runs(services, row.execution_id)
    broken = next((run for run in reversed(runs) if run.error is not None), None) if row.status in _FAILED else None
    return PlaybookRun(
        **row.readable(),
        version=version,
        failed_step=broken.step if broken is not None else None,
        reason=_reason(broken.error) if broken is not None else None,
        steps=_cells(runs),
    )


def _reason(error: Error | None) -> str:
    """What went wrong, with what was behind it."""
    said = []
    while error is not None:
        said.append(error.message or error.kind)
        error = error.cause
    return ": ".join(said)


def _cells(runs: list[StepRunView]) -> list[StepCell]:
    by_step: dict[str, list[StepRunView]] = {}
    for run in runs:
        by_step.setdefault(run.step, []).append(run)
    return [
        StepCell(
            step=step,
            status=found[-1].status,
            duration_s=_total(found),
            visits=len(found),
            failed=sum(run.loop.levels[0].failed for run in found if run.loop is not None),
        )
        for step, found in by_step.items()
    ]


def _total(runs: list[StepRunView]) -> float | None:
    spans = [run.elapsed_s(run.finished_at) for run in runs if run.finished_at is not None]
    return round(sum(spans), 3) if spans else None
