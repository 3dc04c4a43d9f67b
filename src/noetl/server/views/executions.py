"""Executions as clients see them: rows of the list, and one of them with what its request and its end tell."""

from __future__ import annotations

from noetl.events.executions import ExecutionRequested, PlaybookProcessed, RequestEvaluated
from noetl.events.steps import StepFailed
from noetl.operations.api_shapes import ExecutionDetail
from noetl.operations.catalog import catalog_id
from noetl.operations.executions import execution_view
from noetl.operations.results import newest_event
from noetl.server.services import Services
from noetl.store.contract import ExecutionRow, SingleRow


async def detailed(services: Services, row: ExecutionRow) -> ExecutionDetail:
    first = await services.store.events(
        row.execution_id, only=SingleRow(limit=2)
    )  # the request, and what was made of it
    request = await services.read_back(first[0].payload) if first else None
    assert request is None or isinstance(request, ExecutionRequested)
    end = await newest_event(services.store, row.execution_id, PlaybookProcessed.event_type)
    error = end.payload.error if end is not None and isinstance(end.payload, PlaybookProcessed) else None
    evaluated = next((event.payload for event in first if isinstance(event.payload, RequestEvaluated)), None)
    failure = await newest_event(services.store, row.execution_id, StepFailed.event_type) if error is not None else None
    version = await version_of(services, row)
    carried = request.carried if request is not None else None
    return ExecutionDetail(
        **row.readable(),
        version=version,
        label=request.version if request is not None else None,
        catalog_id=catalog_id(row.path, version) if version is not None else None,
        payload=request.payload if request is not None else {},
        error=error.readable() if error is not None else None,
        children=[execution_view(child) for child in await services.store.children(row.execution_id)],
        rerun_of=carried.execution_id if carried is not None else None,
        from_step=carried.step if carried is not None else None,
        dialect=evaluated.dialect if evaluated is not None else None,
        failed_step=failure.step if failure is not None else None,
    )


async def version_of(services: Services, row: ExecutionRow) -> int | None:
    """The version in the catalogue that the execution is pinned to; none for one that was run from a file."""
    for registered in await services.store.catalog.versions(row.path):
        if registered.net_hash == row.net_hash:
            return registered.version
    return None
