"""Routes of triggers, webhooks and schedules: playbooks that start by themselves when something new arrives, because
another system calls, or when the clock says so. Administrators make triggers and webhooks; deliveries of a webhook come
from anybody who can sign them. Schedules are in the playbooks; they are paused, and made up for missed times, here.
"""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
from fastapi import Query, Request, Response

from noetl.base.clock import rfc3339
from noetl.base.errors import RefusedError
from noetl.control.outside.delivery import MessageDelivery
from noetl.control.schedules import as_written, times
from noetl.events.executions import Starter
from noetl.language.reading.trigger import cron_reason
from noetl.operations.administration_shapes import (
    Backfilled,
    DeadLetterList,
    MadeWebhook,
    NewTrigger,
    ScheduleList,
    ScheduleView,
    TriggerList,
    TriggerView,
    WebhookShape,
    WebhookTarget,
)
from noetl.operations.api_shapes import DeadLettersChanged
from noetl.operations.cron_words import cron_words
from noetl.operations.triggers import ScheduleOperations, TriggerOperations
from noetl.operations.webhooks import Webhook, made_webhook, webhook_view
from noetl.server.access.access import Access, access_of
from noetl.server.access.audit_writer import ACTOR, address_of
from noetl.server.access.hosts import network_of
from noetl.server.access.webhook_deliveries import Signed, is_signed, parse_signature
from noetl.server.bodies import JSON, body_of, read, require_media_type, strict_json
from noetl.server.guarded_router import GuardedRouter, Json, openapi_docs
from noetl.server.problem_details import ProblemDetails, not_found, too_busy
from noetl.server.services import Services, identity_of, services_of
from noetl.server.start_requests import StartTerms, begin
from noetl.store.contract import ConflictError
from noetl.tools.kinds import load_kinds

router = GuardedRouter(tags=["triggers"])
Item = Annotated[str | None, Query(description="The item of one dead letter; all of them when left out.")]


def _operations(request: Request) -> TriggerOperations:
    services = services_of(request)
    return TriggerOperations(services.store, services.clock, load_kinds, services.tools.refusal)


@router.get("/api/triggers", **openapi_docs(TriggerList, summary="List triggers"))
async def triggers(request: Request) -> Response:
    return Json(TriggerList(triggers=await _operations(request).all()))


@router.post("/api/triggers", **openapi_docs(TriggerView, reads=NewTrigger, status=201, summary="Make a trigger"))
async def create(request: Request) -> Response:
    """A server begins to poll it within seconds."""
    asked = await read(request, NewTrigger)
    return Json(await _operations(request).create(asked, by=identity_of(request).subject), status_code=201)


@router.get("/api/triggers/{name}", **openapi_docs(TriggerView, summary="One trigger"))
async def trigger(request: Request, name: str) -> Response:
    return Json(await _operations(request).get(name))


@router.delete("/api/triggers/{name}", **openapi_docs(status=204, summary="Delete a trigger"))
async def delete(request: Request, name: str) -> Response:
    """Its executions go on."""
    await _operations(request).delete(name)
    return Response(status_code=204)


@router.post("/api/triggers/{name}/pause", **openapi_docs(TriggerView, summary="Pause a trigger"))
async def pause(request: Request, name: str) -> Response:
    """What arrives meanwhile is read when it is resumed."""
    return Json(await _operations(request).pause(name))


@router.post("/api/triggers/{name}/resume", **openapi_docs(TriggerView, summary="Resume a trigger"))
async def resume(request: Request, name: str) -> Response:
    return Json(await _operations(request).resume(name))


@router.get(
    "/api/triggers/{name}/dead-letters", **openapi_docs(DeadLetterList, summary="Items that could not be started")
)
async def dead_letters(request: Request, name: str) -> Response:
    return Json(DeadLetterList(dead_letters=await _operations(request).dead_letters(name)))


@router.post(
    "/api/triggers/{name}/dead-letters/retry", **openapi_docs(DeadLettersChanged, summary="Retry dead letters")
)
async def retry(request: Request, name: str, item: Item = None) -> Response:
    """They are started at the next look."""
    return Json(DeadLettersChanged(count=await _operations(request).retry(name, item)))


@router.delete("/api/triggers/{name}/dead-letters", **openapi_docs(DeadLettersChanged, summary="Discard dead letters"))
async def discard(request: Request, name: str, item: Item = None) -> Response:
    return Json(DeadLettersChanged(count=await _operations(request).discard(name, item)))


# Routes of webhooks: made by administrators; deliveries come from any sender with the key (reliability.md §2.4).
#
# A delivery is checked from the outside in: content type, size, shape of the signature, signature, then JSON. A wrong
# address, time or signature gets one and the same 404. Its effect, an execution or a message, has the identity of the
# delivery: one that comes twice, or again after a crash in between, has one effect.


class Delivered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a delivery has led to. `repeated`: it had done so before."""

    execution_id: str | None = None
    message_id: str | None = None
    repeated: bool = False


async def take_effect(
    services: Services, target: WebhookTarget, effect_id: str, body: Any, about: dict[str, Any]
) -> Delivered:
    """Start what the webhook starts with `{body, webhook}` as payload, or send its message with the body as payload."""
    if target.message is not None:
        return await _send_message(services, target.message, correlation_of(target, body), body, effect_id)
    if await services.control.executions.is_known(effect_id):
        return Delivered(execution_id=effect_id, repeated=True)
    assert target.path is not None
    row = await services.store.catalog.find(target.path, target.version)
    if row is None:
        raise ProblemDetails(409, f'this webhook starts "{target.path}", which is not registered here')
    try:
        starter = Starter(kind="webhook", name=about["name"])
        await begin(services, row, effect_id, StartTerms({"body": body, "webhook": about}, starter))
    except ConflictError:  # the same delivery at the same moment, or on another server
        return Delivered(execution_id=effect_id, repeated=True)
    return Delivered(execution_id=effect_id)


async def _send_message(
    services: Services, name: str, correlation: dict[str, Any], body: Any, message_id: str
) -> Delivered:
    deliveries = MessageDelivery(services.control.executions, services.store, services.clock)
    sent = await deliveries.send_message(name, correlation, body, message_id=message_id)
    return Delivered(message_id=sent.message_id, repeated=sent.known)


def correlation_of(target: WebhookTarget, body: Any) -> dict[str, Any]:
    """The fields of the body that the message is matched by. Problem 422 when one is missing, or no single value."""
    return {key: _field(body, place) for key, place in target.correlation.items()}


def _field(body: Any, place: str) -> Any:
    value = body
    for name in place.split("."):
        if not isinstance(value, dict) or name not in value:
            raise ProblemDetails(422, f'the body has no field "{place}", which this message is matched by')
        value = value[name]
    if isinstance(value, dict | list):
        raise ProblemDetails(422, f'the field "{place}" is not a single value, and this message is matched by it')
    return value


webhooks_router = GuardedRouter(tags=["webhooks"])

TIMESTAMP, SIGNATURE, DELIVERY = "noetl-timestamp", "noetl-signature", "noetl-delivery"
MAX_BYTES = 1 << 20
_LONGEST_ID = 200


class NewWebhook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of `path` and `message`. `correlation` maps keys of the message to fields of the body."""

    name: str
    path: str | None = None
    version: str | None = None
    message: str | None = None
    correlation: dict[str, str] = {}


class WebhookList(msgspec.Struct, frozen=True):
    webhooks: list[WebhookShape]


@webhooks_router.get("/api/webhooks", **openapi_docs(WebhookList, summary="List webhooks"))
async def list_webhooks(request: Request) -> Json:
    """All webhooks, without their keys."""
    return Json(WebhookList([webhook_view(hook) for hook in await access_of(request).webhooks.list()]))


@webhooks_router.post(
    "/api/webhooks", **openapi_docs(MadeWebhook, reads=NewWebhook, status=201, summary="Make a webhook")
)
async def create_webhook(request: Request) -> Json:
    """Make a webhook; its key is in this answer only."""
    new = await read(request, NewWebhook)
    target = WebhookTarget(path=new.path, version=new.version, message=new.message, correlation=new.correlation)
    key, made = await access_of(request).webhooks.create(new.name, target, by=identity_of(request).subject)
    return Json(made_webhook(key, made), 201)


@webhooks_router.delete("/api/webhooks/{name}", **openapi_docs(status=204, summary="Delete a webhook"))
async def delete_webhook(request: Request, name: str) -> Response:
    """Close a webhook permanently; its address is never used again."""
    if not await access_of(request).webhooks.delete(name):
        raise not_found("webhook", name)
    return Response(status_code=204)


@webhooks_router.post(
    "/hooks/{hook_id}", **openapi_docs(Delivered, reads=Any, status=202, summary="Deliver to a webhook")
)
async def deliver(request: Request, hook_id: str) -> Json:
    """Take a delivery, signed over its timestamp and body; repeated, it is answered as the first time."""
    require_media_type(request, JSON)
    body = await body_of(request, MAX_BYTES)
    access = access_of(request)
    hook, signed = await _verified_delivery(request, access, hook_id, body)
    request.scope[ACTOR] = f"webhook {hook.name}"
    if wait_s := access.limits.webhooks.take(hook_id):
        raise too_busy("too many deliveries; try again later", int(wait_s) + 1)
    delivery_id, value = _delivery_id(request), strict_json(body)
    try:
        effect_id = await access.deliveries.effect_of(hook_id, delivery_id, signed, body)
    except RefusedError as problem:
        raise ProblemDetails(422, str(problem), kind="idempotency") from None
    about = {"name": hook.name, "delivery": delivery_id or signed.signature, "received_at": rfc3339(access.clock.now())}
    delivered = await take_effect(services_of(request), hook.target, effect_id, value, about)
    return Json(delivered, 202)


async def _verified_delivery(request: Request, access: Access, hook_id: str, body: bytes) -> tuple[Webhook, Signed]:
    """The webhook and the signature that fits. The same steps and the same answer for every failure."""
    headers = request.headers
    signed = parse_signature(headers.get(TIMESTAMP), headers.get(SIGNATURE), now=access.clock.now())
    hook, key = await access.webhooks.find(hook_id)
    # Check also a malformed signature, so that the time of the answer does not reveal what was wrong.
    is_valid = is_signed(signed or Signed("0", "0" * 64), key, body)
    if hook is not None and signed is not None and is_valid:
        return hook, signed
    if wait_s := access.limits.failures.take(network_of(address_of(request.scope))):
        raise too_busy("too many requests; try again later", int(wait_s) + 1)
    raise ProblemDetails(404, "there is nothing at this path")


def _delivery_id(request: Request) -> str | None:
    ids = request.headers.getlist(DELIVERY)
    if not ids:
        return None
    if len(ids) > 1 or not 1 <= len(ids[0]) <= _LONGEST_ID or not ids[0].isprintable():
        raise ProblemDetails(400, f"a delivery has one id of 1 to {_LONGEST_ID} printable characters")
    return ids[0]


schedules_router = GuardedRouter(tags=["schedules"])
_FIELDS = 5


class CronTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The coming times by the clock of the zone, and the schedule in words."""

    cron: str
    words: str
    timezone: str
    next: list[str]


@schedules_router.get("/api/cron", **openapi_docs(CronTimes, summary="The coming times of a cron schedule"))
async def cron_times(
    request: Request,
    cron: Annotated[str, Query(max_length=200)],
    timezone: Annotated[str, Query(max_length=100)] = "UTC",
    count: Annotated[int, Query(ge=1, le=100)] = 10,
) -> Response:
    from cronsim import CronSimError

    try:
        ZoneInfo(timezone)
    except (LookupError, ValueError, OSError):
        raise ProblemDetails(422, f'timezone: "{timezone}" is not a time zone; write one like Europe/Berlin') from None
    # The parser would take six, with seconds.
    if len(cron.split()) != _FIELDS:
        raise ProblemDetails(422, f'cron: "{cron}" is not five fields: minute, hour, day, month, weekday')
    try:
        coming = list(islice(times(cron, timezone, after=services_of(request).clock.now()), count))
    except CronSimError as problem:
        raise ProblemDetails(422, f'cron: "{cron}" is not a cron schedule: {cron_reason(str(problem), cron)}') from None
    return Json(
        CronTimes(
            cron=cron,
            words=cron_words(cron),
            timezone=timezone,
            next=[as_written(moment, timezone) for moment in coming],
        )
    )


class Backfilling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times from `since` to `until` (now without it), at most `limit` of them at once."""

    since: str
    until: str | None = None
    limit: int = 5
    dry_run: bool = False


def _schedules(request: Request) -> ScheduleOperations:
    services = services_of(request)
    return ScheduleOperations(services.store, services.clock)


@schedules_router.get("/api/schedules", **openapi_docs(ScheduleList, summary="List schedules"))
async def schedules(request: Request) -> Response:
    return Json(await _schedules(request).list())


@schedules_router.get(
    "/api/schedules/{path:path}", **openapi_docs(ScheduleView, summary="One schedule with its coming times")
)
async def schedule(request: Request, path: str, count: Annotated[int, Query(ge=1, le=1000)] = 5) -> Response:
    return Json(await _schedules(request).get(path, count))


@schedules_router.post("/api/schedules/{path:path}/pause", **openapi_docs(ScheduleView, summary="Pause a schedule"))
async def pause_schedule(request: Request, path: str) -> Response:
    """Nothing is started at its times until it is resumed."""
    return Json(await _schedules(request).pause(path))


@schedules_router.post("/api/schedules/{path:path}/resume", **openapi_docs(ScheduleView, summary="Resume a schedule"))
async def resume_schedule(request: Request, path: str) -> Response:
    """Times that have passed can be backfilled."""
    return Json(await _schedules(request).resume(path))


@schedules_router.post(
    "/api/schedules/{path:path}/backfill", **openapi_docs(Backfilled, reads=Backfilling, summary="Run missed times")
)
async def backfill(request: Request, path: str) -> Response:
    """What has run for a time is not run again."""
    asked = await read(request, Backfilling)
    result = await _schedules(request).backfill(
        path, asked.since, asked.until, limit=asked.limit, dry_run=asked.dry_run
    )
    return Json(result)
