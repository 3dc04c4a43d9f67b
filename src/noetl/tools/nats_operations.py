"""Operations of `nats`: messages, key-value buckets and object buckets. The result of a write is a reference (RES-05).

Messages are published to a subject, kept by a stream, or answered. For triggers, a durable consumer hands out the new
messages of a stream until each is acknowledged.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import BucketNotFoundError
from nats.js.errors import NotFoundError as Missing
from nats.js.kv import KV_DEL, KV_MARKER_REASON, KV_OP, KV_PURGE, KeyValue
from nats.js.object_store import ObjectStore

from noetl.base.errors import ToolError
from noetl.tools.contents import MAX_BYTES, decode, encode
from noetl.tools.contract import ToolContext, TriggerBatch, TriggerItem, TriggerPoll
from noetl.tools.input_shapes import timeout_s

_T = TypeVar("_T")
DEFAULT_S = 30.0
MESSAGE_ID = "Nats-Msg-Id"
# No wildcards: publishing goes to one subject.
_SUBJECT = re.compile(r"[^\s\x00-\x1f\x7f.*>]+(?:\.[^\s\x00-\x1f\x7f.*>]+)*\Z")
_HEADER = re.compile(r"[!-9;-~]+\Z")  # printable, no colon


async def publish(client: Client, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Send a message. With `stream` this returns after the stream has stored it; the stream recognises a repeated
    attempt by its id (reliability.md §3.4)."""
    subject, payload = _subject(inputs), encode(inputs.get("data"), kind="nats")
    # The author may set an id of their own, by which the stream then recognises repetitions.
    headers = {MESSAGE_ID: context.task_run.idempotency_key, **_headers(inputs.get("headers"))}
    stream = inputs.get("stream")
    if stream is None:
        await client.publish(subject, payload, headers=headers)
        # `publish` only fills a buffer; after the flush the server has the message.
        await client.flush(timeout=DEFAULT_S)  # type: ignore[arg-type]
        return {"subject": subject, "size": len(payload)}
    ack = await client.jetstream().publish(
        subject, payload, timeout=timeout_s(context, DEFAULT_S), stream=str(stream), headers=headers
    )
    reference = {"store": "nats.stream", "key": ack.stream, "range": f"seq:{ack.seq}", "size": len(payload)}
    return {**reference, "subject": subject, "seq": ack.seq, "duplicate": bool(ack.duplicate)}


async def request(client: Client, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Send a message and wait for its answer."""
    subject = _subject(inputs)
    headers = _headers(inputs.get("headers"))
    answer = await client.request(
        subject, encode(inputs.get("data"), kind="nats"), timeout=timeout_s(context, DEFAULT_S), headers=headers or None
    )
    value = decode(answer.data, inputs.get("format"), kind="nats")
    return {"subject": subject, "value": value, "headers": dict(answer.headers or {})}


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


_ACK_WAIT_S = 60.0  # after this time, a message whose reader has died is delivered again
_SHORTEST_WAIT_S = 0.5  # seconds that an available message may take to arrive
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
        except TimeoutError:  # the client raises its own timeout error or the built-in one
            found = []
        finally:
            await consumer.unsubscribe()
    except nats.js.errors.NotFoundError:
        raise ToolError("nats.missing", f'there is no stream "{stream}"', code="stream") from None
    return TriggerBatch(items=tuple(_item(message) for message in found), cursor=poll.cursor)


async def settle(client: Client, accepted: Sequence[TriggerItem], returned: Sequence[TriggerItem]) -> None:
    """Acknowledge messages. Any connection can do that, since a receipt is a subject. It waits for the confirmation: a
    message with a lost acknowledgement would be delivered again."""
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
        "value": decode(message.data, None, kind="nats"),
        "headers": dict(message.headers or {}),
        "sequence": metadata.sequence.stream,
    }
    return TriggerItem(item_id=f"{metadata.stream}:{metadata.sequence.stream}", value=value, receipt=message.reply)


# The names that NATS allows. Checked here, since dots and wildcards in a name would reach other subjects.
_BUCKET = re.compile(r"[a-zA-Z0-9_-]{1,200}\Z")
_KEY = re.compile(r"[-/_=a-zA-Z0-9]+(?:\.[-/_=a-zA-Z0-9]+)*\Z")


async def kv_get(client: Client, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    bucket = await _key_value(client, inputs, context)
    entry = await bucket.get(_key(inputs), revision=inputs.get("revision"))
    value = decode(entry.value or b"", inputs.get("format"), kind="nats")
    return {"bucket": entry.bucket, "key": entry.key, "value": value, "revision": entry.revision}


async def kv_put(client: Client, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Write a key; with `revision` only if that is its latest revision. 0 means that the key must not exist."""
    key, body, expected = _key(inputs), encode(inputs.get("data"), kind="nats"), inputs.get("revision")
    bucket = await _key_value(client, inputs, context)
    if expected is None:
        revision = await bucket.put(key, body)
    elif expected == 0:
        revision = await bucket.create(key, body)
    else:
        revision = await bucket.update(key, body, last=int(expected))
    return {"store": "nats.kv", "key": f"{inputs['bucket']}/{key}", "size": len(body), "revision": revision}


async def kv_delete(client: Client, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    key = _key(inputs)
    bucket = await _key_value(client, inputs, context)
    await bucket.delete(key, last=inputs.get("revision"))
    return {"bucket": str(inputs["bucket"]), "key": key, "deleted": True}


async def kv_keys(client: Client, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    await _key_value(client, inputs, context)  # which is made if it may be
    name = _bucket(inputs)
    return {
        "bucket": name,
        "keys": await keys_of(_stream(client, context), name, timeout_s=timeout_s(context, DEFAULT_S)),
    }


async def object_get(client: Client, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    name = _object_name(inputs)
    bucket = await _objects(client, inputs, context)
    info = await bucket.get_info(name)
    # Checked before the object is read: the client loads all of it into memory.
    if (info.size or 0) > MAX_BYTES:
        raise ToolError("result.too_large", f'the object "{name}" has {info.size} bytes, at most {MAX_BYTES} are read')
    found = await bucket.get(name)
    value = decode(bytes(found.data or b""), inputs.get("format"), kind="nats")
    return {"bucket": str(inputs["bucket"]), "key": name, "value": value, "size": info.size, "checksum": info.digest}


async def object_put(client: Client, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    name, body = _object_name(inputs), encode(inputs.get("data"), kind="nats")
    bucket = await _objects(client, inputs, context)
    info = await bucket.put(name, body)
    key = f"{inputs['bucket']}/{name}"
    return {"store": "nats.object", "key": key, "size": len(body), "checksum": info.digest}


async def object_delete(client: Client, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    name = _object_name(inputs)
    bucket = await _objects(client, inputs, context)
    await bucket.delete(name)
    return {"bucket": str(inputs["bucket"]), "key": name, "deleted": True}


async def object_list(client: Client, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    bucket = await _objects(client, inputs, context)
    try:
        found = await bucket.list()
    except Missing:
        found = []
    objects = [{"key": each.name, "size": each.size, "checksum": each.digest} for each in found if not each.deleted]
    return {"bucket": str(inputs["bucket"]), "objects": sorted(objects, key=lambda each: str(each["key"]))}


async def _key_value(client: Client, inputs: Mapping[str, Any], context: ToolContext) -> KeyValue:
    stream = _stream(client, context)
    return await _opened(inputs, stream.key_value, stream.create_key_value)


async def _objects(client: Client, inputs: Mapping[str, Any], context: ToolContext) -> ObjectStore:
    stream = _stream(client, context)
    return await _opened(inputs, stream.object_store, stream.create_object_store)


async def _opened(
    inputs: Mapping[str, Any], find: Callable[[str], Awaitable[_T]], create: Callable[..., Awaitable[_T]]
) -> _T:
    """The bucket that the inputs name; it is created if the inputs say so."""
    name = _bucket(inputs)
    try:
        return await find(name)
    except BucketNotFoundError:
        if inputs.get("create") is not True:
            raise _no_bucket(name) from None
    return await create(bucket=name)


def _stream(client: Client, context: ToolContext) -> JetStreamContext:
    return client.jetstream(timeout=timeout_s(context, DEFAULT_S))


def _bucket(inputs: Mapping[str, Any]) -> str:
    name = str(inputs.get("bucket") or "")
    if not _BUCKET.match(name):
        raise ToolError("nats.input", f'"{name}" is not a valid bucket name: letters, digits, - and _ are')
    return name


def _key(inputs: Mapping[str, Any]) -> str:
    key = str(inputs.get("key") or "")
    if not _KEY.match(key):
        raise ToolError("nats.input", f'"{key}" is no key: letters, digits and - / _ = are, joined by dots')
    return key


def _object_name(inputs: Mapping[str, Any]) -> str:
    name = str(inputs.get("key") or "")
    if not name:
        raise ToolError("nats.input", 'an object needs "key": its name')
    return name


def _no_bucket(name: str) -> ToolError:
    return ToolError("nats.missing", f'there is no bucket "{name}" here; create: true makes it', code="bucket")


# All keys of a bucket. They are fetched in batches, and messages on their way are waited for.
#
# The `keys()` of the client waits for pushed messages. On a busy machine none may have arrived when it looks, and then
# it reports an empty bucket.

_BATCH = 500
_KEPT_S = 60.0  # the server deletes the consumer if this process ends before it can


async def keys_of(stream: JetStreamContext, bucket: str, *, timeout_s: float) -> list[str]:
    """Sorted. Keys written meanwhile may or may not be included."""
    prefix, kept_in = f"$KV.{bucket}.", f"KV_{bucket}"
    config = ConsumerConfig(
        deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
        ack_policy=AckPolicy.NONE,
        # The values are not needed, and may be large.
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
            # A key that is written or purged meanwhile loses its old message. The count of the server is used so that
            # the loop does not wait for such a message.
            left = min(left - len(fetched), fetched[-1].metadata.num_pending)
    finally:
        await consumer.unsubscribe()
        await stream.delete_consumer(kept_in, info.name)
    return sorted(key for key, exists in is_there.items() if exists)


def _is_removal(message: Msg) -> bool:
    """Whether the newest message of a key is its removal."""
    headers = message.header or {}
    return headers.get(KV_OP) in (KV_DEL, KV_PURGE) or KV_MARKER_REASON in headers
