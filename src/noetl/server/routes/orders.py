"""The worker's side of the API: reporting and claiming, heartbeats, secrets, nested playbooks, nets (WRK-01, SRV-04).

Bodies bypass the framework: msgspec decodes the raw bytes. Every request comes from a worker with its token: a worker
id belongs to the token that registered it, and orders come only from the pools of the token.
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
from noetl.control.commit.sharing import NEAR_BYTES
from noetl.control.nested.call_grants import CallRefusedError
from noetl.control.nested.calls import child_id_of
from noetl.control.secrets.release import SecretRefusedError
from noetl.events.orders import (
    MAX_BATCH_BYTES,
    MAX_TURN_BYTES,
    MAX_TURN_ENTRIES,
    MAX_TURN_REPORTS,
    OutputBatch,
    PlaybookCall,
    PlaybookCallResult,
    Turn,
    TurnAnswer,
    is_oversized,
    read_turn,
)
from noetl.events.secret_materials import Ask, Material
from noetl.server.bodies import JSON, body_of, invalid_body, require_media_type
from noetl.server.guarded_router import GuardedRouter, Json, openapi_docs
from noetl.server.problem_details import ProblemDetails, not_found
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
    """The leases of a worker: order id and epoch. `ttls` are lease times in seconds of orders with their own."""

    worker_id: str
    leases: dict[str, int]
    ttls: dict[str, float] = {}


class Beaten(msgspec.Struct, frozen=True, kw_only=True):
    """The worker no longer holds `lost` orders. It holds `stop` orders, but they are no longer needed."""

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


# Parsed by hand: the framework's parsing took a tenth of the time of a turn.
_WAIT_S = {
    "name": "wait_s",
    "in": "query",
    "required": False,
    "schema": {"type": "number", "minimum": 0, "maximum": LONGEST_S, "default": 0},
}


def _with_wait(shown: dict[str, Any]) -> dict[str, Any]:
    return {**shown, "openapi_extra": {**shown["openapi_extra"], "parameters": [_WAIT_S]}}


def _wait_seconds(request: Request) -> float:
    """How long the worker waits for an order."""
    text = request.query_params.get("wait_s", "0")
    with suppress(ValueError):
        if 0 <= (seconds := float(text)) <= LONGEST_S:
            return seconds
    raise ProblemDetails(422, f'wait_s: 0 to {LONGEST_S:g} seconds, found "{text[:50]}"')


@router.post("/api/orders/turn", **_with_wait(openapi_docs(TurnAnswer, reads=Turn, summary="Report, and take orders")))
async def turn(request: Request) -> Response:
    """What is reported is durable when this is answered. With nothing to report and no order to give, it is answered
    after `wait_s` at most."""
    services = services_of(request)
    # Before the first await: the worker counts its leases from this moment, however long the answer takes.
    received_at = services.clock.now()
    check_protocol(request)
    wait_s, asked = _wait_seconds(request), await _turn(request, services)
    await services.roster.note_contact(asked.worker_id)
    # First without waiting: orders may be ready already.
    answer = await _take_turn(services, asked)
    # A turn with reports is answered at once: the worker waits for the confirmation that they are stored.
    if not answer.orders and not asked.reports and asked.capacity and wait_s:
        answer = await _wait_for_orders(request, services, asked, min(wait_s, services.settings.long_poll_s))
    crash_point("claim.before_reply" if answer.orders else "turn.before_reply")
    # Both times are of the store's clock: from them the worker counts its leases on its own monotonic clock.
    times = {"noetl-asked": f"{received_at:.3f}", "noetl-now": f"{services.clock.now():.3f}"}
    return Json(answer, headers=times)


async def _wait_for_orders(request: Request, services: Services, asked: Turn, wait_s: float) -> TurnAnswer:
    """Wait for orders: handed out to this poll, or claimed after a wake-up."""

    async def is_gone() -> bool:
        """Whether the worker has disconnected or the server stops: an order must not be handed out then."""
        return services.stopping or await request.is_disconnected()

    now = asyncio.get_running_loop().time
    answer, deadline = TurnAnswer(), now() + wait_s
    while not answer.orders and not services.stopping and (left := deadline - now()) > 0:
        # In pieces of `poll_s`: a wake-up from another server may be lost, so the store is polled as well.
        wakeups = services.dispatch.wait(asked.pools, timeout=min(left, services.settings.poll_s))
        if orders := await services.control.for_workers.polls.wait(asked, is_gone, wakeups):
            return TurnAnswer(orders=orders)
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
    require_media_type(request, JSON)
    body = await body_of(request, min(services.settings.max_result_bytes, MAX_TURN_BYTES))
    try:
        # A large one in a thread: other requests are served between its steps.
        asked = read_turn(body) if len(body) <= NEAR_BYTES else await asyncio.to_thread(read_turn, body)
    except msgspec.ValidationError as problem:
        raise invalid_body(problem) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ProblemDetails(400, f"the body is not a turn: {str(problem)[:200]}", kind="json") from None
    if asked.capacity < 0:
        raise ProblemDetails(422, "capacity: it is 0 or more", kind="body")
    if is_oversized(asked):
        most = f"at most {MAX_TURN_REPORTS} reports with {MAX_TURN_ENTRIES} entries in all"
        raise ProblemDetails(422, f"reports: a turn has {most}; send several turns", kind="body")
    await check_turn(request, services, asked)
    return asked


async def check_turn(request: Request, services: Services, asked: Turn) -> None:
    """403 for a turn that speaks for another token's worker, or asks for orders of a pool that is not the token's."""
    await check_worker(request, asked.worker_id)
    if any(report.worker_id != asked.worker_id for report in asked.reports):
        raise ProblemDetails(403, "a report speaks for another worker than the turn it came with", kind="identity")
    check_pools(request, asked.pools)
    for execution_id in {report.execution_id for report in asked.reports}:
        # An execution in memory exists. All others are looked up before a batch is spent on them.
        if not services.control.executions.drives(execution_id):
            await check_execution(request, execution_id)


async def check_worker(request: Request, worker_id: str) -> None:
    """403 for a worker that another token has registered, or that is not registered (reliability.md §2.3)."""
    row = await services_of(request).roster.get(worker_id)
    if row is None:
        detail = "no worker with this id is registered: register it with POST /api/workers"
        raise ProblemDetails(403, detail, kind=UNREGISTERED)
    check_own(row, identity_of(request).token_id)


def check_own(row: WorkerRow, token_id: str) -> None:
    """403 for a worker that another token has registered, or the one in the server's own process."""
    if not token_id or row.token_id != token_id:
        raise ProblemDetails(403, "this worker id belongs to another token", kind="identity")


@router.post("/api/orders/heartbeat", **openapi_docs(Beaten, reads=Beat, summary="Prolong leases"))
async def heartbeat(request: Request) -> Response:
    services = services_of(request)
    check_protocol(request)
    beat = await _decode_body(request, _beats)
    await check_worker(request, beat.worker_id)
    lost = await services.control.for_workers.renew(beat.worker_id, beat.leases, beat.ttls)
    await services.roster.note_contact(
        beat.worker_id, {order_id: epoch for order_id, epoch in beat.leases.items() if order_id not in lost}
    )
    return Json(Beaten(lost=sorted(lost)))


@router.post(
    "/api/orders/secret", **openapi_docs(Material, reads=Ask, summary="One secret, for the holder of an order")
)
async def secret(request: Request) -> Response:
    """In memory only: neither server nor worker stores it (KEY-07)."""
    check_protocol(request)
    ask = await _decode_body(request, _asks)
    await check_worker(request, ask.worker_id)
    await check_execution(request, ask.execution_id)
    try:
        material = await services_of(request).control.for_workers.secret(ask)
    # 403, so that the audit log records it.
    except SecretRefusedError as problem:
        tool_error = {"kind": problem.kind, "message": problem.message}
        raise ProblemDetails(403, problem.message, kind="tool", error=tool_error) from None
    return Json(material, headers={"cache-control": "no-store"})


@router.post("/api/orders/output", **openapi_docs(reads=OutputBatch, status=204, summary="Lines that tasks print"))
async def output(request: Request) -> Response:
    """In memory only, for people who follow a running task. Lines of orders that the worker does not hold are dropped
    without an error: live output is best effort."""
    check_protocol(request)
    batch = await _decode_body(request, _batches, MAX_BATCH_BYTES)
    await check_worker(request, batch.worker_id)
    await services_of(request).control.for_workers.show_output(batch)
    return Response(status_code=204)


@router.post(
    "/api/orders/call",
    **openapi_docs(PlaybookCallResult, reads=PlaybookCall, summary="Start a nested playbook, and wait for it"),
)
async def call(request: Request) -> Response:
    """Answers `running` if the child takes longer than a request may last: repeat the call, it finds the same child."""
    services = services_of(request)
    check_protocol(request)
    asked = await _decode_body(request, _calls)
    await check_worker(request, asked.worker_id)
    await check_execution(request, asked.execution_id)
    await _check_call(services, asked)
    # The key contains the lease: a request that joins a waiting call is not checked for the lease itself.
    key = f"{asked.task_run_id} {asked.order_id} {asked.lease_epoch} {asked.worker_id}"
    waiting = services.calls.get(key)
    if waiting is None:
        waiting = services.calls[key] = asyncio.ensure_future(services.control.for_workers.call(asked))
        waiting.add_done_callback(lambda _: services.calls.pop(key, None))
        waiting.add_done_callback(_read_outcome)
    # `wait`, not `wait_for`: a request that times out must not cancel the call that others wait for.
    done, _ = await asyncio.wait({waiting}, timeout=services.settings.call_poll_s)
    if not done:
        return Json(PlaybookCallResult(execution_id=child_id_of(asked.task_run_id), status="running"))
    if waiting.cancelled():
        # A temporary error: the worker asks another server and finds the same child there.
        raise BackendError("the server is about to stop")
    return Json(waiting.result())


async def _check_call(services: Services, asked: PlaybookCall) -> None:
    """403 for a playbook that the task of the held order does not call (reliability.md §2.3)."""
    try:
        await services.control.for_workers.check_call(asked)
    except CallRefusedError as problem:
        tool_error = {"kind": problem.kind, "message": problem.message, "details": problem.details}
        raise ProblemDetails(403, problem.message, kind="tool", error=tool_error) from None


def _read_outcome(waiting: asyncio.Future[PlaybookCallResult]) -> None:
    """Retrieve the exception, so that asyncio does not log it as never retrieved; each request reads it itself."""
    if not waiting.cancelled():
        waiting.exception()


@router.post(
    "/api/orders/give-up",
    **openapi_docs(reads=GiveUp, status=204, summary="Cancel a child that its task no longer waits for"),
)
async def give_up(request: Request) -> Response:
    check_protocol(request)
    asked = await _decode_body(request, _give_ups)
    await check_worker(request, asked.call.worker_id)
    await check_execution(request, asked.call.execution_id)
    try:
        await services_of(request).control.for_workers.abandon(asked.call, asked.reason)
    except CallRefusedError as problem:
        raise ProblemDetails(403, problem.message, kind="identity") from None
    return Response(status_code=204)


@router.get("/api/nets/{net_hash}", **openapi_docs(dict[str, Any], summary="A compiled playbook"))
async def net(request: Request, net_hash: str) -> Response:
    if not _HASH.fullmatch(net_hash):
        raise not_found("net", net_hash)
    try:
        body = await services_of(request).store.net(net_hash)
    # Only this error: after a 404 the worker gives up, but an unreachable store comes back.
    except AbsentError:
        raise not_found("net", net_hash) from None
    headers = {"cache-control": "private, max-age=31536000, immutable"}  # its name is its content
    return Response(body, headers=headers, media_type="application/json")


def check_pools(request: Request, wanted: tuple[str, ...]) -> None:
    """403 for a pool that the worker's token does not include."""
    allowed = identity_of(request).pools
    if EVERY not in allowed and (others := sorted(set(wanted) - allowed)):
        serves = ", ".join(sorted(allowed)) or "none"
        options = " ".join(f"--pool {pool}" for pool in others)
        way_out = f"create one with noetl token create NAME --role worker {options}"
        raise ProblemDetails(403, f"this token serves the pools {serves}, not {', '.join(others)}: {way_out}")


def check_protocol(request: Request) -> None:
    """426 for a worker with another protocol version (reliability.md §3.8)."""
    spoken = request.headers.get(HEADER)
    if spoken != PROTOCOL:
        shown = f'"{spoken[:20]}"' if spoken else "none"
        detail = f"this server speaks worker protocol {PROTOCOL}, the worker {shown}: install the same version of both"
        raise ProblemDetails(426, detail, headers={"upgrade": f"noetl/{PROTOCOL}"})


async def check_execution(request: Request, execution_id: str) -> None:
    """404 for an execution that is not stored."""
    if await services_of(request).store.execution(execution_id) is None:
        raise not_found("execution", execution_id)


async def check_holder(request: Request, worker_id: str, execution_id: str) -> None:
    """403 for a worker that holds no order of the execution. A lease that ran out counts until another worker has taken
    the order: as long as that, the server accepts its reports too."""
    await check_worker(request, worker_id)
    await check_execution(request, execution_id)
    held = await services_of(request).store.held_by(worker_id)
    if all(row.execution_id != execution_id for row in held):
        detail = "this worker holds no order of the execution: it has ended, or another worker runs the order now"
        raise ProblemDetails(403, detail, kind="lease")


async def _decode_body(request: Request, decoder: msgspec.json.Decoder[T], most_bytes: int | None = None) -> T:
    require_media_type(request, JSON)
    try:
        return decoder.decode(await body_of(request, most_bytes))
    except msgspec.ValidationError as problem:
        raise invalid_body(problem) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ProblemDetails(400, f"the body is not JSON: {str(problem)[:200]}", kind="json") from None
