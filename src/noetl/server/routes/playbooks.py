"""Routes about one playbook, before and after a start: its inputs, what is proved of a text, its last runs.

Runs are shown side by side: how each ended, how long it took, and what became of each step. Each run is read up to a
bound, and only the events of steps: a loop of 100,000 items costs no more than its step.
"""

from __future__ import annotations

from statistics import median
from typing import Annotated, Any

import msgspec
from fastapi import Query, Request, Response

from noetl.events.outcomes import Error
from noetl.events.projection.views import StepRunView
from noetl.net.net import Net, from_json
from noetl.operations.administration_shapes import Role, at_least
from noetl.operations.api_shapes import ExecutionView
from noetl.operations.catalog import registered_version
from noetl.operations.comparisons import step_order, step_runs
from noetl.operations.credentials import missing_credentials
from noetl.operations.executions import end_error, failed_step
from noetl.operations.net_cost import NetCost, first_step_of, net_cost, percentile
from noetl.server.bodies import read
from noetl.server.computations import computed
from noetl.server.execution_lists import trial_of
from noetl.server.guarded_router import GuardedRouter, Json, openapi_docs
from noetl.server.playbook_texts import PlaybookText, certificate_view, check_text, playbook_problem, text_of
from noetl.server.problem_details import not_found
from noetl.server.services import Services, identity_of, services_of
from noetl.store.contract import ExecutionRow

router = GuardedRouter(tags=["catalogue"])


class WorkloadInput(msgspec.Struct, frozen=True, kw_only=True):
    """One key of the workload. `type` is the JSON type of its default."""

    name: str
    type: str
    default: Any


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """`version` is null for a text that is not registered. `secrets` are the names of the keychain; their values stay
    where they are. `missing_credentials` are those that the playbook names and that are not stored; authors and
    administrators see them, and others an empty list. `metadata` is as the text has it: name, description, labels, and
    whatever else its author wrote."""

    path: str
    version: int | None
    inputs: list[WorkloadInput]
    secrets: list[str]
    missing_credentials: list[str] = []
    metadata: dict[str, Any] = {}


@router.get("/api/catalog/{path:path}/inputs", **openapi_docs(Inputs, summary="What a playbook takes"))
async def inputs(request: Request, path: str, version: Annotated[str | None, Query(max_length=200)] = None) -> Response:
    """The workload of a version with its defaults, for a form."""
    services = services_of(request)
    row = await registered_version(services.store.catalog, path, version)
    return Json(await _inputs_of(request, from_json(await services.store.net(row.net_hash)), row.version))


@router.post("/api/inputs", **openapi_docs(Inputs, reads=PlaybookText, summary="What a text takes"))
async def inputs_of_text(request: Request) -> Response:
    """The same of a text that is not registered."""
    found = await check_text(await text_of(request), proofs=False)
    if found.net is None:
        raise playbook_problem(found)
    return Json(await _inputs_of(request, found.net, None))


async def _inputs_of(request: Request, net: Net, version: int | None) -> Inputs:
    inputs = [WorkloadInput(name=name, type=_type(value), default=value) for name, value in net.workload.items()]
    secrets = [entry.name for entry in net.keychain]
    # Names of credentials are for authors, and any text can be asked about: others could find out which there are.
    sees_names = identity_of(request).role in at_least(Role.AUTHOR)
    missing = await missing_credentials(services_of(request).store, net) if sees_names else []
    return Inputs(
        path=net.path,
        version=version,
        inputs=inputs,
        secrets=secrets,
        missing_credentials=missing,
        metadata=net.metadata,
    )


@router.post(
    "/api/analyze", **openapi_docs(dict[str, Any], reads=PlaybookText, summary="Prove things about a playbook")
)
async def analyze(request: Request) -> Response:
    """The analyser's verdict on a text, with witnesses that can be played."""
    found = await check_text(await text_of(request))
    if found.certificate is None:
        raise playbook_problem(found)
    return Json(certificate_view(found.certificate))


def _type(value: Any) -> str:
    match value:
        # Before int, as a bool is one.
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "null"


_FAILED = ("failed", "cancelled")


class StepCell(msgspec.Struct, frozen=True, kw_only=True):
    """One step in one run: its last visit's status, all its visits' time. `failed` counts iterations."""

    step: str
    status: str
    duration_s: float | None
    visits: int
    failed: int


class PlaybookRun(ExecutionView, frozen=True, kw_only=True):
    """`steps` are in the order in which they first began. `reason` is the error that ended
    the run, `failed_step` the step it is from. `from_step` is where a rerun began."""

    version: int | None
    from_step: str | None
    reason: str | None
    steps: list[StepCell]


class RunHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first. Of those that ended: how many completed, how many of these with failed items, and how long they
    took. Drafts are listed, without a version, and reruns from a step, and neither is counted: they say nothing of
    what is registered, or did a part of it."""

    path: str
    runs: list[PlaybookRun]
    steps: list[str]  # of all of them, in one order
    ended: int
    completed: int
    with_failed_items: int
    p50_s: float | None
    p95_s: float | None


async def run_history(services: Services, path: str, limit: int) -> RunHistory:
    rows = await services.store.executions(limit=limit, path=path)
    # Two versions may have the same net; `versions` lists the newest first, so the last one written here is the newest.
    versions = {
        version_row.net_hash: version_row.version
        for version_row in reversed(await services.store.catalog.versions(path))
    }
    runs = [await _run(services, row, versions.get(row.net_hash)) for row in rows]
    # Drafts run under the same path, and their nets are of no version.
    counted = [row for row, run in zip(rows, runs, strict=True) if row.net_hash in versions and run.from_step is None]
    spans = sorted(row.finished_at - row.created_at for row in counted if row.finished_at is not None)
    return RunHistory(
        path=path,
        runs=runs,
        steps=step_order([cell.step for cell in run.steps] for run in runs),
        ended=len(spans),
        completed=sum(row.status == "completed" for row in counted),
        with_failed_items=sum(row.status == "completed" and bool(row.failed_iterations) for row in counted),
        p50_s=round(median(spans), 3) if spans else None,
        p95_s=percentile(spans, 95) if spans else None,
    )


async def _run(services: Services, row: ExecutionRow, version: int | None) -> PlaybookRun:
    runs = await step_runs(services.store, row.execution_id)
    error = await end_error(services.store, row) if row.status in _FAILED else None
    return PlaybookRun(
        **row.readable() | {"failed_step": await failed_step(services.store, row, error)},
        trial=await trial_of(services, row),
        version=version,
        from_step=await first_step_of(services.store, row.execution_id),
        reason=_reason(error) if error is not None else None,
        steps=_cells(runs),
    )


def _reason(error: Error | None) -> str:
    """What went wrong, with what was behind it."""
    messages = []
    while error is not None:
        messages.append(error.message or error.kind)
        error = error.cause
    return ": ".join(messages)


def _cells(runs: list[StepRunView]) -> list[StepCell]:
    by_step: dict[str, list[StepRunView]] = {}
    for run in runs:
        by_step.setdefault(run.step, []).append(run)
    return [
        StepCell(
            step=step,
            status=visits[-1].status,
            duration_s=_total(visits),
            visits=len(visits),
            failed=sum(run.loop.levels[0].failed for run in visits if run.loop is not None),
        )
        for step, visits in by_step.items()
    ]


def _total(runs: list[StepRunView]) -> float | None:
    spans = [run.elapsed_s(run.finished_at) for run in runs if run.finished_at is not None]
    return round(sum(spans), 3) if spans else None


@router.get(
    "/api/catalog/{path:path}/runs", **openapi_docs(RunHistory, summary="The last runs of a playbook, step by step")
)
async def runs(request: Request, path: str, limit: Annotated[int, Query(ge=1, le=100)] = 50) -> Response:
    """How each ended and how long its steps took, for trends and for comparing."""
    services = services_of(request)
    if not await services.store.catalog.versions(path):
        raise not_found("playbook", path)
    return Json(await run_history(services, path, limit))


class CostRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`path` is the playbook whose executions are measured; by default that of the text."""

    source: str
    path: str | None = None


@router.post(
    "/api/cost", **openapi_docs(NetCost, reads=CostRequest, summary="What a net costs, from recent executions")
)
async def cost(request: Request) -> Response:
    """Median and p95 of each step in recent executions that are over, and the longest chain of medians. The text may be
    a draft: a step that no execution had under its name has no history."""
    asked = await read(request, CostRequest)
    found = await check_text(PlaybookText(source=asked.source), proofs=False)
    if found.net is None:
        raise playbook_problem(found)
    path = asked.path or found.net.path
    history = await services_of(request).caches.step_durations.recent(path)
    return Json(await computed(net_cost, found.net, path, history))
