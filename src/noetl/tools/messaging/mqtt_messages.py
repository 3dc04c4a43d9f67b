"""MQTT, in the child: publishing with an acknowledgement, and receiving some messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import aiomqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from noetl.base.errors import ToolError
from noetl.base.tls_trust import tls_context
from noetl.tools.contents import decode
from noetl.tools.messaging.tool import MessagingRequest

T = TypeVar("T")
_SESSION_S = 7 * 86_400  # how long the broker keeps an unused session


async def perform(request: MessagingRequest) -> dict[str, Any]:
    match request.op:
        case "check":
            async with _client(request):
                return {}
        case "publish":
            return await _publish(request)
        case "receive":
            return await _receive(request)
        case _:
            raise ToolError("mqtt.input", f'op "{request.op}" is not known: write publish or receive')


def read_error(problem: Exception) -> tuple[str, str | None, bool]:
    """The kind of an error, the broker's reason code, and whether a retry may help."""
    code = getattr(problem, "rc", None)
    value = getattr(code, "value", code)
    if value in (4, 5, 134, 135):  # bad login, not authorised, in MQTT 3.1.1 and 5
        return "denied", str(value), False
    return "error", str(value) if value is not None else "connection", True


class _Client(aiomqtt.Client):
    """Notices at once when the broker closes the connection. The library waits for the answer of the broker only, so it
    would notice that no sooner than at its timeout."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def _on_disconnect(self, *given: Any, **more: Any) -> None:
        if not self._ended.done():
            self._ended.set_result(None)
        super()._on_disconnect(*given, **more)

    async def _wait_for(self, fut: Awaitable[T], timeout: float | None) -> T:
        waiting = asyncio.ensure_future(fut)
        either: set[asyncio.Future[Any]] = {waiting, self._ended}
        try:
            await asyncio.wait(either, timeout=timeout or self.timeout, return_when="FIRST_COMPLETED")
            if waiting.done():
                return waiting.result()
        finally:
            waiting.cancel()
        raise aiomqtt.MqttError("the broker closed the connection" if self._ended.done() else "Operation timed out")


def _client(request: MessagingRequest) -> aiomqtt.Client:
    broker, session = request.broker, str(request.inputs.get("session") or "")
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    if session:
        properties.SessionExpiryInterval = _SESSION_S
    return _Client(
        hostname=broker.host,
        port=broker.port,
        username=broker.user or None,
        password=broker.password or None,
        identifier=session or None,
        protocol=aiomqtt.ProtocolVersion.V5,
        clean_start=not session,
        properties=properties if session else None,
        tls_context=tls_context(broker.ca) if broker.tls else None,
        timeout=min(request.timeout_s, 30),
    )


async def _publish(request: MessagingRequest) -> dict[str, Any]:
    topic, qos = request.text("topic"), _quality(request)
    if "+" in topic or "#" in topic:
        raise ToolError("mqtt.input", f'"{topic}" is a pattern: a message goes to one topic')
    async with _client(request) as client:
        await client.publish(topic, request.body, qos=qos, retain=request.inputs.get("retain") is True)
    return {"topic": topic, "size": len(request.body), "qos": qos}


async def _receive(request: MessagingRequest) -> dict[str, Any]:
    """Up to `limit` messages. Each is acknowledged as it arrives. The time limit applies to the first message; after
    each message, only a moment more is waited for the next."""
    found: list[dict[str, Any]] = []
    async with _client(request) as client:
        await client.subscribe(request.text("topic"), qos=_quality(request))
        messages = aiter(client.messages)
        while len(found) < request.limit:
            try:
                # The first message may take as long as the time limit. After it, a short silence means that all waiting
                # messages have arrived.
                async with asyncio.timeout(0.25 if found else max(request.wait_s, 0.25)):
                    message = await anext(messages)
            except TimeoutError:
                break
            found.append(_message_row(message, request))
    return {"messages": found, "count": len(found)}


def _message_row(message: aiomqtt.Message, request: MessagingRequest) -> dict[str, Any]:
    body = message.payload if isinstance(message.payload, bytes) else str(message.payload).encode()
    value = decode(body, request.inputs.get("format"), kind="mqtt")
    return {"topic": str(message.topic), "value": value, "retained": bool(message.retain)}


def _quality(request: MessagingRequest) -> int:
    qos = request.inputs.get("qos")
    if qos is None:
        return 1
    if qos not in (0, 1, 2) or isinstance(qos, bool):
        raise ToolError("mqtt.input", f'qos "{qos}" is 0, 1 or 2')
    return int(qos)
