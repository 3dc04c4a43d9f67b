"""Routes below one execution for screens that follow it: the folded state at any event, its loops, one iteration with
each attempt of its tasks, and a template rendered against what was recorded (SRV-09).

Secrets are not there to be rendered (reliability.md §2.1).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated, Any

import msgspec
from fastapi import Query, Request, Response

from noetl.base.clock import rfc3339
from noetl.base.errors import TemplateError, ToolError
from noetl.engine.execution import Execution
from noetl.engine.pipeline.scopes import Views
from noetl.events.envelope import Event
from noetl.events.loops import IterationDone, IterationFailed, IterationStarted, LoopStarted
from noetl.events.projection.loop_cells import LoopCells
from noetl.events.projection.state_history import StateHistory
from noetl.events.steps import StepScheduled
from noetl.events.tasks import TaskProcessed
from noetl.operations.results import newest_event
from noetl.server.bodies import read
from noetl.server.execution_control import execution_of
from noetl.server.guarded_router import GuardedRouter, Json, openapi_docs
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import Services, services_of
from noetl.server.views.projection import LoopsView, ProjectionView, loops_view, projection_view
from noetl.server.views.states import state_of
from noetl.store.contract import EventFilter
from noetl.templates.budget import MAX_STEPS
from noetl.templates.render import render_within
from noetl.templates.scope import Scope

MOST_TRIES = 60  # listed; those of an iteration with more are in its events
_PAGE = 1_000
_TYPES = ("loop.iteration.*", TaskProcessed.event_type)


class IterationTry(msgspec.Struct, frozen=True, kw_only=True):
    """One try of a task, as its report says."""

    seq: int
    task: str
    attempt: int
    status: str
    stdout: str | None
    error: dict[str, Any] | None


class IterationView(msgspec.Struct, kw_only=True):
    """`status`: open | running | done | failed | cancelled, with its loop; kept: the execution that this one reruns had
    done it. `has_item` is false where the items
    are stored apart from the log."""

    step: str
    step_run_id: str
    path: list[int]
    status: str = "open"
    started_at: str | None = None
    finished_at: str | None = None
    has_item: bool = False
    item: Any = None
    tries: list[IterationTry] = []
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


async def iteration_of(
    services: Services, execution_id: str, history: StateHistory, step_run_id: str, path: tuple[int, ...]
) -> IterationView:
    cells = history.loops.get((step_run_id, path[:-1]))
    span = cells.span(path[-1]) if cells is not None and path else None
    if cells is None or span is None:
        named = ".".join(map(str, path))
        raise ProblemDetails(404, f"execution {execution_id} has no iteration {named} in step run {step_run_id}")
    view = IterationView(step=cells.step, step_run_id=step_run_id, path=list(path))
    for started in await services.store.events(execution_id, after=cells.seq - 1, only=EventFilter(limit=1)):
        items = started.payload.items if isinstance(started.payload, LoopStarted) else None
        if items is not None and path[-1] < len(items):
            view.has_item, view.item = True, items[path[-1]]
    if cells.is_kept(path[-1]):
        view.status = "kept"
        return view
    async for event in _own_events(services, execution_id, cells, span, path):
        _take(view, event)
    if view.status == "running" and step_run_id in history.loop_ends:
        view.status = "cancelled"
    return view


async def _own_events(
    services: Services, execution_id: str, cells: LoopCells, span: tuple[int, int], path: tuple[int, ...]
) -> AsyncIterator[Event]:
    """From its first event to its last; one that has not begun has none."""
    begun, ended = span
    if not begun and not ended:
        return
    # Between its first event and its last, not the whole log: both are known from the fold.
    after, only = (begun or cells.seq) - 1, EventFilter(types=_TYPES, step=cells.step, limit=_PAGE)
    while page := await services.store.events(execution_id, after=after, only=only):
        for event in page:
            if event.step_run_id == cells.step_run_id and getattr(event.payload, "path", None) == path:
                yield event
            if ended and event.seq >= ended:
                return
        after = page[-1].seq


def _take(view: IterationView, event: Event) -> None:
    match event.payload:
        case IterationStarted():
            view.status, view.started_at = "running", view.started_at or rfc3339(event.ts)
        case IterationDone(result=result):
            view.status, view.finished_at = "done", rfc3339(event.ts)
            view.result = msgspec.to_builtins(result) or None
        case IterationFailed(error=error):
            view.status, view.finished_at, view.error = "failed", rfc3339(event.ts), error.readable()
        case TaskProcessed() as processed if len(view.tries) < MOST_TRIES:
            view.tries.append(_try(processed, event.seq))


def _try(processed: TaskProcessed, seq: int) -> IterationTry:
    outcome = processed.outcome
    return IterationTry(
        seq=seq,
        task=processed.task,
        attempt=processed.attempt,
        status=outcome.status.value,
        stdout=outcome.meta.stdout,
        error=outcome.error.readable() if outcome.error is not None else None,
    )


router = GuardedRouter(tags=["one execution"])
At = Annotated[int | None, Query(ge=1, le=2**31, description="A seq; now without it.")]
Since = Annotated[int, Query(ge=0, le=2**31, description="Only what changed after this seq.")]
Step = Annotated[str | None, Query(max_length=300)]
Path = Annotated[str, Query(pattern=r"^(\d{1,9}(\.\d{1,9}){0,20})?$", description="Of an iteration: `3`, or `3.5`.")]


async def _history(request: Request, execution_id: str) -> StateHistory:
    row = await execution_of(request, execution_id)
    return await services_of(request).caches.histories.of(row)


def _requested_seq(history: StateHistory, at: int | None, since: int) -> int:
    """The number of the requested event; 422 if there is no such event, or `since` is after it."""
    if at is not None and at > history.seq:
        raise ProblemDetails(422, f"at: there are events 1 to {history.seq}, not {at}")
    moment = history.seq if at is None else at
    if since > moment:
        raise ProblemDetails(422, f"since: {since} is after event {moment}; leave it out to go back in time")
    return moment


def _indices(path: str) -> tuple[int, ...]:
    return tuple(int(index) for index in path.split(".")) if path else ()


@router.get(
    "/api/executions/{execution_id}/projection",
    **openapi_docs(ProjectionView, summary="Its steps and side runs at any event"),
)
async def projection(request: Request, execution_id: str, at: At = None, since: Since = 0) -> Response:
    """What a screen draws of it: folded from the log, now or as it was after any event. Follow it by asking again
    with `since`, and replace what the answer has, by step and by number."""
    history = await _history(request, execution_id)
    return Json(projection_view(execution_id, history, _requested_seq(history, at, since), since))


@router.get("/api/executions/{execution_id}/loops", **openapi_docs(LoopsView, summary="Its loops at any event"))
async def loops(
    request: Request,
    execution_id: str,
    at: At = None,
    since: Since = 0,
    step: Step = None,
    step_run_id: Step = None,
    path: Path = "",
) -> Response:
    """Every iteration as a digit. Inner loops are listed for one iteration: `step_run_id` and `path`."""
    history = await _history(request, execution_id)
    moment, iteration = _requested_seq(history, at, since), _indices(path)
    return Json(loops_view(execution_id, history, moment, since, step=step, step_run_id=step_run_id, path=iteration))


@router.get(
    "/api/executions/{execution_id}/iteration", **openapi_docs(IterationView, summary="One iteration of a loop")
)
async def iteration(
    request: Request, execution_id: str, step_run_id: Annotated[str, Query(max_length=300)], path: Path
) -> Response:
    history = await _history(request, execution_id)
    return Json(await iteration_of(services_of(request), execution_id, history, step_run_id, _indices(path)))


# A person types it. The budget of a template bounds its cost as well.
_LONGEST = 65_536
# Callers write these templates, so they never run on the event loop. They have one thread to themselves: those of
# `computed` check playbooks and replay logs, and a row of callers could take all of them.
_RENDERER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="render")


class RenderRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`template` is text, or data with texts in it. With `step`, `args` are those of its latest run; with `at`, it is
    rendered as of that event."""

    execution_id: str
    template: Any
    step: str | None = None
    at: int | None = None


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    value: Any
    at: int


@router.post("/api/render", **openapi_docs(Rendered, reads=RenderRequest, summary="Render a template"))
async def rendered(request: Request) -> Response:
    services, asked = services_of(request), await read(request, RenderRequest)
    if len(msgspec.json.encode(asked.template)) > _LONGEST:
        raise ProblemDetails(422, f"template: at most {_LONGEST} bytes")
    row = await execution_of(request, asked.execution_id)
    execution = await state_of(services, row, asked.at)
    args = await _args(services, execution, asked.step) if asked.step is not None else {}
    scope = _scope(services, execution, args)
    try:
        render = partial(render_within, MAX_STEPS, asked.template, scope, now=services.clock.now())
        value = await asyncio.get_running_loop().run_in_executor(_RENDERER, render)
        return Json(Rendered(value=value, at=execution.log.seq))
    except TemplateError as problem:
        place = [{"place": "template", "message": problem.message, "offset": problem.offset}]
        raise ProblemDetails(422, problem.message, kind="template", errors=place) from None
    except ToolError as problem:
        raise ProblemDetails(422, problem.message, kind=problem.kind) from None
    except (TypeError, ValueError, RecursionError):
        raise ProblemDetails(422, "the value of the template is not plain data", kind="template") from None


async def _args(services: Services, execution: Execution, step: str) -> dict[str, Any]:
    for run in execution.runs.values():
        if run.step == step:
            return run.token.args
    event = await newest_event(services.store, execution.execution_id, StepScheduled.event_type, step=step)
    if event is None or event.seq > execution.log.seq:
        raise ProblemDetails(422, f'step: "{step}" has not run there')
    scheduled = await services.read_back(event.payload)
    assert isinstance(scheduled, StepScheduled)
    return scheduled.args


def _scope(services: Services, execution: Execution, args: dict[str, Any]) -> Scope:
    names = {
        "args": args,
        "ctx": dict(execution.variables.ctx),
        "vars": dict(execution.variables.ctx),
        "workload": execution.origin.workload,
        "execution_id": execution.execution_id,
    }
    return Scope(names, steps=Views(dict(execution.outputs.results), services.results.load))
