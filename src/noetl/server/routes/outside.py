"""What comes from outside to executions that wait: messages, signals, events, timers cancelled (MSG, TMR-04)."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from noetl.base.clock import rfc3339
from noetl.control.outside.delivery import MESSAGE_TTL_S, DeliveryResult
from noetl.events.legacy_names import is_system_name
from noetl.events.waits import TimerCancelled, TimerFired, TimerScheduled
from noetl.operations.api_shapes import TimerList, TimerView
from noetl.server.bodies import read
from noetl.server.execution_search import execution_of
from noetl.server.guarded_router import Json, shows
from noetl.server.problem_details import ProblemDetails, unknown
from noetl.server.services import Services, identity_of, services_of
from noetl.store.contract import SingleRow

router = APIRouter(tags=["from outside"])
INJECTABLE = frozenset({"message.received", "signal.received", "timer.fired"})  # MSG-06
_AMONG = 500  # open executions whose timers are listed


class MessageBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same `message_id` counts once. One that nobody waits for is kept for `ttl` seconds, a day without it."""

    name: str
    correlation: dict[str, Any] = {}
    payload: Any = None
    message_id: str | None = None
    ttl: float = MESSAGE_TTL_S


class SignalBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """To one execution, or to all that listen."""

    name: str
    data: Any = None
    execution_id: str | None = None
    signal_id: str | None = None


class Signalled(msgspec.Struct, frozen=True, kw_only=True):
    """The executions that heard it."""

    name: str
    heard: list[str]


class Injected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same `key` counts once."""

    name: str
    data: Any = None
    key: str | None = None


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """`changed` is false when the same was asked before."""

    changed: bool


@router.post("/api/messages", **shows(DeliveryResult, reads=MessageBody, status=202, summary="Send a message"))
async def message(request: Request) -> Response:
    """Once this is answered it is durable. It goes to exactly one waiting step, the one that waited longest."""
    asked = await read(request, MessageBody)
    sent = await services_of(request).background_jobs.deliveries.send_message(
        asked.name, asked.correlation, asked.payload, message_id=asked.message_id, ttl_s=asked.ttl
    )
    return Json(sent, 202)


@router.post("/api/signals", **shows(Signalled, reads=SignalBody, summary="Broadcast a signal"))
async def signal(request: Request) -> Response:
    """To everybody who listens now; it is not kept."""
    asked = await read(request, SignalBody)
    if asked.execution_id is not None:
        await execution_of(request, asked.execution_id)
    heard = await services_of(request).background_jobs.deliveries.send_signal(
        asked.name, asked.data, execution_id=asked.execution_id, signal_id=asked.signal_id
    )
    return Json(Signalled(name=asked.name, heard=heard))


@router.post(
    "/api/executions/{execution_id}/events", **shows(Accepted, reads=Injected, status=202, summary="Put an event in")
)
async def inject(request: Request, execution_id: str) -> Response:
    """An event of your own for rules and handlers that listen. Names of the system's are not for you: 400."""
    await execution_of(request, execution_id)
    asked = await read(request, Injected)
    if is_system_name(asked.name) and asked.name not in INJECTABLE:
        raise ProblemDetails(
            400, f'"{asked.name}" is an event of the system; of those, {", ".join(sorted(INJECTABLE))} may come'
        )
    changed = await services_of(request).background_jobs.deliveries.inject(
        execution_id, asked.name, asked.data, event_key=asked.key
    )
    return Json(Accepted(changed=changed), 202)


@router.get("/api/executions/{execution_id}/timers", **shows(TimerList, summary="Its running timers"))
async def timers(request: Request, execution_id: str) -> Response:
    await execution_of(request, execution_id)
    return Json(TimerList(timers=await _running(services_of(request), execution_id)))


@router.get("/api/timers", **shows(TimerList, summary="Running timers"))
async def all_timers(request: Request) -> Response:
    """Those of open executions, the nearest first; of very many, those of the 500 that are due first."""
    services = services_of(request)
    found = [timer async for timer in _of_all(services)]
    return Json(TimerList(timers=sorted(found, key=lambda timer: (timer.due_at, timer.id))))


@router.post("/api/timers/{timer_id}/cancel", **shows(Accepted, summary="Cancel a timer"))
async def cancel(request: Request, timer_id: str) -> Response:
    """By its own id, as lists tell it. Only timers whose author allows it can be cancelled."""
    services = services_of(request)
    execution_id = await services.store.timed(timer_id)
    if execution_id is None:
        raise unknown("timer", timer_id)
    actor = str(identity_of(request).subject)
    changed = await services.background_jobs.deliveries.cancel_timer(execution_id, timer_id, actor=actor)
    return Json(Accepted(changed=changed))


async def _of_all(services: Services) -> AsyncIterator[TimerView]:
    """Of executions that time will move, the nearest first, and of paused ones, the newest first."""
    soon = await services.store.due(now=math.inf, limit=_AMONG)
    for row in [*soon, *await services.store.executions(limit=_AMONG, status="paused")]:
        for timer in await _running(services, row.execution_id):
            yield timer


async def _running(services: Services, execution_id: str) -> list[TimerView]:
    """Those that have neither fired nor been cancelled, the nearest first."""
    found: dict[str, tuple[float, TimerView]] = {}
    for event in await services.store.events(execution_id, only=SingleRow(types=("timer.*",))):
        payload = event.payload
        if isinstance(payload, TimerScheduled):
            found[payload.wait_id] = (
                payload.due_at,
                TimerView(
                    id=payload.wait_id,
                    timer=payload.timer_id,
                    execution_id=execution_id,
                    step=event.step,
                    due_at=rfc3339(payload.due_at),
                    cancellable=payload.cancellable,
                ),
            )
        elif isinstance(payload, TimerFired | TimerCancelled):
            found.pop(payload.wait_id, None)
    return [view for _, view in sorted(found.values(), key=lambda one: one[0])]
