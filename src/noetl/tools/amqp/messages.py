"""The operations: publish with the broker's confirmation, take messages, and say what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from aiormq.abc import AbstractChannel, DeliveredMessage
from pamqp import commands

from noetl.base.errors import ToolError
from noetl.tools.amqp.connections import AmqpConnections, HeldChannel, OwnedConnection
from noetl.tools.contents import MAX_BYTES, decoded, encoded

_LONGEST_NAME = 255  # bytes of a queue, an exchange or a key, as the protocol has them


async def publish(owned: OwnedConnection, inputs: Mapping[str, Any], message_id: str) -> dict[str, Any]:
    """Done when the broker has confirmed it. One that no queue takes is an error, unless `mandatory` is false."""
    exchange, key = name_of(inputs, "exchange"), name_of(inputs, "routing_key") or name_of(inputs, "queue")
    if not exchange and not key:
        raise ToolError("amqp.input", 'publish needs "queue", or "exchange" with "routing_key"')
    body = encoded(inputs.get("data"), inputs.get("format"), kind="amqp")
    if len(body) > MAX_BYTES:
        raise ToolError("amqp.input", f"the message has {len(body)} bytes, at most {MAX_BYTES} are sent")
    properties = commands.Basic.Properties(
        message_id=str(inputs.get("message_id") or message_id),
        content_type="application/json" if not isinstance(inputs.get("data"), str) else "text/plain",
        delivery_mode=1 if inputs.get("persistent") is False else 2,
        headers=_headers(inputs.get("headers")),
    )
    async with owned.channel() as held:
        mandatory = inputs.get("mandatory") is not False
        await held.channel.basic_publish(
            body, exchange=exchange, routing_key=key, properties=properties, mandatory=mandatory
        )
    return {"exchange": exchange, "routing_key": key, "message_id": properties.message_id, "size": len(body)}


async def count(owned: OwnedConnection, queue: str) -> dict[str, Any]:
    async with owned.channel() as held:
        found = await held.channel.queue_declare(queue, passive=True)
    return {"queue": queue, "messages": found.message_count, "consumers": found.consumer_count}


async def get(owned: OwnedConnection, queue: str, *, limit: int, wait_s: float) -> tuple[HeldChannel, list[Any]]:
    """At most `limit` messages, held until they are acknowledged. Waits only for the first one."""
    size = 0
    async with owned.channel() as held:
        found: list[DeliveredMessage] = []
        while len(found) < limit and size <= MAX_BYTES:
            message = await held.channel.basic_get(queue)
            if isinstance(message.delivery, commands.Basic.GetEmpty):
                if found or not wait_s or (waited := await _first(held.channel, queue, wait_s)) is None:
                    break
                message = waited
            found.append(message)
            size += len(message.body)
            held.tags.add(message.delivery_tag or 0)
    return held, found


async def _first(channel: AbstractChannel, queue: str, wait_s: float) -> DeliveredMessage | None:
    """The next message that arrives. As long as it is waited for, the broker may send one and no more."""
    arrived: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
    await channel.basic_qos(prefetch_count=1)
    consumer = await channel.basic_consume(queue, arrived.put)
    try:
        async with asyncio.timeout(wait_s):
            await _arrival(channel, arrived)
    except TimeoutError:
        pass
    await channel.basic_cancel(consumer.consumer_tag or "")
    return arrived.get_nowait() if arrived.qsize() else None  # one may have come while it was cancelled


async def _arrival(channel: AbstractChannel, arrived: asyncio.Queue[DeliveredMessage]) -> None:
    """Until a message is there, or the channel is lost: the library tells that to nobody who waits."""
    while arrived.empty():
        if channel.is_closed:
            raise ConnectionError("the connection was lost while waiting")
        # The driver tells nobody who waits for a message that its channel has closed.
        await asyncio.sleep(0.05)


def message_row(message: DeliveredMessage, form: Any) -> dict[str, Any]:
    properties = message.header.properties
    return {
        "value": decoded(message.body, form, kind="amqp"),
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "message_id": properties.message_id,
        "headers": msgspec.to_builtins(properties.headers or {}, str_keys=True),
        "redelivered": bool(message.redelivered),
    }


def receipt_of(held: HeldChannel, message: DeliveredMessage) -> str:
    return f"{held.token}:{message.delivery_tag}"


async def settle(connections: AmqpConnections, owner: str, receipts: Sequence[str], *, how: str) -> int:
    """Acknowledge messages (`ack`), give them back (`requeue`) or refuse them (`reject`); how many were still held.
    Returns after the broker has taken it."""
    settled, touched = 0, set[OwnedConnection]()
    for token, tags in _by_channel(receipts).items():
        if (found := connections.holder(owner, token)) is None:
            continue
        owned, held = found
        for tag in sorted(tags & held.tags):
            if how == "ack":
                await held.channel.basic_ack(tag)
            else:
                await held.channel.basic_nack(tag, requeue=how == "requeue")
            held.tags.discard(tag)
            settled += 1
        touched.add(owned)
        if held.tags:
            await held.channel.basic_qos(prefetch_count=1)  # answered after what was sent before it
        else:
            owned.let_go(held)
    for owned in touched:
        await owned.settled()
    return settled


def _by_channel(receipts: Sequence[str]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for receipt in receipts:
        token, _, tag = receipt.partition(":")
        if tag.isdecimal():
            found.setdefault(token, set()).add(int(tag))
    return found


def name_of(inputs: Mapping[str, Any], which: str) -> str:
    name = str(inputs.get(which) or "")
    if len(name.encode()) > _LONGEST_NAME or not name.isprintable():
        raise ToolError("amqp.input", f'"{which}" is no name: at most {_LONGEST_NAME} bytes that can be printed')
    return name


def _headers(written: Any) -> dict[str, Any]:
    if written is None:
        return {}
    if not isinstance(written, Mapping):
        raise ToolError("amqp.input", f"headers must be a mapping, not {type(written).__name__}")
    return {str(name): value for name, value in written.items()}
