"""Messages: published to a subject, kept by a stream, or answered; and new ones of a stream, for triggers, which a
durable consumer hands out until each is acknowledged."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from noetl.base.durations import seconds
from noetl.base.errors import ToolError
from noetl.tools.contents import decoded, encoded
from noetl.tools.contract import ToolContext, TriggerBatch, TriggerItem, TriggerPoll

DEFAULT_S = 30.0
MESSAGE_ID = "Nats-Msg-Id"
# No wildcards: publishing goes to one subject.
_SUBJECT = re.compile(r"[^\s\x00-\x1f\x7f.*>]+(?:\.[^\s\x00-\x1f\x7f.*>]+)*\Z")
_HEADER = re.compile(r"[!-9;-~]+\Z")  # printable, no colon


async def publish(client: Client, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Send a message. With `stream` it is not done before that stream has stored it; a repeated attempt is then known
    as such by its id (reliability.md §3.4)."""
    subject, payload = _subject(inputs), encoded(inputs.get("data"), kind="nats")
    headers = {MESSAGE_ID: context.idempotency_key, **_headers(inputs.get("headers"))}
    stream = inputs.get("stream")
    if stream is None:
        await client.publish(subject, payload, headers=headers)
        await client.flush(timeout=DEFAULT_S)  # type: ignore[arg-type]
        return {"subject": subject, "size": len(payload)}
    ack = await client.jetstream().publish(
        subject, payload, timeout=timeout_s(context), stream=str(stream), headers=headers
    )
    told = {"store": "nats.stream", "key": ack.stream, "range": f"seq:{ack.seq}", "size": len(payload)}
    return {**told, "subject": subject, "seq": ack.seq, "duplicate": bool(ack.duplicate)}


async def request(client: Client, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Send a message and wait for its answer."""
    subject = _subject(inputs)
    headers = _headers(inputs.get("headers"))
    answer = await client.request(
        subject, encoded(inputs.get("data"), kind="nats"), timeout=timeout_s(context), headers=headers or None
    )
    value = decoded(answer.data, inputs.get("format"), kind="nats")
    return {"subject": subject, "value": value, "headers": dict(answer.headers or {})}


def timeout_s(context: ToolContext) -> float:
    timeout = context.spec.get("timeout")
    timeout = timeout.get("total", timeout.get("read")) if isinstance(timeout, dict) else timeout
    return seconds(timeout) if timeout is not None else DEFAULT_S


def _subject(inputs: Mapping[str, Any]) -> str:
    subject = str(inputs.get("subject") or "")
    if not _SUBJECT.match(subject):
        raise ToolError("nats.input", f'"{subject}" is no subject: write words joined by dots, such as orders.new')
    return subject


def _headers(written: Any) -> dict[str, str]:
    """Headers of a message. Control characters in them would be lines of the protocol."""
    if written is None:
        return {}
    if not isinstance(written, Mapping):
        raise ToolError("nats.input", f"headers must be a mapping, not {type(written).__name__}")
    headers = {str(name): value if isinstance(value, str) else str(value) for name, value in written.items()}
    for name, value in headers.items():
        if not _HEADER.match(name) or any(ord(sign) < 32 or ord(sign) == 127 for sign in value):
            raise ToolError("nats.input", f'the header "{name!r}" holds a character that no header can')
    return headers


_ACK_WAIT_S = 60.0  # after this a message whose reader is gone is handed out again
_SHORTEST_WAIT_S = 0.5  # a message that is there takes its way too
_ACK, _NAK = b"+ACK", b"-NAK"


async def new_messages(client: Client, inputs: Mapping[str, Any], poll: TriggerPoll) -> TriggerBatch:
    """Messages that no one has acknowledged for this trigger, the oldest first."""
    stream, name = str(inputs.get("stream") or ""), f"noetl-{poll.trigger_id}"
    if not stream:
        raise ToolError("nats.input", 'a trigger needs "stream": the stream whose messages start the playbook')
    jetstream = client.jetstream()
    try:
        await _ensure_consumer(jetstream, stream, name, inputs.get("subject"))
        consumer = await jetstream.pull_subscribe_bind(consumer=name, stream=stream)
        try:
            found = await consumer.fetch(poll.limit, timeout=max(poll.wait_s, _SHORTEST_WAIT_S))
        except TimeoutError:  # the client raises its own kind of it or the plain one, by the moment
            found = []
        finally:
            await consumer.unsubscribe()
    except nats.js.errors.NotFoundError:
        raise ToolError("nats.missing", f'there is no stream "{stream}"', code="stream") from None
    return TriggerBatch(items=tuple(_item(message) for message in found), cursor=poll.cursor)


async def settle(client: Client, accepted: Sequence[TriggerItem], returned: Sequence[TriggerItem]) -> None:
    """Any connection may say so: the receipt is a subject. Waited for, since a lost one would be read again."""
    for item in accepted:
        await client.request(item.receipt, _ACK, timeout=10)
    for item in returned:
        await client.publish(item.receipt, _NAK)
    await client.flush()


async def _ensure_consumer(jetstream: JetStreamContext, stream: str, name: str, subject: Any) -> None:
    try:
        await jetstream.consumer_info(stream, name)
        return
    except nats.js.errors.NotFoundError:
        pass
    config = ConsumerConfig(
        durable_name=name,
        deliver_policy=DeliverPolicy.ALL,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=_ACK_WAIT_S,
        filter_subject=str(subject) if subject else None,
    )
    await jetstream.add_consumer(stream, config)


def _item(message: Msg) -> TriggerItem:
    metadata = message.metadata
    value = {
        "subject": message.subject,
        "value": decoded(message.data, None, kind="nats"),
        "headers": dict(message.headers or {}),
        "sequence": metadata.sequence.stream,
    }
    return TriggerItem(item_id=f"{metadata.stream}:{metadata.sequence.stream}", value=value, receipt=message.reply)
