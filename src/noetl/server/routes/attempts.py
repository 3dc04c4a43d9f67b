"""Routes for the attempts of an execution's tasks, what each was given, what differs between two executions (SRV-09,
POL-05), and tests of one step of a text with such inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import Path, Query, Request, Response

from noetl.base.errors import TemplateError, ToolError
from noetl.base.redaction import Mask
from noetl.events.envelope import Event, caller_of
from noetl.events.executions import RerunState
from noetl.events.large_values import Load
from noetl.events.outcomes import Reference
from noetl.net.net import Net
from noetl.operations.attempt_inputs import attempt_inputs, attempt_page
from noetl.operations.attempt_shapes import (
    AttemptInputs,
    AttemptPage,
    ExecutionComparison,
    RecordedInputs,
    StepTestInputs,
)
from noetl.operations.comparisons import compare_executions
from noetl.operations.step_tests import (
    initial_test_state,
    recorded_inputs,
    recorded_state,
    single_step_net,
)
from noetl.server.access.audit_writer import OBJECT
from noetl.server.bodies import read
from noetl.server.computations import computed
from noetl.server.execution_control import execution_of
from noetl.server.guarded_router import GuardedRouter, Json, openapi_docs
from noetl.server.routes.inspection import After, Step
from noetl.server.services import Services, identity_of, services_of
from noetl.server.start_requests import StartedDraft, checked_draft, start_net
from noetl.server.tracing import HEADER as TRACEPARENT
from noetl.server.views.states import state_of, whole_events
from noetl.store.contract import ExecutionRow, History

Found = TypeVar("Found")
_TRIES = 50  # stored values that one attempt may read besides those of its events


class ServerSources:
    """The store of this server (`operations.attempt_inputs.AttemptSources`)."""

    def __init__(self, services: Services) -> None:
        self._services, self.tools = services, services.tools
        self.history: History = services.store

    async def net(self, net_hash: str) -> Net:
        return await self._services.control.executions.net(net_hash)

    async def mask(self, execution_id: str) -> Mask:
        return await self._services.control.for_workers.mask(execution_id)

    async def whole_events(self, row: ExecutionRow, events: list[Event]) -> list[Event]:
        return await whole_events(self._services, row, events)

    async def read(self, compute: Callable[[Load], Found]) -> Found:
        """A value outside cannot be fetched from a thread: it is noted, fetched here, and `compute` is called again."""
        loaded: dict[str, Any] = {}
        missing: list[Reference] = []

        def load(reference: Reference) -> Any:
            if reference.key not in loaded:
                missing.append(reference)
                raise ToolError("result.missing", f"the stored result {reference.key} cannot be read")
            return loaded[reference.key]

        # A file on this machine can be read from the thread: one round is enough.
        if not self._services.results.is_outside:
            return await computed(compute, self._services.results.load)
        for _ in range(_TRIES):
            try:
                return await computed(compute, load)
            # A missing value is raised out of a template, or before one is rendered.
            except (TemplateError, ToolError):
                if not missing:
                    raise
            reference = missing.pop()
            loaded[reference.key] = await self._services.control.executions.values.read(_loaded(reference))
            # Other missing values are found in the next round: with this value the computation may take another path.
            missing.clear()
        raise ToolError("result.missing", f"it reads more than {_TRIES} stored results")


def _loaded(reference: Reference) -> Callable[[Load], Any]:
    return lambda load: load(reference)


router = GuardedRouter(tags=["one execution"])
Seq = Annotated[int, Path(ge=1, le=2**62, description="The number of its `task.started`.")]
Against = Annotated[str | None, Query(max_length=100, description="Another execution; without it, the attempt before.")]
Iteration = Annotated[
    str | None, Query(pattern=r"^(\d{1,9}(\.\d{1,9}){0,20})?$", description="Of one iteration: `3`, or `3.5`.")
]


@router.get("/api/executions/{execution_id}/attempts", **openapi_docs(AttemptPage, summary="The attempts of its tasks"))
async def attempts(
    request: Request,
    execution_id: str,
    step: Step = None,
    task: Step = None,
    path: Iteration = None,
    after: After = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Response:
    """In the order in which they began."""
    row = await execution_of(request, execution_id)
    iteration = tuple(int(index) for index in path.split(".")) if path else None
    page = await attempt_page(
        services_of(request).store, row.execution_id, step=step, task=task, path=iteration, after=after, limit=limit
    )
    return Json(page)


@router.get(
    "/api/executions/{execution_id}/attempts/{seq}/inputs",
    **openapi_docs(AttemptInputs, summary="What an attempt was given"),
)
async def inputs(request: Request, execution_id: str, seq: Seq, against: Against = None) -> Response:
    """Rendered again from the log, with secrets as `***`, and compared with the attempt of the same task before it, or
    with the last one of another execution."""
    row = await execution_of(request, execution_id)
    other = await execution_of(request, against) if against is not None else None
    return Json(await attempt_inputs(ServerSources(services_of(request)), row, seq, against=other))


@router.get(
    "/api/executions/{execution_id}/compare",
    **openapi_docs(ExecutionComparison, summary="What differs from another execution"),
)
async def compare(
    request: Request,
    execution_id: str,
    against: Annotated[
        str | None, Query(max_length=100, description="Another execution; without it, the one of its playbook before.")
    ] = None,
) -> Response:
    """Steps with their states and durations, and where inputs, variables and results differ."""
    services, row = services_of(request), await execution_of(request, execution_id)
    other = await execution_of(request, against) if against is not None else None
    return Json(await compare_executions(services.store, row, other, lambda one: state_of(services, one)))


# Routes to test one step of a text: its inputs in an earlier run, and an execution in which it runs alone.

step_tests_router = GuardedRouter(tags=["authoring"])


class StepTestRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`source` is a text that is not registered. With `execution_id`, results that `inputs` does not name are those of
    that execution when it last entered the step."""

    source: str
    step: str
    inputs: StepTestInputs = StepTestInputs()
    execution_id: str | None = None


@step_tests_router.get(
    "/api/executions/{execution_id}/step-inputs", **openapi_docs(RecordedInputs, summary="What a step of it last read")
)
async def step_inputs(
    request: Request, execution_id: str, step: Annotated[str, Query(min_length=1, max_length=300)]
) -> Response:
    """Variables, arguments, inputs and results as of its last entry, for a test of the step."""
    services, row = services_of(request), await execution_of(request, execution_id)
    net = await services.control.executions.net(row.net_hash)
    events, state = await _attempt_record(services, row, net, step)
    recorded = await services.control.executions.values.read(lambda load: recorded_inputs(state, events, load))
    return Json(RecordedInputs(execution_id=execution_id, step=step, inputs=recorded[0], hidden=recorded[1]))


async def _attempt_record(services: Services, row: ExecutionRow, net: Net, step: str) -> tuple[list[Event], RerunState]:
    events = await whole_events(services, row, await services.store.events(row.execution_id))
    return events, await computed(recorded_state, row.execution_id, row.trace_id, events, net, step)


@step_tests_router.post(
    "/api/executions/step-test",
    **openapi_docs(StartedDraft, reads=StepTestRequest, status=201, summary="Run one step alone"),
)
async def run_step_alone(request: Request) -> Response:
    """Begin an execution of a text in which one step runs alone. What its tools do is done; nothing follows it, and
    nothing is registered."""
    services, asked = services_of(request), await read(request, StepTestRequest)
    found = await checked_draft(services, asked.source)
    assert found.net is not None, "a text with errors was refused"
    # The step alone, without its arcs: nothing may follow a test.
    net, recorded = single_step_net(found.net, asked.step), None
    if asked.execution_id is not None:
        row = await execution_of(request, asked.execution_id)
        _, recorded = await _attempt_record(services, row, net, asked.step)
    values = services.control.executions.values
    state = await values.read(lambda load: initial_test_state(asked.step, asked.inputs, recorded, load))
    request.scope[OBJECT] = f"{request.url.path}?path={net.path}"
    subject, caller = str(identity_of(request).subject), caller_of(request.headers.get(TRACEPARENT))
    begun = await start_net(services, found, net, asked.inputs.workload, subject=subject, caller=caller, carried=state)
    return Json(begun, 201)
