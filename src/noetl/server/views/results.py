"""Results: what an execution, or one of its steps, gave (O-08)."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.engine.recorded_results import ENOUGH, TELLING, EndedStep, carried_in, ended_in
from noetl.engine.scopes import payload_of
from noetl.events.executions import ExecutionRequested, PlaybookProcessed
from noetl.events.outcomes import Error
from noetl.operations.api_shapes import ResultView
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import Services
from noetl.server.views.executions import newest_event
from noetl.store.contract import ExecutionRow, SingleRow


async def result_of(services: Services, row: ExecutionRow) -> ResultView:
    end = await newest_event(services, row.execution_id, PlaybookProcessed.event_type)
    if end is None:
        raise ProblemDetails(409, f"execution {row.execution_id} has not ended: it is {row.status}", kind="not-ended")
    processed = end.payload
    assert isinstance(processed, PlaybookProcessed)
    values = {name: (await _of_step(services, row, name))[1] for name in processed.result_of}
    value = next(iter(values.values())) if len(values) == 1 else values or None
    return ResultView(
        execution_id=row.execution_id, status=processed.status.value, result=value, error=_readable(processed.error)
    )


async def step_result(services: Services, row: ExecutionRow, step: str) -> ResultView:
    status, value, error = await _of_step(services, row, step)
    return ResultView(execution_id=row.execution_id, status=status, result=value, error=_readable(error), step=step)


async def _of_step(services: Services, row: ExecutionRow, step: str) -> tuple[str, Any, Error | None]:
    only = SingleRow(types=TELLING, step=step, limit=ENOUGH, newest=True)
    stored = await services.store.events(row.execution_id, only=only)
    events = [msgspec.structs.replace(one, payload=await services.read_back(one.payload)) for one in stored]
    ended = ended_in(events, step) or await _carried_result(services, row, step)
    if ended is None:
        raise ProblemDetails(409, f'step "{step}" has not ended in execution {row.execution_id}', kind="not-ended")
    if ended.error is not None:
        return "failed", None, ended.error
    return "done", await services.executions.values.read(lambda load: payload_of(ended.result, load)), None


async def _carried_result(services: Services, row: ExecutionRow, step: str) -> EndedStep | None:
    request = await newest_event(services, row.execution_id, ExecutionRequested.event_type)
    return carried_in(request, step) if request is not None else None


def _readable(error: Error | None) -> dict[str, Any] | None:
    return error.readable() if error is not None else None
