"""The last runs of one playbook, side by side: how each ended, how long it took, and what became of each step.

Each run is read up to a bound, and only what tells of steps: a loop of 100,000 items costs no more than its step.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from noetl.operations.api_shapes import ExecutionView
from noetl.server.services import Services
from noetl.server.views.timeline import StepBar, step_bars
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
    bars = await step_bars(services, row.execution_id)
    broken = next((bar for bar in reversed(bars) if bar.error is not None), None) if row.status in _FAILED else None
    return PlaybookRun(
        **row.readable(),
        version=version,
        failed_step=broken.step if broken is not None else None,
        reason=_reason(broken.error) if broken is not None else None,
        steps=_cells(bars),
    )


def _reason(error: dict[str, Any] | None) -> str:
    """What went wrong, with what was behind it."""
    said = []
    while error is not None:
        said.append(str(error.get("message") or error.get("kind") or ""))
        error = error.get("cause")
    return ": ".join(said)


def _cells(bars: list[StepBar]) -> list[StepCell]:
    by_step: dict[str, list[StepBar]] = {}
    for bar in bars:
        by_step.setdefault(bar.step, []).append(bar)
    return [
        StepCell(
            step=step,
            status=found[-1].status,
            duration_s=_total(found),
            visits=len(found),
            failed=sum(bar.failed for bar in found),
        )
        for step, found in by_step.items()
    ]


def _total(bars: list[StepBar]) -> float | None:
    spans = [
        datetime.fromisoformat(bar.finished_at) - datetime.fromisoformat(bar.started_at or bar.scheduled_at)
        for bar in bars
        if bar.finished_at is not None
    ]
    return round(sum(span.total_seconds() for span in spans), 3) if spans else None
