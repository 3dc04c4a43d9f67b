"""Routes of executions: starting, listing, steering them (SRV-02, SRV-07, SRV-09, SRV-11)."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import Query, Request, Response

from noetl.base.errors import NoRerunError
from noetl.control.nested.reruns import failed_loops, only_failed_loop
from noetl.engine.rerun_state import Consent
from noetl.events.envelope import caller_of
from noetl.events.executions import ExecutionRequested, RequestEvaluated, WorkflowStarted
from noetl.operations.api_shapes import ExecutionDetail, ExecutionPage, Steered
from noetl.operations.catalog import catalog_id
from noetl.operations.executions import (
    canceller,
    end_error,
    failed_step,
    lasting_pause,
    lateness,
    note_rerun,
    rerun_items,
    rerun_source,
    reruns_of,
    starter_view,
)
from noetl.server.access.audit_writer import OBJECT, object_with
from noetl.server.bodies import read, read_optional
from noetl.server.execution_control import (
    Action,
    Bulk,
    BulkRequest,
    Filter,
    Status,
    checked_cursor,
    control_in_bulk,
    control_one,
    execution_of,
    matching_executions,
    parse_labels,
)
from noetl.server.execution_lists import FailureGroups, execution_views, failure_groups, trial_of
from noetl.server.guarded_router import GuardedRouter, Json, openapi_docs
from noetl.server.idempotency import HEADER, REPLAYED
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import Services, identity_of, services_of
from noetl.server.start_requests import (
    DraftRequest,
    RerunSource,
    Started,
    StartedDraft,
    StartRequest,
    checked_draft,
    start,
    start_net,
)
from noetl.server.tracing import HEADER as TRACEPARENT
from noetl.store.contract import EventFilter, ExecutionRow


async def execution_detail(services: Services, row: ExecutionRow) -> ExecutionDetail:
    first = await services.store.events(
        row.execution_id, only=EventFilter(limit=3)
    )  # the request, what was made of it, and the inputs it began with
    request = await services.read_back(first[0].payload) if first else None
    assert request is None or isinstance(request, ExecutionRequested)
    error = await end_error(services.store, row)
    evaluated = next((event.payload for event in first if isinstance(event.payload, RequestEvaluated)), None)
    begun = next((event.payload for event in first if isinstance(event.payload, WorkflowStarted)), None)
    begun = await services.read_back(begun) if begun is not None else None
    version = await version_of(services, row)
    carried = request.carried if request is not None else None
    return ExecutionDetail(
        # Rows of earlier versions do not say which step failed; the log does.
        **row.readable() | {"failed_step": await failed_step(services.store, row, error)},
        trial=await trial_of(services, row),
        version=version,
        label=request.version if request is not None else None,
        catalog_id=catalog_id(row.path, version) if version is not None else None,
        payload=request.payload if request is not None else {},
        workload=begun.workload if begun is not None else {},
        error=error.readable() if error is not None else None,
        children=await execution_views(services, await services.store.children(row.execution_id)),
        reruns=await execution_views(services, await reruns_of(services.store, row.execution_id)),
        rerun_of=await rerun_source(services.store, row.execution_id)
        or (carried.execution_id if carried is not None else None),
        from_step=carried.step if carried is not None else None,
        rerun_items=await rerun_items(services.store, row, carried),
        dialect=evaluated.dialect if evaluated is not None else None,
        started_by=starter_view(request.starter, row.created_at) if request is not None else None,
        cancelled_by=await canceller(services.store, row),
        pause=await lasting_pause(services.store, row),
        late=lateness(row, request.late_after_s if request is not None else (), services.clock.now()),
    )


async def version_of(services: Services, row: ExecutionRow) -> int | None:
    """The version in the catalogue that the execution is pinned to; none for one that was run from a file."""
    # By the hash of the net: an execution is pinned to what ran, and several versions may have the same path.
    for registered in await services.store.catalog.versions(row.path):
        if registered.net_hash == row.net_hash:
            return registered.version
    return None


router = GuardedRouter(tags=["executions"])
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 200},
    "description": "The same key with the same body gets the same answer, for a day.",
}


class Reason(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """It is recorded with the event."""

    reason: str | None = None


class Cancellation(Reason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """With `compensate` what its steps have done is undone first, in reverse."""

    compensate: bool = False


class Rerun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"from_step": "from"}):
    """Without `version` the one it ran; without `payload` the one it had. `from` is a step to begin at, with variables,
    results and arguments as they were when it was last entered. What people approved before it holds for the same
    version and payload; with others, `approve` says that you approve it anew, and the human tasks must be for you. With
    `failed_items` the loop of that step runs the items alone that were not done, and keeps the results of the others;
    without `from` it is the step whose loop has failed items."""

    version: str | int | None = None
    payload: dict[str, Any] | None = None
    from_step: str | None = None
    approve: bool = False
    failed_items: bool = False
    wait: float = 0.0


def _with_key(shown: dict[str, Any]) -> dict[str, Any]:
    shown["openapi_extra"] = {**shown.get("openapi_extra", {}), "parameters": [_KEY]}
    return shown


@router.post(
    "/api/executions", **_with_key(openapi_docs(Started, reads=StartRequest, status=201, summary="Start a playbook"))
)
async def begin(request: Request) -> Response:
    """Begin an execution of a registered playbook. Once this is answered, it is durable and will be completed."""
    asked = await read(request, StartRequest)
    # The audit log names what was started, which the path of the request does not say.
    request.scope[OBJECT] = f"{request.url.path}?path={asked.path}"
    answer = await _start_response(request, asked)
    begun = msgspec.json.decode(answer.body, type=_StartedId).execution_id
    request.scope[OBJECT] = object_with(request.url.path, path=asked.path, execution_id=begun)
    return answer


@router.post(
    "/api/executions/draft", **openapi_docs(StartedDraft, reads=DraftRequest, status=201, summary="Run a text once")
)
async def run_draft(request: Request) -> Response:
    """Begin an execution of a text that is not registered. The catalogue and its schedules stay as they are."""
    asked, subject = await read(request, DraftRequest), str(identity_of(request).subject)
    caller = caller_of(request.headers.get(TRACEPARENT))
    services, draft = services_of(request), await checked_draft(services_of(request), asked.source)
    assert draft.net is not None, "a text with errors was refused"
    begun = await start_net(services, draft, draft.net, asked.payload, subject=subject, caller=caller)
    # After the start: the path of a draft is in its text.
    request.scope[OBJECT] = f"{request.url.path}?path={begun.path}"
    return Json(begun, 201)


async def _start_response(
    request: Request, asked: StartRequest, source: RerunSource | None = None, consent: Consent | None = None
) -> Response:
    key, subject = request.headers.get(HEADER), str(identity_of(request).subject)
    caller = caller_of(request.headers.get(TRACEPARENT))
    answer, replayed = await start(
        services_of(request), asked, subject=subject, key=key, source=source, consent=consent, caller=caller
    )
    return Response(answer, 201, REPLAYED if replayed else None, "application/json")


@router.get("/api/executions", **openapi_docs(ExecutionPage, summary="List executions"))
async def executions(
    request: Request,
    status: Status | None = None,
    path: Annotated[str | None, Query(max_length=500, description="* stands for any text.")] = None,
    since: Annotated[str | None, Query(max_length=50)] = None,
    until: Annotated[str | None, Query(max_length=50)] = None,
    text: Annotated[str | None, Query(max_length=200)] = None,
    label: Annotated[list[str] | None, Query(max_length=10, description="key=value, of metadata.labels.")] = None,
    error: Annotated[str | None, Query(max_length=100, description="The kind of error that it failed with.")] = None,
    step: Annotated[str | None, Query(max_length=200, description="The step that this error came from.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    """The newest first. `next` of a page is the `cursor` of the one after."""
    services = services_of(request)
    labels = parse_labels(label)
    wanted = Filter(
        status=status, path=path, since=since, until=until, text=text, labels=labels, error=error, step=step
    )
    rows = []
    # One more than is shown: it says whether there is a next page.
    async for row in matching_executions(services, wanted, await checked_cursor(services, cursor), about=limit + 1):
        rows.append(row)
        if len(rows) > limit:
            break
    beyond = rows[limit - 1].execution_id if len(rows) > limit else None
    return Json(ExecutionPage(executions=await execution_views(services, rows[:limit]), next=beyond))


@router.get("/api/executions/failures", **openapi_docs(FailureGroups, summary="Failed executions by reason"))
async def failures(
    request: Request,
    path: Annotated[str | None, Query(max_length=500, description="* stands for any text.")] = None,
    since: Annotated[str | None, Query(max_length=50)] = None,
    until: Annotated[str | None, Query(max_length=50)] = None,
    text: Annotated[str | None, Query(max_length=200)] = None,
    label: Annotated[list[str] | None, Query(max_length=10, description="key=value, of metadata.labels.")] = None,
) -> Response:
    """How many of the newest 1,000 failed executions failed in which step and with which kind of error."""
    labels = parse_labels(label)
    wanted = Filter(status="failed", path=path, since=since, until=until, text=text, labels=labels)
    return Json(await failure_groups(services_of(request), wanted))


@router.post("/api/executions/bulk", **openapi_docs(Bulk, reads=BulkRequest, summary="Steer many executions"))
async def bulk(request: Request) -> Response:
    """Pause, resume or cancel all open executions that fit, at most 1,000 at a time."""
    return Json(
        await control_in_bulk(
            services_of(request), await read(request, BulkRequest), actor=str(identity_of(request).subject)
        )
    )


@router.get("/api/executions/{execution_id}", **openapi_docs(ExecutionDetail, summary="One execution"))
async def execution(request: Request, execution_id: str) -> Response:
    row = await execution_of(request, execution_id)
    return Json(await execution_detail(services_of(request), row))


@router.post(
    "/api/executions/{execution_id}/pause", **openapi_docs(Steered, reads=Reason, summary="Pause an execution")
)
async def pause(request: Request, execution_id: str) -> Response:
    """Nothing new is dispatched; what runs may end."""
    return await _control(request, execution_id, "pause")


@router.post(
    "/api/executions/{execution_id}/resume", **openapi_docs(Steered, reads=Reason, summary="Resume an execution")
)
async def resume(request: Request, execution_id: str) -> Response:
    return await _control(request, execution_id, "resume")


@router.post(
    "/api/executions/{execution_id}/cancel", **openapi_docs(Steered, reads=Cancellation, summary="Cancel an execution")
)
async def cancel(request: Request, execution_id: str) -> Response:
    """Everything of it is stopped, its children too, and it ends as cancelled."""
    asked = await read_optional(request, Cancellation)
    request.scope[OBJECT] = object_with(request.url.path, reason=asked.reason)
    row = await execution_of(request, execution_id)
    services, actor = services_of(request), str(identity_of(request).subject)
    return Json(await control_one(services, row, "cancel", asked.reason, actor=actor, compensate=asked.compensate))


async def _control(request: Request, execution_id: str, action: Action) -> Response:
    row = await execution_of(request, execution_id)
    reason = (await read_optional(request, Reason)).reason
    actor = str(identity_of(request).subject)
    return Json(await control_one(services_of(request), row, action, reason, actor=actor))


@router.post(
    "/api/executions/{execution_id}/rerun",
    **_with_key(openapi_docs(Started, reads=Rerun, status=201, summary="Run it again, from the start or from a step")),
)
async def rerun(request: Request, execution_id: str) -> Response:
    """A new execution of the same playbook, with another version or payload where one is given."""
    services, row = services_of(request), await execution_of(request, execution_id)
    asked = await read_optional(request, Rerun)
    before = await execution_detail(services, row)
    # The version that ran, not the newest: a rerun repeats what was done.
    version = asked.version if asked.version is not None else await version_of(services, row)
    payload = asked.payload if asked.payload is not None else before.payload
    step = asked.from_step
    if step is None and asked.failed_items:
        step = await _failed_loop(services, execution_id)
    source = RerunSource(execution_id=execution_id, step=step, failed_items=asked.failed_items) if step else None
    wanted = StartRequest(path=row.path, version=version, payload=payload, wait=asked.wait)
    identity = identity_of(request)
    consent = Consent(actor=identity.subject, roles=identity.human_roles, approves=asked.approve)
    answer = await _start_response(request, wanted, source, consent)
    # An arc may have handled a failure before `step`, and failed items of a loop before it stay as they are.
    lost = await failed_loops(services.store, execution_id) if row.status == "completed" and step is not None else []
    again = msgspec.json.decode(answer.body, type=_StartedId).execution_id
    is_complete = not lost or asked.failed_items or lost == [step]
    await note_rerun(services.store, execution_id, again, is_complete=is_complete, now=services.clock.now())
    return answer


class _StartedId(msgspec.Struct):
    """What is read of an answer that may carry a large result."""

    execution_id: str


async def _failed_loop(services: Services, execution_id: str) -> str:
    """The step whose loop has failed items. 422 where it is none, or not the only one."""
    try:
        return only_failed_loop(await failed_loops(services.store, execution_id), execution_id)
    except NoRerunError as problem:
        raise ProblemDetails(422, f"failed_items: {problem}", kind="from") from None
