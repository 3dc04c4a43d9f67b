"""New messages of a stream, for triggers: a durable consumer hands them out until each is acknowledged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from noetl.base.errors import ToolError
from noetl.tools.contents import decoded
from noetl.tools.trigger_source import TriggerBatch, TriggerItem, TriggerPoll

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
        except nats.errors.TimeoutError:
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
