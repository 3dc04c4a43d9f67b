"""The worker's side of the API: reporting and claiming, heartbeats, secrets, nested playbooks, nets (WRK-01, SRV-04).

Bodies go past the framework: raw bytes in, Structs by msgspec. Every request is one of a worker's, under its token: a
worker id belongs to the token that registered it, and orders come from the token's pools only.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from fastapi import Request, Response

from noetl.base.crash_points import crash_point
from noetl.base.errors import AbsentError, BackendError
from noetl.control.claiming.pools import EVERY
from noetl.control.nested.call_grants import CallRefusedError
from noetl.control.nested.calls import child_id_of
from noetl.control.secrets.release import SecretRefusedError
from noetl.events.orders import MAX_BATCH_BYTES, OutputBatch, PlaybookCall, PlaybookCallResult, Turn, TurnAnswer
from noetl.events.secret_materials import Ask, Material
from noetl.events.worker_protocol import read_turn
from noetl.server.bodies import JSON, body_of, invalid, require
from noetl.server.guarded_router import GuardedRouter, Json, shows
from noetl.server.problem_details import ProblemDetails, unknown
from noetl.server.services import Services, identity_of, services_of
from noetl.server.workers import WorkerRow

router = GuardedRouter(tags=["workers"])
PROTOCOL, HEADER = "1", "noetl-protocol"
UNREGISTERED = "unregistered"
# Proxies close connections that are silent for longer.
LONGEST_S = 60.0
T = TypeVar("T")
_HASH = re.compile(r"[0-9a-zA-Z:_-]{1,128}")


class Beat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker holds: order id and epoch. `ttls`: how long those last whose order says so, in seconds."""

    worker_id: str
    leases: dict[str, int]
    ttls: dict[str, float] = {}


class Beaten(msgspec.Struct, frozen=True, kw_only=True):
    """`lost` are no longer its own; `stop` are its own, and nobody wants them any more."""

    lost: list[str]
    stop: list[str] = []


class GiveUp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    call: PlaybookCall
    reason: str


_beats = msgspec.json.Decoder(Beat)
_asks = msgspec.json.Decoder(Ask)
_calls = msgspec.json.Decoder(PlaybookCall)
_batches = msgspec.json.Decoder(OutputBatch)
_give_ups = msgspec.json.Decoder(GiveUp)


_WAIT_S = {  # read by hand: the framework's own way took a tenth of a turn
    "name": "wait_s",
    "in": "query",
    "required": False,
    "schema": {"type": "number", "minimum": 0, "maximum": LONGEST_S, "default": 0},
}


def _with_wait(shown: dict[str, Any]) -> dict[str, Any]:
    return {**shown, "openapi_extra": {**shown["openapi_extra"], "parameters": [_WAIT_S]}}


def _patience(request: Request) -> float:
    """How long the worker would wait for an order."""
    text = request.query_params.get("wait_s", "0")
    with suppress(ValueError):
        if 0 <= (seconds := float(text)) <= LONGEST_S:
            return seconds
    raise ProblemDetails(422, f'wait_s: 0 to {LONGEST_S:g} seconds, found "{text[:50]}"')


@router.post("/api/orders/turn", **_with_wait(shows(TurnAnswer, reads=Turn, summary="Report, and take orders")))
async def turn(request: Request) -> Response:
    """What is reported is durable when this is answered. With nothing to report and no order to give, it is answered
    after `wait_s` at most."""
    services = services_of(request)
    # Before anything is awaited: the worker counts its leases from this moment, whatever happens to the answer on its
    # way.
    came_at = services.clock.now()
    check_protocol(request)
    wait_s, asked = _patience(request), await _turn(request, services)
    await services.roster.note_contact(asked.worker_id)
    # Once without waiting, in any case: orders may be ready, and what the worker missed is looked up here.
    answer = await _take_turn(services, asked)
    if not answer.orders and not asked.reports and asked.capacity and wait_s:
        answer = await _waited(request, services, asked, min(wait_s, services.settings.long_poll_s))
    crash_point("claim.before_reply" if answer.orders else "turn.before_reply")
    told = {"noetl-asked": f"{came_at:.3f}", "noetl-now": f"{services.clock.now():.3f}"}
    return Json(answer, headers=told)


async def _waited(request: Request, services: Services, asked: Turn, wait_s: float) -> TurnAnswer:
    """Orders, once there are some: handed out to whoever waits, or claimed when the bell has rung."""

    async def is_gone() -> bool:
        """An order given now would have nobody, or another server gives it."""
        return services.stopping or await request.is_disconnected()

    now = asyncio.get_running_loop().time
    answer, until = TurnAnswer(), now() + wait_s
    while not answer.orders and not services.stopping and (left := until - now()) > 0:
        # In pieces of `poll_s`: a wake-up from another server may be lost, so the store is asked now and then.
        wakeups = services.dispatch.wait(asked.pools, timeout=min(left, services.settings.poll_s))
        if given := await services.control.for_workers.polls.wait(asked, is_gone, wakeups):
            return TurnAnswer(orders=given)
        if await is_gone():
            break
        answer = await _take_turn(services, asked)
    return answer


async def _take_turn(services: Services, asked: Turn) -> TurnAnswer:
    began = time.perf_counter()
    try:
        return await services.control.for_workers.turn(asked)
    finally:
        services.listeners.meters.turns.observe(time.perf_counter() - began)


async def _turn(request: Request, services: Services) -> Turn:
    require(request, JSON)
    body = await body_of(request, services.settings.max_result_bytes)
    try:
        asked = read_turn(body)
    except msgspec.ValidationError as problem:
        raise invalid(problem) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ProblemDetails(400, f"the body is no turn: {str(problem)[:200]}", kind="json") from None
    if asked.capacity < 0:
        raise ProblemDetails(422, "capacity: it is 0 or more", kind="body")
    await check_turn(request, services, asked)
    return asked


async def check_turn(request: Request, services: Services, asked: Turn) -> None:
    """403 for a turn that speaks for another token's worker, or asks for orders of a pool that is not the token's."""
    await check_worker(request, asked.worker_id)
    if any(report.worker_id != asked.worker_id for report in asked.reports):
        raise ProblemDetails(403, "a report speaks for another worker than the turn it came with", kind="identity")
    check_pools(request, asked.pools)
    for execution_id in {report.execution_id for report in asked.reports}:
        # What is in memory exists; for all others one look at the store, before a batch is spent on them.
        if not services.control.executions.drives(execution_id):
            await _check_execution(request, execution_id)


async def check_worker(request: Request, worker_id: str) -> None:
    """Nobody speaks for a worker but the token it came with (reliability.md §2.3)."""
    row = await services_of(request).roster.get(worker_id)
    if row is None:
        detail = "no worker of this id is registered: POST /api/workers gives one"
        raise ProblemDetails(403, detail, kind=UNREGISTERED)
    check_own(row, identity_of(request).token_id)


def check_own(row: WorkerRow, token_id: str) -> None:
    """403 for a worker that another token has registered, or the one in the server's own process."""
    if not token_id or row.token_id != token_id:
        raise ProblemDetails(403, "this worker id belongs to another token", kind="identity")


@router.post("/api/orders/heartbeat", **shows(Beaten, reads=Beat, summary="Prolong leases"))
async def heartbeat(request: Request) -> Response:
    services = services_of(request)
    check_protocol(request)
    beat = await _decoded(request, _beats)
    await check_worker(request, beat.worker_id)
    lost = await services.control.for_workers.renew(beat.worker_id, beat.leases, beat.ttls)
    await services.roster.note_contact(beat.worker_id, {one: at for one, at in beat.leases.items() if one not in lost})
    return Json(Beaten(lost=sorted(lost)))


@router.post("/api/orders/secret", **shows(Material, reads=Ask, summary="One secret, for the holder of an order"))
async def secret(request: Request) -> Response:
    """In memory only: neither side writes it down (KEY-07)."""
    check_protocol(request)
    ask = await _decoded(request, _asks)
    await check_worker(request, ask.worker_id)
    await _check_execution(request, ask.execution_id)
    try:
        material = await services_of(request).control.for_workers.secret(ask)
    except SecretRefusedError as problem:  # 403, so that the audit log has it
        told = {"kind": problem.kind, "message": problem.message}
        raise ProblemDetails(403, problem.message, kind="tool", error=told) from None
    return Json(material, headers={"cache-control": "no-store"})


@router.post("/api/orders/output", **shows(reads=OutputBatch, status=204, summary="Lines that tasks print"))
async def output(request: Request) -> Response:
    """In memory only, for those who look while a task runs. Lines of orders that the worker does not hold are
    dropped without a word: they are best effort."""
    check_protocol(request)
    batch = await _decoded(request, _batches, MAX_BATCH_BYTES)
    await check_worker(request, batch.worker_id)
    await services_of(request).control.for_workers.show_output(batch)
    return Response(status_code=204)


@router.post(
    "/api/orders/call",
    **shows(PlaybookCallResult, reads=PlaybookCall, summary="Start a nested playbook, and wait for it"),
)
async def call(request: Request) -> Response:
    """Answers `running` when its end takes longer than a request should: ask again, it is the same child."""
    services = services_of(request)
    check_protocol(request)
    asked = await _decoded(request, _calls)
    await check_worker(request, asked.worker_id)
    await _check_execution(request, asked.execution_id)
    await _check_call(services, asked)
    # By the lease too: whoever joins a call that is waited for has not been asked whether the order is held.
    key = f"{asked.task_run_id} {asked.order_id} {asked.lease_epoch} {asked.worker_id}"
    waiting = services.calls.get(key)
    if waiting is None:
        waiting = services.calls[key] = asyncio.ensure_future(services.control.for_workers.call(asked))
        waiting.add_done_callback(lambda _: services.calls.pop(key, None))
        waiting.add_done_callback(_read_outcome)
    done, _ = await asyncio.wait({waiting}, timeout=services.settings.call_poll_s)
    if not done:
        return Json(PlaybookCallResult(execution_id=child_id_of(asked.task_run_id), status="running"))
    if waiting.cancelled():
        # Passing, not refused: the worker asks another server, and finds the same child there.
        raise BackendError("the server is about to stop")
    return Json(waiting.result())


async def _check_call(services: Services, asked: PlaybookCall) -> None:
    """403 for a playbook that the task of the held order does not call (reliability.md §2.3)."""
    try:
        await services.control.for_workers.check_call(asked)
    except CallRefusedError as problem:
        told = {"kind": problem.kind, "message": problem.message, "details": problem.details}
        raise ProblemDetails(403, problem.message, kind="tool", error=told) from None


def _read_outcome(waiting: asyncio.Future[PlaybookCallResult]) -> None:
    """What it ended with is told to whoever asks, and is nobody's unheard error."""
    if not waiting.cancelled():
        waiting.exception()


@router.post("/api/orders/give-up", **shows(reads=GiveUp, status=204, summary="Nobody waits for a child any more"))
async def give_up(request: Request) -> Response:
    check_protocol(request)
    asked = await _decoded(request, _give_ups)
    await check_worker(request, asked.call.worker_id)
    await _check_execution(request, asked.call.execution_id)
    try:
        await services_of(request).control.for_workers.abandon(asked.call, asked.reason)
    except CallRefusedError as problem:
        raise ProblemDetails(403, problem.message, kind="identity") from None
    return Response(status_code=204)


@router.get("/api/nets/{net_hash}", **shows(dict[str, Any], summary="A compiled playbook"))
async def net(request: Request, net_hash: str) -> Response:
    if not _HASH.fullmatch(net_hash):
        raise unknown("net", net_hash)
    try:
        body = await services_of(request).store.net(net_hash)
    except AbsentError:  # and no other: who hears that there is none gives up, and a store that is away comes back
        raise unknown("net", net_hash) from None
    headers = {"cache-control": "private, max-age=31536000, immutable"}  # its name is its content
    return Response(body, headers=headers, media_type="application/json")


def check_pools(request: Request, wanted: tuple[str, ...]) -> None:
    """403 for orders of a pool that the worker's token is not for."""
    allowed = identity_of(request).pools
    if EVERY not in allowed and (others := sorted(set(wanted) - allowed)):
        serves = ", ".join(sorted(allowed)) or "none"
        way_out = f"make one with noetl token create NAME --role worker {' '.join(f'--pool {one}' for one in others)}"
        raise ProblemDetails(403, f"this token serves the pools {serves}, not {', '.join(others)}: {way_out}")


def check_protocol(request: Request) -> None:
    """426 for a worker of another generation, in words its operator understands (reliability.md §3.8)."""
    spoken = request.headers.get(HEADER)
    if spoken != PROTOCOL:
        told = f'"{spoken[:20]}"' if spoken else "none"
        detail = f"this server speaks worker protocol {PROTOCOL}, the worker {told}: install the same version of both"
        raise ProblemDetails(426, detail, headers={"upgrade": f"noetl/{PROTOCOL}"})


async def _check_execution(request: Request, execution_id: str) -> None:
    if await services_of(request).store.execution(execution_id) is None:
        raise unknown("execution", execution_id)


async def _decoded(request: Request, decoder: msgspec.json.Decoder[T], most_bytes: int | None = None) -> T:
    require(request, JSON)
    try:
        return decoder.decode(await body_of(request, most_bytes))
    except msgspec.ValidationError as problem:
        raise invalid(problem) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ProblemDetails(400, f"the body is not JSON: {str(problem)[:200]}", kind="json") from None
