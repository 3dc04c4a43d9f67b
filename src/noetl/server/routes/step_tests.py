"""Routes to test one step of a text: what it read in an earlier run, and an execution in which it runs alone."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from fastapi import Query, Request, Response

from noetl.events.envelope import Event
from noetl.events.executions import RerunState
from noetl.events.traces import caller_of
from noetl.net.net import Net
from noetl.operations.attempt_shapes import RecordedInputs, StepTestInputs
from noetl.operations.step_tests import (
    alone_net,
    begun_test_state,
    recorded_inputs,
    recorded_state,
)
from noetl.server.access.audit_writer import OBJECT
from noetl.server.bodies import read
from noetl.server.execution_control import execution_of
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.services import Services, identity_of, services_of
from noetl.server.start_requests import StartedDraft, checked_draft, start_net
from noetl.server.tracing import HEADER as TRACEPARENT
from noetl.server.views.states import whole_events
from noetl.store.contract import ExecutionRow

router = GuardedRouter(tags=["authoring"])


class StepTestRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`source` is a text that is not registered. With `execution_id`, results that `inputs` does not name are those of
    that execution when it last entered the step."""

    source: str
    step: str
    inputs: StepTestInputs = StepTestInputs()
    execution_id: str | None = None


@router.get(
    "/api/executions/{execution_id}/step-inputs", **shows(RecordedInputs, summary="What a step of it last read")
)
async def step_inputs(
    request: Request, execution_id: str, step: Annotated[str, Query(min_length=1, max_length=300)]
) -> Response:
    """Variables, arguments, inputs and results as of its last entry, for a test of the step."""
    services, row = services_of(request), await execution_of(request, execution_id)
    net = await services.control.executions.net(row.net_hash)
    events, state = await _recorded(services, row, net, step)
    found = await services.control.executions.values.read(lambda load: recorded_inputs(state, events, load))
    return Json(RecordedInputs(execution_id=execution_id, step=step, inputs=found[0], hidden=found[1]))


async def _recorded(services: Services, row: ExecutionRow, net: Net, step: str) -> tuple[list[Event], RerunState]:
    events = await whole_events(services, row, await services.store.events(row.execution_id))
    return events, await asyncio.to_thread(recorded_state, row.execution_id, row.trace_id, events, net, step)


@router.post(
    "/api/executions/step-test", **shows(StartedDraft, reads=StepTestRequest, status=201, summary="Run one step alone")
)
async def run_step_alone(request: Request) -> Response:
    """Begin an execution of a text in which one step runs alone. What its tools do is done; nothing follows it, and
    nothing is registered."""
    services, asked = services_of(request), await read(request, StepTestRequest)
    found = await checked_draft(services, asked.source)
    assert found.net is not None, "a text with errors was refused"
    net, recorded = alone_net(found.net, asked.step), None
    if asked.execution_id is not None:
        row = await execution_of(request, asked.execution_id)
        _, recorded = await _recorded(services, row, net, asked.step)
    values = services.control.executions.values
    state = await values.read(lambda load: begun_test_state(asked.step, asked.inputs, recorded, load))
    request.scope[OBJECT] = f"{request.url.path}?path={net.path}"
    subject, caller = str(identity_of(request).subject), caller_of(request.headers.get(TRACEPARENT))
    begun = await start_net(services, found, net, asked.inputs.workload, subject=subject, caller=caller, carried=state)
    return Json(begun, 201)
