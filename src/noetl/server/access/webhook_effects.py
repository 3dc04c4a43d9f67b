"""Effects of a delivery: an execution that is started, or a message that is sent, each under the delivery's identity.

So a delivery that comes twice, or again after a crash in between, has one effect (reliability.md §3.4).
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.control.outside.delivery import MessageDelivery
from noetl.operations.administration_shapes import WebhookTarget
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import Services
from noetl.server.start_requests import begin
from noetl.store.contract import ConflictError


class Delivered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a delivery has led to. `repeated`: it had done so before."""

    execution_id: str | None = None
    message_id: str | None = None
    repeated: bool = False


async def take_effect(
    services: Services, target: WebhookTarget, effect_id: str, body: Any, told: dict[str, Any]
) -> Delivered:
    """Start what the webhook starts with `{body, webhook}` as payload, or send its message with the body as payload."""
    if target.message is not None:
        return await _sent(services, target.message, correlation_of(target, body), body, effect_id)
    if await services.control.executions.is_known(effect_id):
        return Delivered(execution_id=effect_id, repeated=True)
    assert target.path is not None
    row = await services.store.catalog.find(target.path, target.version)
    if row is None:
        raise ProblemDetails(409, f'this webhook starts "{target.path}", which is not registered here')
    try:
        await begin(services, row, effect_id, {"body": body, "webhook": told})
    except ConflictError:  # the same delivery at the same moment, or on another server
        return Delivered(execution_id=effect_id, repeated=True)
    return Delivered(execution_id=effect_id)


async def _sent(services: Services, name: str, correlation: dict[str, Any], body: Any, message_id: str) -> Delivered:
    deliveries = MessageDelivery(services.control.executions, services.store, services.clock)
    sent = await deliveries.send_message(name, correlation, body, message_id=message_id)
    return Delivered(message_id=sent.message_id, repeated=sent.known)


def correlation_of(target: WebhookTarget, body: Any) -> dict[str, Any]:
    """The fields of the body that the message is matched by. Problem 422 when one is missing, or no single value."""
    return {key: _field(body, place) for key, place in target.correlation.items()}


def _field(body: Any, place: str) -> Any:
    found = body
    for name in place.split("."):
        if not isinstance(found, dict) or name not in found:
            raise ProblemDetails(422, f'the body has no field "{place}", which this message is matched by')
        found = found[name]
    if isinstance(found, dict | list):
        raise ProblemDetails(422, f'the field "{place}" is no single value, and this message is matched by it')
    return found
