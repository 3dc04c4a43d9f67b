"""Kinds that speak to message brokers: redis, mqtt, amqp, kafka."""

from __future__ import annotations

from noetl.net.kinds import (
    ANYTHING,
    AUTH,
    COUNT,
    DURATION,
    FLAG,
    INTEGER,
    OBJECT,
    TEXT,
    TEXTS,
    Input,
    ToolKind,
    TriggerKind,
    one_of,
)

REDIS_OPERATIONS = (
    *("get", "set", "delete", "increment", "keys"),
    *("hash_get", "hash_set", "push", "pop", "publish", "stream_add", "stream_read"),
)
_DATA = Input(
    name="data", schema=ANYTHING, doc="The value: text as it is, anything else as JSON.", aliases=("value", "payload")
)
_FORMAT = Input(
    name="format",
    schema=one_of("auto", "json", "text", "base64"),
    doc="How values are read; auto recognises JSON objects and lists. base64 is also decoded before it is sent.",
)
_LIMIT = Input(name="limit", schema=COUNT, doc="Most messages or keys returned; 100 when left out.")
_WAIT = Input(name="wait", schema=DURATION, doc="How long to wait for the first one; not at all when left out.")


def _errors(name: str) -> tuple[str, ...]:
    return tuple(f"{name}.{what}" for what in ("conflict", "denied", "error", "input", "missing"))


REDIS = ToolKind(
    name="redis",
    trigger=TriggerKind(
        doc="A new message of a stream.",
        item="The message: id and value.",
        inputs=(Input(name="key", schema=TEXT, doc="The stream.", required=True), AUTH),
    ),
    credential_types=("redis",),
    error_kinds=_errors("redis"),
    doc="Reads and writes keys, hashes, lists, channels and streams of Redis or Valkey.",
    inputs=(
        Input(name="op", schema=one_of(*REDIS_OPERATIONS), doc="What to do.", required=True, aliases=("operation",)),
        Input(name="key", schema=TEXT, doc="The key, list, stream or channel; with keys, a pattern such as orders:*."),
        Input(name="field", schema=TEXT, doc="With hash_get and hash_set: the field."),
        _DATA,
        Input(name="amount", schema=INTEGER, doc="With increment: what to add; 1 when left out."),
        Input(name="expires", schema=DURATION, doc="With set: how long the key lives."),
        Input(name="if_absent", schema=FLAG, doc="With set: fail with redis.conflict if the key exists."),
        Input(name="cursor", schema=TEXT, doc="With stream_read: the cursor that the last call returned."),
        _LIMIT,
        _WAIT,
        _FORMAT,
        AUTH,
    ),
    defaults={"timeout": 30},
)

MQTT = ToolKind(
    name="mqtt",
    credential_types=("mqtt",),
    error_kinds=("mqtt.denied", "mqtt.error", "mqtt.input"),
    doc="Publishes messages to an MQTT broker, and receives messages.",
    inputs=(
        Input(name="op", schema=one_of("publish", "receive"), doc="What to do.", required=True, aliases=("operation",)),
        Input(
            name="topic", schema=TEXT, doc="The topic; with receive it may have the wildcards + and #.", required=True
        ),
        _DATA,
        Input(
            name="qos",
            schema={"type": "integer", "minimum": 0, "maximum": 2},
            doc="Quality of service: 0, 1 or 2; 1 when left out.",
        ),
        Input(name="retain", schema=FLAG, doc="With publish: the broker keeps it for later subscribers."),
        Input(
            name="session",
            schema=TEXT,
            doc="With receive: the name of a session that the broker keeps, with what arrives between two tasks.",
        ),
        _LIMIT,
        _WAIT,
        _FORMAT,
        AUTH,
    ),
    defaults={"timeout": 30},
)

_QUEUE = Input(name="queue", schema=TEXT, doc="The queue.", required=True)

AMQP = ToolKind(
    name="amqp",
    trigger=TriggerKind(
        doc="A message of a queue.",
        item="The message: value, exchange, routing_key, message_id and headers.",
        inputs=(
            _QUEUE,
            Input(
                name="identity",
                schema=one_of("message_id", "content"),
                doc="What identifies a message that is delivered again; message_id when left out.",
            ),
            AUTH,
        ),
    ),
    credential_types=("amqp",),
    error_kinds=_errors("amqp"),
    doc="Publishes messages to RabbitMQ and other brokers of AMQP 0-9-1, and takes messages of a queue.",
    inputs=(
        Input(
            name="op",
            schema=one_of("publish", "get", "ack", "reject", "count"),
            doc="What to do.",
            required=True,
            aliases=("operation",),
        ),
        Input(name="queue", schema=TEXT, doc="The queue; with publish, the queue that gets the message directly."),
        Input(name="exchange", schema=TEXT, doc="With publish: the exchange."),
        Input(name="routing_key", schema=TEXT, doc="With publish: the key by which the exchange finds queues."),
        _DATA,
        Input(name="headers", schema=OBJECT, doc="With publish: headers of the message."),
        Input(name="message_id", schema=TEXT, doc="With publish: the id; that of the task run when left out."),
        Input(name="persistent", schema=FLAG, doc="With publish: the broker keeps it on disk; true when left out."),
        Input(
            name="mandatory",
            schema=FLAG,
            doc="With publish: a message that no queue takes is the error amqp.missing; true when left out.",
        ),
        Input(
            name="ack",
            schema=one_of("received", "later"),
            doc="With get: messages are acknowledged as they are received, or later by a task with op ack.",
        ),
        Input(
            name="receipts",
            schema=TEXTS,
            doc="With ack and reject: what get returned under this name.",
        ),
        Input(name="requeue", schema=FLAG, doc="With reject: back into the queue, not to its dead letters."),
        _LIMIT,
        _WAIT,
        _FORMAT,
        AUTH,
    ),
    defaults={"timeout": 30},
)

_TOPIC = Input(name="topic", schema=TEXT, doc="The topic.", required=True)
_START = Input(
    name="start",
    schema=one_of("earliest", "latest"),
    doc="Where reading begins if there are no offsets; earliest when left out.",
)

KAFKA = ToolKind(
    name="kafka",
    trigger=TriggerKind(
        doc="A new record of a topic.",
        item="The record: partition, offset, timestamp, key, value and headers.",
        inputs=(
            _TOPIC,
            Input(
                name="group",
                schema=TEXT,
                doc="The consumer group: its offsets are where reading begins, and are committed after the starts.",
            ),
            _START,
            AUTH,
        ),
    ),
    credential_types=("kafka",),
    error_kinds=_errors("kafka"),
    doc="Produces and consumes records of Kafka topics, and commits the offsets of a consumer group.",
    inputs=(
        Input(
            name="op",
            schema=one_of("produce", "consume", "commit"),
            doc="What to do.",
            required=True,
            aliases=("operation",),
        ),
        _TOPIC,
        _DATA,
        Input(name="key", schema=ANYTHING, doc="With produce: the key; records of one key keep their order."),
        Input(name="partition", schema=INTEGER, doc="With produce: the partition; that of the key when left out."),
        Input(name="headers", schema=OBJECT, doc="With produce: headers of the record."),
        Input(
            name="records",
            schema={"type": "array", "items": OBJECT},
            doc="With produce: several records at once, each with data, and key, partition and headers if any.",
        ),
        Input(
            name="offsets",
            schema=OBJECT,
            doc="With consume: from where each partition is read. With commit: the offsets that consume returned.",
        ),
        Input(
            name="group",
            schema=TEXT,
            doc="With commit: the consumer group. With consume: the group from whose offsets reading continues.",
        ),
        _START,
        _LIMIT,
        _WAIT,
        _FORMAT,
        AUTH,
    ),
    defaults={"timeout": 30},
)

KINDS = (REDIS, MQTT, AMQP, KAFKA)
