"""`amqp`: publishes to exchanges and queues of RabbitMQ, and takes messages of a queue."""

from __future__ import annotations

import asyncio
import hashlib
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiormq import exceptions
from aiormq.abc import AbstractChannel, DeliveredMessage
from aiormq.exceptions import AMQPError
from pamqp import commands
from pamqp.exceptions import PAMQPException

from noetl.base.errors import ToolError
from noetl.tools.amqp_connections import AmqpConnections, HeldChannel, OwnedConnection
from noetl.tools.contents import MAX_BYTES, decode, encode
from noetl.tools.contract import OwningTool, ToolContext, ToolResult, TriggerBatch, TriggerItem, TriggerPoll
from noetl.tools.messaging.tool import BrokerInputs

_LONGEST_NAME = 255  # bytes of a queue, an exchange or a key, as the protocol has them


async def publish(owned: OwnedConnection, inputs: Mapping[str, Any], message_id: str) -> dict[str, Any]:
    """Publish a message; returns when the broker has confirmed it. A message that no queue takes is an error, unless
    `mandatory` is false."""
    exchange, key = name_of(inputs, "exchange"), name_of(inputs, "routing_key") or name_of(inputs, "queue")
    if not exchange and not key:
        raise ToolError("amqp.input", 'publish needs "queue", or "exchange" with "routing_key"')
    body = encode(inputs.get("data"), inputs.get("format"), kind="amqp")
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
                if found or not wait_s or (waited := await _first_message(held.channel, queue, wait_s)) is None:
                    break
                message = waited
            found.append(message)
            size += len(message.body)
            held.tags.add(message.delivery_tag or 0)
    return held, found


async def _first_message(channel: AbstractChannel, queue: str, wait_s: float) -> DeliveredMessage | None:
    """The next message that arrives. While this waits, the broker may send only one."""
    arrived: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
    # Otherwise the broker would push the whole queue to this consumer, and other consumers would get nothing.
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
    """Wait for a message, or for the loss of the channel, which the library does not report to waiters."""
    while arrived.empty():
        if channel.is_closed:
            raise ConnectionError("the connection was lost while waiting")
        # The driver does not wake a waiter when its channel closes, so both are awaited.
        await asyncio.sleep(0.05)


def message_row(message: DeliveredMessage, form: Any) -> dict[str, Any]:
    properties = message.header.properties
    return {
        "value": decode(message.body, form, kind="amqp"),
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "message_id": properties.message_id,
        "headers": msgspec.to_builtins(properties.headers or {}, str_keys=True),
        "redelivered": bool(message.redelivered),
    }


def receipt_of(held: HeldChannel, message: DeliveredMessage) -> str:
    return f"{held.token}:{message.delivery_tag}"


async def settle(connections: AmqpConnections, owner: str, receipts: Sequence[str], *, how: str) -> int:
    """Acknowledge messages (`ack`), give them back (`requeue`) or refuse them (`reject`); returns how many were still
    held, after the broker has processed it."""
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
            owned.close_channel(held)
    for owned in touched:
        await owned.wait_closed()
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


OPERATIONS = ("publish", "get", "ack", "reject", "count")
_OF_THE_LIBRARY = (AMQPError, PAMQPException, OSError, EOFError, RuntimeError, ValueError, TypeError, struct.error)


class AmqpTool(BrokerInputs, OwningTool):
    kind = "amqp"
    schemes: Mapping[str, bool] = {"amqp": False, "amqps": True}
    ports = (5672, 5671)

    def __init__(self) -> None:
        self._connections = AmqpConnections()
        super().__init__(self._connections)

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        op = str(inputs.get("op") or "")
        if op not in OPERATIONS:
            raise ToolError("amqp.input", f'op "{op}" is not known: write {", ".join(OPERATIONS)}')
        if op in ("ack", "reject"):
            return ToolResult(result=await self._settle_task(op, inputs, context))
        if op == "publish":
            async with self._connection_for(inputs, context, "publish") as owned:
                return ToolResult(result=await publish(owned, inputs, context.task_run.idempotency_key))
        queue = _queue(inputs, op)
        if op == "get":
            return ToolResult(result=await self._get(queue, inputs, context))
        async with self._connection_for(inputs, context, f'count of "{queue}"') as owned:
            return ToolResult(result=await count(owned, queue))

    async def poll(self, inputs: Mapping[str, Any], poll: TriggerPoll, context: ToolContext) -> TriggerBatch:
        """Messages of a queue. They are held until they are settled, or the connection is closed."""
        queue = _queue(inputs, "a trigger")
        async with self._connection_for(inputs, context, f'messages of "{queue}"') as owned:
            held, found = await get(owned, queue, limit=poll.limit, wait_s=poll.wait_s)
            items = [_item(one, receipt_of(held, one), queue, inputs.get("identity")) for one in found]
        return TriggerBatch(items=tuple(items), cursor=poll.cursor)

    async def settle(
        self,
        inputs: Mapping[str, Any],
        accepted: Sequence[TriggerItem],
        returned: Sequence[TriggerItem],
        context: ToolContext,
    ) -> None:
        """A message that is no longer held is redelivered by the broker, and finds its execution then."""
        owner = context.task_run.execution_id
        async with _errors_of("acknowledge"):
            await settle(self._connections, owner, [one.receipt for one in accepted], how="ack")
            await settle(self._connections, owner, [one.receipt for one in returned], how="requeue")

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Whether the broker takes the credential. Nothing is sent or taken."""
        async with self._connection_for(inputs, context, "connect"):
            return f"connected to amqp at {self.broker_of(inputs.get('auth'), context)}"

    @asynccontextmanager
    async def _connection_for(
        self, inputs: Mapping[str, Any], context: ToolContext, what: str
    ) -> AsyncIterator[OwnedConnection]:
        broker = self.broker_of(inputs.get("auth"), context)
        connection = self._connections.connection(context.task_run.execution_id, broker, context.addresses)
        async with _errors_of(f"{what} on amqp at {broker}"), connection as owned:
            yield owned

    async def _get(self, queue: str, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        limit, wait_s = self.count_of(inputs.get("limit")), self.duration_of(inputs.get("wait"), 0.0)
        later, owner = _is_later(inputs.get("ack")), context.task_run.execution_id
        async with self._connection_for(inputs, context, f'get of "{queue}"') as owned:
            held, found = await get(owned, queue, limit=limit, wait_s=wait_s)
            receipts = [receipt_of(held, one) for one in found]
            try:
                rows = [message_row(one, inputs.get("format")) for one in found]
            except ToolError:
                owned.close_channel(held)
                raise
            if later:
                return {"queue": queue, "messages": rows, "count": len(rows), "receipts": receipts}
            await settle(self._connections, owner, receipts, how="ack")
        return {"queue": queue, "messages": rows, "count": len(rows)}

    async def _settle_task(self, op: str, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        receipts = inputs.get("receipts")
        if not isinstance(receipts, Sequence) or isinstance(receipts, str):
            raise ToolError("amqp.input", f'{op} needs "receipts": the list that get returned')
        how = op if op == "ack" or inputs.get("requeue") is not True else "requeue"
        async with _errors_of(op):
            settled = await settle(
                self._connections, context.task_run.execution_id, [str(one) for one in receipts], how=how
            )
        if settled < len(receipts):
            lost = f"{len(receipts) - settled} of {len(receipts)} messages are held no more"
            message = f"{lost}: the broker hands them out again"
            raise ToolError("amqp.missing", message, code="receipt", retryable=False)
        return {"settled": settled}


@asynccontextmanager
async def _errors_of(what: str) -> AsyncIterator[None]:
    try:
        yield
    except _OF_THE_LIBRARY as problem:
        raise tool_error(problem, what) from None


def _queue(inputs: Mapping[str, Any], op: str) -> str:
    queue = name_of(inputs, "queue")
    if not queue:
        raise ToolError("amqp.input", f'{op} needs "queue"')
    return queue


def _is_later(ack: Any) -> bool:
    if ack not in (None, "received", "later"):
        raise ToolError("amqp.input", f'ack "{ack}" is received or later')
    return bool(ack == "later")


def _item(message: DeliveredMessage, receipt: str, queue: str, identity: Any) -> TriggerItem:
    """A message with its identity: the id that its publisher gave it, or all of its content."""
    row = message_row(message, None)
    del row["redelivered"]  # the same message, however often it comes
    message_id = message.header.properties.message_id
    if message_id and identity != "content":
        return TriggerItem(item_id=f"{queue}:{message_id}", value=row, receipt=receipt)
    digest = hashlib.sha256(msgspec.json.encode([row, message.body])).hexdigest()
    why = "" if identity == "content" else "it has no message_id, by which a repeated message is known"
    return TriggerItem(item_id=f"{queue}:{digest}", value=row, receipt=receipt, refusal=why)


# The meaning of a broker's refusal: the kind of the error, the broker's own code, and whether a retry may help.
#
# Reply codes of AMQP 0-9-1: no route, access refused, not found, locked, precondition failed, not allowed.
_KINDS = {312: "missing", 403: "denied", 404: "missing", 405: "conflict", 406: "conflict", 530: "denied"}
# The library keeps only the text of these errors; the class determines the code.
_CODES: dict[type[Exception], int] = {
    exceptions.ChannelAccessRefused: 403,
    exceptions.ChannelNotFoundEntity: 404,
    exceptions.ChannelLockedResource: 405,
    exceptions.ChannelPreconditionFailed: 406,
    exceptions.ConnectionFrameError: 501,
    exceptions.ConnectionSyntaxError: 502,
    exceptions.ConnectionCommandInvalid: 503,
    exceptions.ConnectionChannelError: 504,
    exceptions.ConnectionUnexpectedFrame: 505,
    exceptions.ConnectionResourceError: 506,
    exceptions.ConnectionNotAllowed: 530,
    exceptions.ConnectionNotImplemented: 540,
    exceptions.ConnectionInternalError: 541,
}
_PASSING = {311, 320, 506, 541}  # too large for now, closed by an operator, out of resources, an internal error
_LONGEST = 300


def tool_error(problem: Exception, what: str) -> ToolError:
    """`what` says what was tried and where."""
    code, text = _code_and_text(problem)
    if isinstance(problem, exceptions.ProbableAuthenticationError | exceptions.AuthenticationError):
        return ToolError("amqp.denied", f"{what}: the broker refused the login", code="403", retryable=False)
    message = f"{what}: {_readable(text)}"
    if code is None:
        lost = isinstance(problem, OSError | EOFError | exceptions.AMQPConnectionError | RuntimeError)
        return ToolError("amqp.error", message, code="connection" if lost else "protocol", retryable=lost)
    return ToolError(f"amqp.{_KINDS.get(code, 'error')}", message, code=str(code), retryable=code in _PASSING)


def _code_and_text(problem: Exception) -> tuple[int | None, str]:
    if isinstance(problem, exceptions.DeliveryError):
        frame: Any = problem.frame
        if isinstance(frame, commands.Basic.Return):
            return frame.reply_code, f"{frame.reply_text}: no queue takes it"
        return 541, "the broker could not keep it"
    if type(problem) in _CODES:
        return _CODES[type(problem)], str(problem.args[0]) if problem.args else ""
    if problem.args and isinstance(problem.args[0], int) and isinstance(problem, exceptions.AMQPError):
        return problem.args[0], str(problem.args[1]) if len(problem.args) > 1 else ""
    return None, str(problem) or type(problem).__name__


def _readable(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)[:_LONGEST]
