"""Routes for the attempts of an execution's tasks, what each was given, and what differs between two executions
(SRV-09, POL-05)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import Path, Query, Request, Response

from noetl.base.errors import TemplateError, ToolError
from noetl.base.redaction import Mask
from noetl.events.envelope import Event
from noetl.events.large_values import Load
from noetl.events.outcomes import Reference
from noetl.net.net import Net
from noetl.operations.attempt_inputs import attempt_inputs, attempt_page
from noetl.operations.attempt_shapes import AttemptInputs, AttemptPage, ExecutionComparison
from noetl.operations.comparisons import comparison
from noetl.server.execution_control import execution_of
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.routes.inspection import After, Step
from noetl.server.services import Services, services_of
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

    async def read(self, look: Callable[[Load], Found]) -> Found:
        """A value outside cannot be fetched from a thread: it is noted, fetched here, and `look` is asked again."""
        known: dict[str, Any] = {}
        missing: list[Reference] = []

        def load(reference: Reference) -> Any:
            if reference.key not in known:
                missing.append(reference)
                raise ToolError("result.missing", f"the stored result {reference.key} cannot be read")
            return known[reference.key]

        if not self._services.results.is_outside:
            return await asyncio.to_thread(look, self._services.results.load)
        for _ in range(_TRIES):
            try:
                return await asyncio.to_thread(look, load)
            except (TemplateError, ToolError):
                if not missing:
                    raise
            reference = missing.pop()
            known[reference.key] = await self._services.control.executions.values.read(_loaded(reference))
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


@router.get("/api/executions/{execution_id}/attempts", **shows(AttemptPage, summary="The attempts of its tasks"))
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
    around = tuple(int(index) for index in path.split(".")) if path else None
    found = await attempt_page(
        services_of(request).store, row.execution_id, step=step, task=task, path=around, after=after, limit=limit
    )
    return Json(found)


@router.get(
    "/api/executions/{execution_id}/attempts/{seq}/inputs",
    **shows(AttemptInputs, summary="What an attempt was given"),
)
async def inputs(request: Request, execution_id: str, seq: Seq, against: Against = None) -> Response:
    """Rendered again from the log, with secrets as `***`, and compared with the attempt of the same task before it, or
    with the last one of another execution."""
    row = await execution_of(request, execution_id)
    other = await execution_of(request, against) if against is not None else None
    return Json(await attempt_inputs(ServerSources(services_of(request)), row, seq, against=other))


@router.get(
    "/api/executions/{execution_id}/compare",
    **shows(ExecutionComparison, summary="What differs from another execution"),
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
    return Json(await comparison(services.store, row, other, lambda one: state_of(services, one)))
