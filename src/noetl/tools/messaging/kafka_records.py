"""Kafka, in the child: producing records, consuming some of a topic, and committing how far a group has come.

Reading commits nothing. The caller passes the offsets to continue from, and stores them together with the results of
the records.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiokafka.client
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from noetl.base.errors import ToolError
from noetl.base.tls_trust import tls_context
from noetl.tools.contents import MAX_BYTES, decode, encode
from noetl.tools.messaging.tool import MessagingRequest

_DENIED = {29, 30, 31, 53, 58}  # topic, group, cluster, transactional id; a wrong login
_MISSING = {3, 69}  # a topic or partition, a group
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_SHORTEST_WAIT_S = 0.5  # seconds that available records may take to arrive
_IDLE_S = 10.0  # without an answer while records are known to be there

_why: list[BaseException] = []  # the error of the last connection; the library only logs it
_connect = aiokafka.client.create_conn


async def _connect_and_tell(*args: Any, **more: Any) -> Any:
    try:
        return await _connect(*args, **more)
    # The driver retries and in the end only says that no broker was found; the reason is kept here.
    except BaseException as problem:
        _why[:] = [problem]
        raise


aiokafka.client.create_conn = _connect_and_tell


async def perform(request: MessagingRequest) -> dict[str, Any]:
    _why.clear()
    match request.op:
        case "check":
            async with _consumer(request) as consumer:
                await consumer.topics()
            return {}
        case "produce":
            return await _produce(request)
        case "consume":
            return await _consume(request)
        case "commit":
            return await _commit(request)
        case _:
            raise ToolError("kafka.input", f'op "{request.op}" is not known: write produce, consume or commit')


def read_error(problem: Exception) -> tuple[str, str | None, bool]:
    """The kind of an error, the code of the protocol, and whether a retry may help."""
    cause = _why[0] if _why else problem
    names = {type(one).__name__ for one in (problem, cause)}
    if names & {"AuthenticationFailedError", "SaslAuthenticationFailed", "SaslAuthenticationFailedError"}:
        return "denied", "58", False
    code = getattr(problem, "errno", None)
    if not isinstance(code, int) or code < 0 or not isinstance(problem, KafkaError):
        return "error", "connection", True
    if code in _DENIED:
        return "denied", str(code), False
    return "missing" if code in _MISSING else "error", str(code), bool(getattr(problem, "retriable", False))


def _connection(request: MessagingRequest) -> dict[str, Any]:
    broker = request.broker
    options: dict[str, Any] = {
        "bootstrap_servers": list(broker.servers) or [f"{broker.host}:{broker.port}"],
        "client_id": "noetl",
        "request_timeout_ms": int(max(min(request.timeout_s, 30), 1) * 1000),
        "security_protocol": f"{'SASL_' if broker.user else ''}{'SSL' if broker.tls else 'PLAINTEXT'}",
        "ssl_context": tls_context(broker.ca) if broker.tls else None,
    }
    if broker.user:
        mechanism = (broker.mechanism or "PLAIN").upper()
        if mechanism not in _MECHANISMS:
            known = ", ".join(_MECHANISMS)
            raise ToolError("keychain.unresolved", f'the "mechanism" of the credential is one of {known}')
        login = {"sasl_plain_username": broker.user, "sasl_plain_password": broker.password}
        options |= {"sasl_mechanism": mechanism, **login}
    return options


@asynccontextmanager
async def _consumer(request: MessagingRequest) -> AsyncIterator[Any]:
    consumer = AIOKafkaConsumer(
        **_connection(request),
        group_id=str(request.inputs.get("group") or "") or None,
        enable_auto_commit=False,
        # Records of a transaction that was rolled back must start nothing.
        isolation_level="read_committed",
        # The driver fetches more than it was asked for: these limits bound its memory.
        fetch_max_bytes=16 << 20,
        max_partition_fetch_bytes=4 << 20,
    )
    try:
        await consumer.start()
        yield consumer
    finally:
        await _stop_client(consumer)


async def _stop_client(client: Any) -> None:
    """Stop a client. A client that did not connect cancels its own tasks and raises that cancellation; it is not
    ours."""
    with suppress(asyncio.CancelledError):
        await client.stop()


async def _produce(request: MessagingRequest) -> dict[str, Any]:
    """Produce records; returns when every replica has them. A retry by the library is not stored twice."""
    topic, records = request.text("topic"), _records(request)
    producer = AIOKafkaProducer(
        **_connection(request), acks="all", enable_idempotence=True, max_request_size=MAX_BYTES, linger_ms=0
    )
    try:
        await producer.start()
        # All are handed over before the first answer is awaited, so that the driver can send them as one batch.
        sent = [await producer.send(topic, **record) for record in records]
        stored = [await one for one in sent]
    finally:
        await _stop_client(producer)
    placed = [{"partition": one.partition, "offset": one.offset} for one in stored]
    return {"topic": topic, "records": placed, "count": len(placed)}


def _records(request: MessagingRequest) -> list[dict[str, Any]]:
    """The records to produce: those of `records`, or the one of `data`."""
    given = request.inputs.get("records")
    if given is None:
        return [_record(request, {**request.inputs, "data": None}, request.body)]
    if not isinstance(given, list) or not all(isinstance(one, Mapping) for one in given):
        raise ToolError("kafka.input", "records must be a list of mappings, each with data")
    form = request.inputs.get("format")
    return [_record(request, one, encode(one.get("data"), form, kind="kafka")) for one in given]


def _record(request: MessagingRequest, given: Mapping[str, Any], body: bytes) -> dict[str, Any]:
    key, partition, headers = given.get("key"), given.get("partition"), given.get("headers") or {}
    if partition is not None and (isinstance(partition, bool) or not isinstance(partition, int) or partition < 0):
        raise ToolError("kafka.input", f'partition "{partition}" is no number of one')
    if not isinstance(headers, Mapping):
        raise ToolError("kafka.input", f"headers must be a mapping, not {type(headers).__name__}")
    return {
        "value": body,
        "key": encode(key, kind="kafka") if key is not None else None,
        "partition": partition,
        "headers": [(str(name), encode(value, kind="kafka")) for name, value in headers.items()],
    }


async def _consume(request: MessagingRequest) -> dict[str, Any]:
    topic = request.text("topic")
    async with _consumer(request) as consumer:
        ends = await _ready(consumer, topic, request)
        found: list[ConsumerRecord] = []
        size, wait_s = 0, max(request.wait_s, _SHORTEST_WAIT_S)
        while len(found) < request.limit and size <= MAX_BYTES:
            # Only the positions show whether records are left: a poll may return nothing although there are more.
            is_behind = any([await consumer.position(one) < end for one, end in ends.items()])
            if found and not is_behind:
                break
            batch = await consumer.getmany(
                timeout_ms=int((_IDLE_S if is_behind else wait_s) * 1000), max_records=request.limit - len(found)
            )
            records = [record for part in batch.values() for record in part]
            if not records:
                break
            found += records
            size += sum(len(record.value or b"") for record in records)
        offsets = {str(one.partition): await consumer.position(one) for one in ends}
    rows = [_row(record, request) for record in found]
    return {"topic": topic, "records": rows, "count": len(rows), "offsets": offsets}


async def _ready(consumer: Any, topic: str, request: MessagingRequest) -> dict[TopicPartition, int]:
    """Assign every partition of the topic, each at the offset to continue from; returns where each ends now."""
    cluster = await consumer._client.fetch_all_metadata()  # on some brokers, a request for one topic would create it
    numbers = cluster.partitions_for_topic(topic)
    if not numbers:
        raise ToolError("kafka.missing", f'there is no topic "{topic}"', code="3")
    parts = [TopicPartition(topic, number) for number in sorted(numbers)]
    consumer.assign(parts)
    first, ends = await consumer.beginning_offsets(parts), await consumer.end_offsets(parts)
    given = _offsets(request)
    for part in parts:
        at = given.get(part.partition)
        # Offsets of the caller win: they were stored together with the results of the records. The group only helps a
        # new reader.
        if at is None and request.inputs.get("group"):
            at = await consumer.committed(part)
        if at is None:
            at = ends[part] if request.inputs.get("start") == "latest" else first[part]
        if at > ends[part]:
            message = f'partition {part.partition} of "{topic}" ends at {ends[part]}, before offset {at}'
            raise ToolError("kafka.conflict", f"{message}: the topic was made anew", code="1")
        consumer.seek(part, max(at, first[part]))  # records deleted by age are gone
    return dict(ends)


def _offsets(request: MessagingRequest) -> dict[int, int]:
    given = request.inputs.get("offsets") or {}
    try:
        found = {int(part): int(offset) for part, offset in given.items()}
    except (AttributeError, TypeError, ValueError):
        raise ToolError("kafka.input", "offsets must be a mapping from partitions to numbers") from None
    if any(number < 0 for pair in found.items() for number in pair):
        raise ToolError("kafka.input", "offsets and partitions are not negative")
    return found


async def _commit(request: MessagingRequest) -> dict[str, Any]:
    topic, group, offsets = request.text("topic"), request.text("group"), _offsets(request)
    if not offsets:
        raise ToolError("kafka.input", 'commit needs "offsets": what consume returned under this name')
    async with _consumer(request) as consumer:
        parts = {TopicPartition(topic, part): offset for part, offset in offsets.items()}
        consumer.assign(list(parts))
        await consumer.commit(parts)
    return {"topic": topic, "group": group, "offsets": {str(part): offset for part, offset in offsets.items()}}


def _row(record: ConsumerRecord, request: MessagingRequest) -> dict[str, Any]:
    form = request.inputs.get("format")
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": decode(record.key, "auto", kind="kafka") if record.key is not None else None,
        "value": decode(record.value, form, kind="kafka") if record.value is not None else None,
        "headers": {name: decode(value, "auto", kind="kafka") for name, value in record.headers if value is not None},
    }
