"""Buckets: key-value and object buckets. What is written is told as a reference (RES-05)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import BucketNotFoundError
from nats.js.errors import NotFoundError as Missing
from nats.js.kv import KV_DEL, KV_MARKER_REASON, KV_OP, KV_PURGE, KeyValue
from nats.js.object_store import ObjectStore

from noetl.base.errors import ToolError
from noetl.tools.contents import MAX_BYTES, decoded, encoded
from noetl.tools.contract import ToolContext
from noetl.tools.nats.messages import timeout_s

# What NATS allows. Checked here, since dots and wildcards in a name would reach other subjects.
_BUCKET = re.compile(r"[a-zA-Z0-9_-]{1,200}\Z")
_KEY = re.compile(r"[-/_=a-zA-Z0-9]+(?:\.[-/_=a-zA-Z0-9]+)*\Z")


async def kv_get(client: Client, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    bucket = await _key_value(client, inputs, context)
    entry = await bucket.get(_key(inputs), revision=inputs.get("revision"))
    value = decoded(entry.value or b"", inputs.get("format"), kind="nats")
    return {"bucket": entry.bucket, "key": entry.key, "value": value, "revision": entry.revision}


async def kv_put(client: Client, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Write a key; with `revision` only if that is its latest one, 0 meaning that it is not there yet."""
    key, body, expected = _key(inputs), encoded(inputs.get("data"), kind="nats"), inputs.get("revision")
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
    return {"bucket": name, "keys": await keys_of(_stream(client, context), name, timeout_s=timeout_s(context))}


async def object_get(client: Client, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    name = _object_name(inputs)
    bucket = await _objects(client, inputs, context)
    info = await bucket.get_info(name)
    if (info.size or 0) > MAX_BYTES:
        raise ToolError("result.too_large", f'the object "{name}" has {info.size} bytes, at most {MAX_BYTES} are read')
    found = await bucket.get(name)
    value = decoded(bytes(found.data or b""), inputs.get("format"), kind="nats")
    return {"bucket": str(inputs["bucket"]), "key": name, "value": value, "size": info.size, "checksum": info.digest}


async def object_put(client: Client, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    name, body = _object_name(inputs), encoded(inputs.get("data"), kind="nats")
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
    stream, name = _stream(client, context), _bucket(inputs)
    try:
        return await stream.key_value(name)
    except BucketNotFoundError:
        if inputs.get("create") is not True:
            raise _no_bucket(name) from None
    return await stream.create_key_value(bucket=name)


async def _objects(client: Client, inputs: Mapping[str, Any], context: ToolContext) -> ObjectStore:
    stream, name = _stream(client, context), _bucket(inputs)
    try:
        return await stream.object_store(name)
    except BucketNotFoundError:
        if inputs.get("create") is not True:
            raise _no_bucket(name) from None
    return await stream.create_object_store(bucket=name)


def _stream(client: Client, context: ToolContext) -> JetStreamContext:
    return client.jetstream(timeout=timeout_s(context))


def _bucket(inputs: Mapping[str, Any]) -> str:
    name = str(inputs.get("bucket") or "")
    if not _BUCKET.match(name):
        raise ToolError("nats.input", f'"{name}" is no name of a bucket: letters, digits, - and _ are')
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


# Keys of a bucket: all that are there. They are fetched, so that what is under way is waited for.
#
# The client's own `keys()` is told of them unasked, and takes a bucket for empty when none has arrived by the time it
# looks; on a busy machine that happens.

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
