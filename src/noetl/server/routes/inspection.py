"""Routes below one execution: what was recorded of it, where it stands, and why (SRV-09, EVT-02, EVT-05, EVT-07)."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Annotated, Any

import msgspec
from fastapi import Query, Request, Response

from noetl.base.clock import rfc3339
from noetl.control.views.live_output import LiveOutput, LiveTaskRun, is_over, lines_after
from noetl.control.views.token_views import SideRunView, TokenView
from noetl.events.envelope import Event
from noetl.events.legacy_names import Names, shown_event
from noetl.events.tasks import TaskProcessed
from noetl.operations import api_shapes, results
from noetl.operations.executions import Explanation, explanation_of, live_side_runs, live_tokens
from noetl.operations.value_pages import ValuePage
from noetl.server.computations import computed
from noetl.server.execution_control import execution_of
from noetl.server.guarded_router import GuardedRouter, Json, openapi_docs
from noetl.server.routes.authoring import GRAPH_MEDIA, GraphFormat, drawing_response
from noetl.server.routes.results import Limit, Offset, Pointer, page_response
from noetl.server.services import Services, services_of
from noetl.server.static_files import ranged
from noetl.server.views.states import StateView, state_of, state_view
from noetl.server.views.timeline import Timeline, timeline
from noetl.server.workers import obstacles_of
from noetl.store.contract import EventFilter


def live_output_page(output: LiveOutput, execution_id: str, after: str, step: str | None) -> api_shapes.LiveOutputPage:
    cursors = dict(cursor.partition(".")[::2] for cursor in after.split(","))  # of each server that the reader has met
    number = cursors.get(output.era, "")
    # Longer numbers are none of ours; `int` of a very long text takes a long time.
    is_known = number.isdecimal() and len(number) < 18 and int(number) <= output.number
    known = int(number) if is_known else 0
    runs = [run for run in output.of_execution(execution_id) if step in (None, run.step)]
    return api_shapes.LiveOutputPage(
        tasks=[_task_view(run, known) for run in runs],
        cursor=f"{output.era}.{output.number}",
        is_whole=not is_known,
    )


def _task_view(run: LiveTaskRun, known: int) -> api_shapes.TaskOutputView:
    of, levels = run.of, results.LineLevels()
    return api_shapes.TaskOutputView(
        task_run_id=of.task_run_id,
        step=run.step,
        task=of.task[:300],
        path=list(of.path),
        attempt=of.attempt,
        lines=[
            api_shapes.OutputLineView(
                ts=rfc3339(line.at),
                stream=line.stream,
                text=line.text,
                level=(levels.next(line.text) or results.NONE)[0],
                lease_epoch=line.lease_epoch,
            )
            for line in lines_after(run, known)
        ],
        total=run.total,
    )


router = GuardedRouter(tags=["one execution"])
_PAGE = 2_000
_PAGE_BYTES = 4 << 20  # of a page of events: an answer is in memory until its reader has taken it
_MOST_LOG_EVENTS = 20_000  # read for one page of logs: with a filter none of them may be wanted
Step = Annotated[str | None, Query(max_length=300)]
After = Annotated[int, Query(ge=0, le=2**62, description="Only events past this number.")]


class TokenList(msgspec.Struct, frozen=True, kw_only=True):
    execution_id: str
    status: str
    tokens: list[TokenView]
    side_runs: list[SideRunView] = []


@router.get("/api/executions/{execution_id}/events", **openapi_docs(api_shapes.EventPage, summary="Its events"))
async def events(
    request: Request,
    execution_id: str,
    after: After = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    types: Annotated[list[str] | None, Query(description="Names, each may hold *; several times or by comma.")] = None,
    step: Step = None,
    names: Names = "dotted",
) -> Response:
    """In the order of `seq`, in pages. One of large events has fewer than its limit, and still a next one."""
    services, row = services_of(request), await execution_of(request, execution_id)
    wanted = tuple(name for text in types or () for name in text.split(",") if name)
    page = await services.store.events(
        execution_id, after=after, only=EventFilter(types=wanted, step=step, limit=limit)
    )
    # The row was read before the events, and the log may have moved on in between.
    last_seq = max(row.last_seq, page[-1].seq if page else 0)
    views = _views(page, names)
    # A full page may be the last one. The client finds out with one more request, which returns nothing.
    beyond = page[len(views) - 1].seq if len(page) == limit or len(views) < len(page) else None
    return Json({"events": views, "next": beyond, "last_seq": last_seq})


def _views(page: list[Event], names: Names) -> list[msgspec.Raw]:
    """The first events of a page, encoded: at least one, and no more than an answer may hold."""
    views: list[msgspec.Raw] = []
    size = 0
    for event in page:
        views.append(msgspec.Raw(msgspec.json.encode(shown_event(event, names))))
        size += len(bytes(views[-1]))
        if size >= _PAGE_BYTES:
            break
    return views


@router.get("/api/executions/{execution_id}/tokens", **openapi_docs(TokenList, summary="Its live tokens"))
async def tokens(request: Request, execution_id: str) -> Response:
    """Where each token is, and what it waits for; and what runs beside them."""
    services, row = services_of(request), await execution_of(request, execution_id)
    execution = await state_of(services, row)
    now = services.clock.now()
    tokens_here = await live_tokens(services.store, execution, now)
    side_runs = await live_side_runs(services.store, execution, now)
    return Json(TokenList(execution_id=execution_id, status=row.status, tokens=tokens_here, side_runs=side_runs))


@router.get("/api/executions/{execution_id}/result", **openapi_docs(api_shapes.ResultView, summary="Its result"))
async def result(request: Request, execution_id: str, step: Step = None) -> Response:
    """What it gave, or what one of its steps gave. 409 while there is none. Large ones can be read by Range."""
    return await _encoded_answer(request, (await _ending(request, execution_id, step)).view(execution_id, step))


async def _encoded_answer(request: Request, content: Any) -> Response:
    # In a thread: both take their time for a large value, and the second lets other threads run.
    body = await computed(msgspec.json.encode, content)
    return ranged(request, body, tag=await computed(lambda: hashlib.sha256(body).hexdigest()))


async def _ending(request: Request, execution_id: str, step: str | None) -> results.RecordedEnding:
    services, row = services_of(request), await execution_of(request, execution_id)
    place = services.store, services.encoded_values, row
    return await (results.execution_ending(*place) if step is None else results.step_ending(*place, step))


@router.get("/api/executions/{execution_id}/result/part", **openapi_docs(ValuePage, summary="A part of its result"))
async def result_part(
    request: Request,
    execution_id: str,
    step: Step = None,
    pointer: Pointer = "",
    offset: Offset = 0,
    limit: Limit = 100,
) -> Response:
    """What a JSON pointer leads to: whole where it is small, else a page of its entries. An execution that failed has
    its error there."""
    ending = await _ending(request, execution_id, step)
    body = await computed(msgspec.json.encode, _value_of(ending))
    return await page_response(body, pointer, offset, limit)


def _value_of(ending: results.RecordedEnding) -> Any:
    return ending.error.readable() if ending.error is not None else ending.result


@router.get("/api/executions/{execution_id}/result/file", **openapi_docs(summary="Its result as a file"))
async def result_file(request: Request, execution_id: str, step: Step = None) -> Response:
    """The value alone, as JSON."""
    answer = await _encoded_answer(request, _value_of(await _ending(request, execution_id, step)))
    answer.headers["content-disposition"] = f'attachment; filename="{execution_id}.json"'
    return answer


@router.get("/api/executions/{execution_id}/ctx", **openapi_docs(dict[str, Any], summary="Its variables"))
async def ctx(request: Request, execution_id: str) -> Response:
    return await _ctx(request, execution_id)


@router.get(
    "/api/executions/{execution_id}/vars", **openapi_docs(dict[str, Any], summary="Its variables, by the older name")
)
async def variables(request: Request, execution_id: str) -> Response:
    return await _ctx(request, execution_id)


async def _ctx(request: Request, execution_id: str) -> Response:
    services, row = services_of(request), await execution_of(request, execution_id)
    return Json(await results.recorded_ctx(services.store, services.control.executions.values, row.execution_id))


@router.get("/api/executions/{execution_id}/logs", **openapi_docs(api_shapes.LogPage, summary="What its tasks printed"))
async def logs(
    request: Request,
    execution_id: str,
    step: Step = None,
    task: Step = None,
    after: After = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    find: Annotated[str, Query(max_length=1000, description="A text in the output, the error or a name.")] = "",
    failed: Annotated[bool, Query(description="Only task runs that failed.")] = False,
    path: Annotated[str, Query(max_length=200, description="Of an iteration: `3`, or `3.5`.")] = "",
    level: Annotated[
        results.Level | None, Query(description="Only entries with a line of this level or above.")
    ] = None,
) -> Response:
    """One entry for each task run that printed something or failed. A page may hold fewer entries than its limit, or
    none, and still have a next one: a server reads a part of a long log at a time."""
    services = services_of(request)
    await execution_of(request, execution_id)
    wanted = results.LogFilter(task=task, find=find.strip(), failed=failed, path=path, level=level)
    lines: list[api_shapes.LogLine] = []
    read, only = 0, EventFilter(types=(TaskProcessed.event_type,), step=step, limit=_PAGE)
    while page := await services.store.events(execution_id, after=after, only=only):
        for event in page:
            after = event.seq
            if (line := await _line(event, services, wanted)) is not None:
                lines.append(line)
                await asyncio.sleep(0)  # looking for levels takes its time: others get their turn
                if len(lines) == limit:
                    return Json(api_shapes.LogPage(lines=lines, next=after))
        read += len(page)
        if read >= _MOST_LOG_EVENTS:
            return Json(api_shapes.LogPage(lines=lines, next=after))
    return Json(api_shapes.LogPage(lines=lines, next=None))


@router.get(
    "/api/executions/{execution_id}/output",
    **openapi_docs(api_shapes.LiveOutputPage, summary="What its tasks print now"),
)
async def output(
    request: Request,
    execution_id: str,
    after: Annotated[str, Query(max_length=1000, description="The `cursor` of earlier answers, by comma.")] = "",
    step: Step = None,
) -> Response:
    """The newest lines of tasks that run, in memory and best effort: those that this server has heard of, and not yet
    in the log. `/api/stream` says when there are more."""
    services, row = services_of(request), await execution_of(request, execution_id)
    # Another server may have stored its end: this one would keep the lines until they are pushed out.
    if is_over(row):
        services.listeners.live_output.forget_execution(execution_id)
    return Json(live_output_page(services.listeners.live_output, execution_id, after, step))


async def _line(event: Any, services: Services, wanted: results.LogFilter) -> api_shapes.LogLine | None:
    """Values that are stored apart are read only for what may be shown."""
    line = results.log_line(event, event.payload)
    if line is None or not wanted.admits(line):
        return None
    # Judged twice: without stored values as far as that goes, and again with them, since `find` may mean a text in
    # them.
    line = results.log_line(event, await services.read_back(event.payload))
    return line if line is not None and wanted.matches(line) else None


@router.get("/api/executions/{execution_id}/steps", **openapi_docs(Timeline, summary="Its step runs with their times"))
async def steps(request: Request, execution_id: str) -> Response:
    row = await execution_of(request, execution_id)
    return Json(await timeline(services_of(request), row))


@router.get("/api/executions/{execution_id}/state", **openapi_docs(StateView, summary="Its state at any event"))
async def state(
    request: Request, execution_id: str, at: Annotated[int | None, Query(description="A seq; now without it.")] = None
) -> Response:
    """Replayed from the log: marking, variables, step runs, results."""
    services, row = services_of(request), await execution_of(request, execution_id)
    return Json(state_view(await state_of(services, row, at)))


@router.get("/api/executions/{execution_id}/explain", **openapi_docs(Explanation, summary="Why it is where it is"))
async def explain(request: Request, execution_id: str) -> Response:
    services, row = services_of(request), await execution_of(request, execution_id)
    execution = await state_of(services, row)
    obstacles = await obstacles_of(services, execution) if execution.is_open else []
    return Json(await explanation_of(services.store, row, execution, services.clock.now(), obstacles))


@router.get("/api/executions/{execution_id}/graph", **openapi_docs(media=GRAPH_MEDIA, summary="Its net as a picture"))
async def graph(
    request: Request, execution_id: str, form: Annotated[GraphFormat, Query(alias="format")] = "svg"
) -> Response:
    services, row = services_of(request), await execution_of(request, execution_id)
    return await drawing_response(await services.control.executions.net(row.net_hash), form)
