"""Routes of limits: how many executions of a playbook, or runs of a step, go on at once, changed while they do."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Query, Request, Response

from noetl.engine.commands import ChangeLimit
from noetl.events.control import StepRate
from noetl.net.net import from_json
from noetl.operations.api_shapes import PlaybookLimitView, StepLimitView
from noetl.operations.limits import limit_playbook, limit_step, playbook_limits, step_limits
from noetl.server.bodies import read
from noetl.server.execution_control import execution_of
from noetl.server.guarded_router import GuardedRouter, Json, openapi_docs
from noetl.server.services import Services, identity_of, services_of
from noetl.server.views.states import state_of
from noetl.store.contract import ExecutionRow

router = GuardedRouter(tags=["limits"])


class PlaybookLimiting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """So many executions at once."""

    limit: int
    reason: str | None = None


class LimitRate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """So many in any `per` seconds."""

    limit: int
    per: float


class StepLimiting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """So many runs at once, or begun in a time. Null: as the playbook says; what is left out stays as it is."""

    limit: int | msgspec.UnsetType | None = msgspec.UNSET
    rate: LimitRate | msgspec.UnsetType | None = msgspec.UNSET
    reason: str | None = None


class PlaybookLimitList(msgspec.Struct, frozen=True, kw_only=True):
    limits: list[PlaybookLimitView]


class StepLimitList(msgspec.Struct, frozen=True, kw_only=True):
    limits: list[StepLimitView]


class PlaybookLimited(msgspec.Struct, frozen=True, kw_only=True):
    """`changed` is false when it was so already."""

    changed: bool
    limits: list[PlaybookLimitView]


class StepLimited(msgspec.Struct, frozen=True, kw_only=True):
    """`changed` is false when it was so already."""

    changed: bool
    limit: StepLimitView | None


@router.get("/api/limits", **openapi_docs(PlaybookLimitList, summary="Limits of playbooks"))
async def limits(request: Request, path: Annotated[str | None, Query(max_length=500)] = None) -> Response:
    """The limits that were set, and those of running executions."""
    return Json(PlaybookLimitList(limits=await _of_playbooks(services_of(request), path)))


@router.put(
    "/api/limits/{path:path}", **openapi_docs(PlaybookLimited, reads=PlaybookLimiting, summary="Limit a playbook")
)
async def set_playbook(request: Request, path: str) -> Response:
    """From now on, on every server, in place of what the playbook says. Those that wait are let in at once where there
    is room; nothing that runs is stopped."""
    asked = await read(request, PlaybookLimiting)
    return Json(await _limit_playbook(request, path, asked.limit, asked.reason))


@router.delete("/api/limits/{path:path}", **openapi_docs(PlaybookLimited, summary="Reset the limit of a playbook"))
async def reset_playbook(request: Request, path: str) -> Response:
    """It is as the playbook says again."""
    return Json(await _limit_playbook(request, path, None))


async def _limit_playbook(request: Request, path: str, limit: int | None, reason: str | None = None) -> PlaybookLimited:
    services, actor = services_of(request), str(identity_of(request).subject)
    gate = services.control.background_jobs.gate
    changed = await limit_playbook(services.store, gate.limits, path, limit, actor=actor, reason=reason)
    # A higher limit lets waiting executions in at once, instead of with the next sweep.
    await gate.look_at(path)
    return PlaybookLimited(changed=changed, limits=await _of_playbooks(services, path))


@router.get("/api/executions/{execution_id}/limits", **openapi_docs(StepLimitList, summary="Limits of its steps"))
async def of_execution(request: Request, execution_id: str) -> Response:
    """Of the steps that have a limit or a rate, with how many run and wait under it."""
    row = await execution_of(request, execution_id)
    return Json(StepLimitList(limits=await _of_steps(services_of(request), row)))


@router.put(
    "/api/executions/{execution_id}/limits/{step:path}",
    **openapi_docs(StepLimited, reads=StepLimiting, summary="Limit a step of an execution"),
)
async def set_step(request: Request, execution_id: str, step: str) -> Response:
    """From now on, in this execution alone. Runs that wait begin at once where there is room; nothing is stopped."""
    row, asked = await execution_of(request, execution_id), await read(request, StepLimiting)
    rate = asked.rate
    wanted = StepRate(limit=rate.limit, per_s=rate.per) if isinstance(rate, LimitRate) else rate
    return Json(await _limit_answer(request, row, step, limit=asked.limit, rate=wanted, reason=asked.reason))


@router.delete(
    "/api/executions/{execution_id}/limits/{step:path}",
    **openapi_docs(StepLimited, summary="Reset the limits of a step"),
)
async def reset_step(request: Request, execution_id: str, step: str) -> Response:
    """They are as the playbook says again."""
    row = await execution_of(request, execution_id)
    return Json(await _limit_answer(request, row, step, limit=None, rate=None))


async def _limit_answer(
    request: Request,
    row: ExecutionRow,
    step: str,
    *,
    limit: int | msgspec.UnsetType | None,
    rate: StepRate | msgspec.UnsetType | None,
    reason: str | None = None,
) -> StepLimited:
    services, actor = services_of(request), str(identity_of(request).subject)
    command = ChangeLimit(at=services.clock.now(), step=step, limit=limit, rate=rate, actor=actor, reason=reason)
    changed = await limit_step(services.control.executions, row.execution_id, command)
    # Read again, since the command has changed the state that the answer shows.
    now = await services.store.execution(row.execution_id) or row
    limit_view = next((view for view in await _of_steps(services, now) if view.step == step), None)
    return StepLimited(changed=changed, limit=limit_view)


async def _of_playbooks(services: Services, path: str | None) -> list[PlaybookLimitView]:
    return await playbook_limits(services.store.key_values, services.control.background_jobs.gate.limits, path)


async def _of_steps(services: Services, row: ExecutionRow) -> list[StepLimitView]:
    net = from_json(await services.store.net(row.net_hash))
    return step_limits(net, await state_of(services, row))
