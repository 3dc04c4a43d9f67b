"""Wake-ups over NATS JetStream. The stream holds nothing that matters: delete it, or the server's data, at any
moment, and it is made again (reliability.md §3.2).

A message is {pool, times, from}, under 200 bytes, on `noetl.orders.<pool>`. Every listener has its own consumer, which
starts with new messages and acknowledges them on receipt: no message is needed later, since the state of an order is in
the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, DiscardPolicy, RetentionPolicy, StreamConfig
from nats.js.errors import BadRequestError

from noetl.base.nats_connections import connect_client, leave
from noetl.store.wakeups import Hear, LinkedWakeups

STREAM, SUBJECT = "NOETL_ORDERS", "noetl.orders"
TRIAL_S = 5.0  # how often a silent consumer is checked
_PATIENCE_S = 5.0
_BATCH = 64
_KEPT_S, _KEPT = 60.0, 10_000  # an old wake-up is of no use
_IDLE_S = 60.0  # after which the server forgets a consumer whose listener is gone
_LONGEST = 120  # characters of a pool's name


class WakeupMessage(msgspec.Struct, frozen=True, kw_only=True, rename={"sender": "from"}):
    pool: str
    times: int
    sender: str


def nats_dispatch(url: str, **credentials: str) -> LinkedWakeups:
    """`credentials` are those of the driver: `user` and `password`, `token`, `user_credentials`, …"""

    @asynccontextmanager
    async def connect(hear: Hear) -> AsyncIterator[_NatsLink]:
        client = Client()
        try:
            # A lost link is opened again as a whole, with its consumer.
            async with asyncio.timeout(_PATIENCE_S):
                await connect_client(client, url, credentials)
            link = _NatsLink(client, hear)
            await link.begin()
            yield link
        finally:
            await leave(client)

    return LinkedWakeups(connect)


class _NatsLink:
    def __init__(self, client: Client, hear: Hear) -> None:
        self._stream: JetStreamContext = client.jetstream(timeout=_PATIENCE_S)
        self._hear = hear
        self._name = uuid4().hex[:8]
        self._heard: JetStreamContext.PullSubscription | None = None

    async def begin(self) -> None:
        """The stream, if there is none, and a consumer that is ours."""
        config = StreamConfig(
            name=STREAM,
            subjects=[f"{SUBJECT}.>"],
            retention=RetentionPolicy.LIMITS,
            discard=DiscardPolicy.OLD,
            max_age=_KEPT_S,
            max_msgs=_KEPT,
            num_replicas=1,
        )
        with suppress(BadRequestError):  # it exists, with the settings of its creator
            await self._stream.add_stream(config)
        consumer = ConsumerConfig(
            # Not from the beginning of the stream: a worker that starts reads the store anyway.
            deliver_policy=DeliverPolicy.NEW,
            ack_policy=AckPolicy.EXPLICIT,
            inactive_threshold=_IDLE_S,
        )
        self._heard = await self._stream.pull_subscribe(f"{SUBJECT}.>", stream=STREAM, config=consumer)

    async def send(self, pool: str, times: int) -> None:
        pool = pool[:_LONGEST]
        body = msgspec.json.encode(WakeupMessage(pool=pool, times=times, sender=self._name))
        await self._stream.publish(f"{SUBJECT}.{_token(pool)}", body, timeout=_PATIENCE_S)

    async def listen(self) -> None:
        assert self._heard is not None
        while True:
            try:
                messages = await self._heard.fetch(_BATCH, timeout=TRIAL_S)
            except TimeoutError:  # the client raises its own timeout error or the built-in one
                await self._heard.consumer_info()  # raises if it or the stream was deleted
                continue
            for message in messages:
                await message.ack()
                self._on_message(message)

    def _on_message(self, message: Msg) -> None:
        with suppress(msgspec.MsgspecError):  # a message of another program
            wakeup = msgspec.json.decode(message.data, type=WakeupMessage)
            # Our own messages come back as well. They are ignored: the workers of this process were woken before the
            # message was sent.
            if wakeup.sender != self._name:
                self._hear(wakeup.pool, wakeup.times)


def _token(pool: str) -> str:
    """The pool as a part of a subject, which may contain no dots, blanks or wildcards."""
    return (
        "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "_" for letter in pool) or "_"
    )
