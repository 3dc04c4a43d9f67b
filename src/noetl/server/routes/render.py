"""Rendering a template against what was recorded of an execution (SRV-09). Secrets are not there (reliability.md
§2.1)."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import msgspec
from fastapi import Request, Response

from noetl.base.errors import TemplateError, ToolError
from noetl.engine.execution import Execution
from noetl.engine.pipeline.scopes import Views
from noetl.events.steps import StepScheduled
from noetl.operations.results import newest_event
from noetl.server.bodies import read
from noetl.server.execution_search import execution_of
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import Services, services_of
from noetl.server.views.states import state_of
from noetl.templates.budget import MAX_STEPS
from noetl.templates.render import render_within
from noetl.templates.scope import Scope

router = GuardedRouter(tags=["one execution"])
_LONGEST = 65_536
# Callers write these templates, so they never run on the event loop. They have one thread to themselves: those of
# `asyncio.to_thread` load results and check playbooks, and a row of callers could take all of them.
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


@router.post("/api/render", **shows(Rendered, reads=RenderRequest, summary="Render a template"))
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
        return Json(Rendered(value=value, at=execution.seq))
    except TemplateError as problem:
        place = [{"place": "template", "message": problem.message, "offset": problem.offset}]
        raise ProblemDetails(422, problem.message, kind="template", errors=place) from None
    except ToolError as problem:
        raise ProblemDetails(422, problem.message, kind=problem.kind) from None
    except (TypeError, ValueError, RecursionError):
        raise ProblemDetails(422, "what the template gives is not plain data", kind="template") from None


async def _args(services: Services, execution: Execution, step: str) -> dict[str, Any]:
    for run in execution.runs.values():
        if run.step == step:
            return run.args
    event = await newest_event(services.store, execution.execution_id, StepScheduled.event_type, step=step)
    if event is None or event.seq > execution.seq:
        raise ProblemDetails(422, f'step: "{step}" has not run there')
    scheduled = await services.read_back(event.payload)
    assert isinstance(scheduled, StepScheduled)
    return scheduled.args


def _scope(services: Services, execution: Execution, args: dict[str, Any]) -> Scope:
    names = {
        "args": args,
        "ctx": dict(execution.ctx),
        "vars": dict(execution.ctx),
        "workload": execution.origin.workload,
        "execution_id": execution.execution_id,
    }
    return Scope(names, steps=Views(dict(execution.outputs.results), services.results.load))
