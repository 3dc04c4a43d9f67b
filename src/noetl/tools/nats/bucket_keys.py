"""Keys of a bucket: all that are there. They are fetched, so that what is under way is waited for.

The client's own `keys()` is told of them unasked, and takes a bucket for empty when none has arrived by the time it
looks; on a busy machine that happens.
"""

from __future__ import annotations

from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.kv import KV_DEL, KV_MARKER_REASON, KV_OP, KV_PURGE

_BATCH = 500
_KEPT_S = 60.0  # the consumer, if we go away before we can remove it


async def keys_of(stream: JetStreamContext, bucket: str, *, timeout_s: float) -> list[str]:
    """Sorted. What is written meanwhile may be among them or not."""
    prefix, kept_in = f"$KV.{bucket}.", f"KV_{bucket}"
    config = ConsumerConfig(
        deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
        ack_policy=AckPolicy.NONE,
        headers_only=True,
        inactive_threshold=_KEPT_S,
        mem_storage=True,
    )
    consumer = await stream.pull_subscribe(f"{prefix}>", stream=kept_in, config=config)
    info = await consumer.consumer_info()
    try:
        left, is_there = info.num_pending or 0, dict[str, bool]()
        while left > 0:
            fetched = await consumer.fetch(min(left, _BATCH), timeout=timeout_s)
            is_there.update({message.subject.removeprefix(prefix): not _is_removal(message) for message in fetched})
            left = min(left - len(fetched), fetched[-1].metadata.num_pending)
    finally:
        await consumer.unsubscribe()
        await stream.delete_consumer(kept_in, info.name)
    return sorted(key for key, there in is_there.items() if there)


def _is_removal(message: Msg) -> bool:
    """Whether the last word on its key is that there is none."""
    headers = message.header or {}
    return headers.get(KV_OP) in (KV_DEL, KV_PURGE) or KV_MARKER_REASON in headers
