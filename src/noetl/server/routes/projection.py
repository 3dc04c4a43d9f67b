"""Routes below one execution for screens that follow it: the folded state at any event, its loops, one iteration."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from noetl.events.projection.state_history import StateHistory
from noetl.server.execution_search import execution_of
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import services_of
from noetl.server.views.iterations import IterationView, iteration_of
from noetl.server.views.projection import LoopsView, ProjectionView, shown_loops, shown_projection

router = GuardedRouter(tags=["one execution"])
At = Annotated[int | None, Query(ge=1, le=2**31, description="A seq; now without it.")]
Since = Annotated[int, Query(ge=0, le=2**31, description="Only what changed after this seq.")]
Step = Annotated[str | None, Query(max_length=300)]
Path = Annotated[str, Query(pattern=r"^(\d{1,9}(\.\d{1,9}){0,20})?$", description="Of an iteration: `3`, or `3.5`.")]


async def _history(request: Request, execution_id: str) -> StateHistory:
    row = await execution_of(request, execution_id)
    return await services_of(request).histories.of(row)


def _moment(history: StateHistory, at: int | None, since: int) -> int:
    """The event that is meant, after which there is a state to tell."""
    if at is not None and at > history.seq:
        raise ProblemDetails(422, f"at: there are events 1 to {history.seq}, not {at}")
    moment = history.seq if at is None else at
    if since > moment:
        raise ProblemDetails(422, f"since: {since} is after event {moment}; leave it out to go back in time")
    return moment


def _indices(path: str) -> tuple[int, ...]:
    return tuple(int(index) for index in path.split(".")) if path else ()


@router.get(
    "/api/executions/{execution_id}/projection", **shows(ProjectionView, summary="Its steps and side runs at any event")
)
async def projection(request: Request, execution_id: str, at: At = None, since: Since = 0) -> Response:
    """What a screen draws of it: folded from the log, now or as it was after any event. Follow it by asking again
    with `since`, and replace what the answer has, by step and by number."""
    history = await _history(request, execution_id)
    return Json(shown_projection(execution_id, history, _moment(history, at, since), since))


@router.get("/api/executions/{execution_id}/loops", **shows(LoopsView, summary="Its loops at any event"))
async def loops(
    request: Request,
    execution_id: str,
    at: At = None,
    since: Since = 0,
    step: Step = None,
    step_run_id: Step = None,
    path: Path = "",
) -> Response:
    """Every iteration as a digit. Loops inside a loop are told for one iteration: `step_run_id` and `path`."""
    history = await _history(request, execution_id)
    moment, around = _moment(history, at, since), _indices(path)
    return Json(shown_loops(execution_id, history, moment, since, step=step, step_run_id=step_run_id, path=around))


@router.get("/api/executions/{execution_id}/iteration", **shows(IterationView, summary="One iteration of a loop"))
async def iteration(
    request: Request, execution_id: str, step_run_id: Annotated[str, Query(max_length=300)], path: Path
) -> Response:
    history = await _history(request, execution_id)
    return Json(await iteration_of(services_of(request), execution_id, history, step_run_id, _indices(path)))
