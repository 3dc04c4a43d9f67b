"""`amqp`: publishes to exchanges and queues of RabbitMQ, and takes messages of a queue."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiormq import exceptions
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import AMQPError
from pamqp import commands
from pamqp.exceptions import PAMQPException

from noetl.base.errors import ToolError
from noetl.tools.amqp import messages
from noetl.tools.amqp.connections import AmqpConnections, OwnedConnection
from noetl.tools.contract import ToolContext, ToolResult, TriggerBatch, TriggerItem, TriggerPoll
from noetl.tools.messaging.broker_inputs import BrokerInputs

OPERATIONS = ("publish", "get", "ack", "reject", "count")
_OF_THE_LIBRARY = (AMQPError, PAMQPException, OSError, EOFError, RuntimeError, ValueError, TypeError, struct.error)


class AmqpTool(BrokerInputs):
    kind = "amqp"
    schemes: Mapping[str, bool] = {"amqp": False, "amqps": True}
    ports = (5672, 5671)

    def __init__(self) -> None:
        self._connections = AmqpConnections()

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        op = str(inputs.get("op") or "")
        if op not in OPERATIONS:
            raise ToolError("amqp.input", f'op "{op}" is not known: write {", ".join(OPERATIONS)}')
        if op in ("ack", "reject"):
            return ToolResult(result=await self._settle_task(op, inputs, context))
        if op == "publish":
            async with self._connected(inputs, context, "publish") as owned:
                return ToolResult(result=await messages.publish(owned, inputs, context.idempotency_key))
        queue = _queue(inputs, op)
        if op == "get":
            return ToolResult(result=await self._get(queue, inputs, context))
        async with self._connected(inputs, context, f'count of "{queue}"') as owned:
            return ToolResult(result=await messages.count(owned, queue))

    async def poll(self, inputs: Mapping[str, Any], poll: TriggerPoll, context: ToolContext) -> TriggerBatch:
        """Messages of a queue. They are held until they are settled, or the connection is closed."""
        queue = _queue(inputs, "a trigger")
        async with self._connected(inputs, context, f'messages of "{queue}"') as owned:
            held, found = await messages.get(owned, queue, limit=poll.limit, wait_s=poll.wait_s)
            items = [_item(one, messages.receipt_of(held, one), queue, inputs.get("identity")) for one in found]
        return TriggerBatch(items=tuple(items), cursor=poll.cursor)

    async def settle(
        self,
        inputs: Mapping[str, Any],
        accepted: Sequence[TriggerItem],
        returned: Sequence[TriggerItem],
        context: ToolContext,
    ) -> None:
        """What is held no more is handed out again by the broker, and finds its execution then."""
        owner = context.execution_id
        async with _errors_of("acknowledge"):
            await messages.settle(self._connections, owner, [one.receipt for one in accepted], how="ack")
            await messages.settle(self._connections, owner, [one.receipt for one in returned], how="requeue")

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Whether the broker takes the credential. Nothing is sent or taken."""
        async with self._connected(inputs, context, "connect"):
            return f"connected to amqp at {self.broker_of(inputs.get('auth'), context)}"

    def release(self, execution_id: str) -> None:
        self._connections.release(execution_id)

    async def close(self) -> None:
        await self._connections.close()

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}

    @asynccontextmanager
    async def _connected(
        self, inputs: Mapping[str, Any], context: ToolContext, what: str
    ) -> AsyncIterator[OwnedConnection]:
        broker = self.broker_of(inputs.get("auth"), context)
        connection = self._connections.connection(context.execution_id, broker, context.addresses)
        async with _errors_of(f"{what} on amqp at {broker}"), connection as owned:
            yield owned

    async def _get(self, queue: str, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        limit, wait_s = self.count_of(inputs.get("limit")), self.duration_of(inputs.get("wait"), 0.0)
        later, owner = _is_later(inputs.get("ack")), context.execution_id
        async with self._connected(inputs, context, f'get of "{queue}"') as owned:
            held, found = await messages.get(owned, queue, limit=limit, wait_s=wait_s)
            receipts = [messages.receipt_of(held, one) for one in found]
            try:
                rows = [messages.message_row(one, inputs.get("format")) for one in found]
            except ToolError:
                owned.let_go(held)
                raise
            if later:
                return {"queue": queue, "messages": rows, "count": len(rows), "receipts": receipts}
            await messages.settle(self._connections, owner, receipts, how="ack")
        return {"queue": queue, "messages": rows, "count": len(rows)}

    async def _settle_task(self, op: str, inputs: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        receipts = inputs.get("receipts")
        if not isinstance(receipts, Sequence) or isinstance(receipts, str):
            raise ToolError("amqp.input", f'{op} needs "receipts": the list that get returned')
        how = op if op == "ack" or inputs.get("requeue") is not True else "requeue"
        async with _errors_of(op):
            settled = await messages.settle(
                self._connections, context.execution_id, [str(one) for one in receipts], how=how
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
    queue = messages.name_of(inputs, "queue")
    if not queue:
        raise ToolError("amqp.input", f'{op} needs "queue"')
    return queue


def _is_later(ack: Any) -> bool:
    if ack not in (None, "received", "later"):
        raise ToolError("amqp.input", f'ack "{ack}" is received or later')
    return bool(ack == "later")


def _item(message: DeliveredMessage, receipt: str, queue: str, identity: Any) -> TriggerItem:
    """A message with its identity: the id that its publisher gave it, or all of its content."""
    row = messages.message_row(message, None)
    del row["redelivered"]  # the same message, however often it comes
    message_id = message.header.properties.message_id
    if message_id and identity != "content":
        return TriggerItem(item_id=f"{queue}:{message_id}", value=row, receipt=receipt)
    digest = hashlib.sha256(msgspec.json.encode([row, message.body])).hexdigest()
    why = "" if identity == "content" else "it has no message_id, by which a repeated message is known"
    return TriggerItem(item_id=f"{queue}:{digest}", value=row, receipt=receipt, refusal=why)


# What a broker's refusal means: the kind of the error, the broker's own code, and whether another try may help.
# Reply codes of AMQP 0-9-1: no route, access refused, not found, locked, precondition failed, not allowed.
_KINDS = {312: "missing", 403: "denied", 404: "missing", 405: "conflict", 406: "conflict", 530: "denied"}
_CODES: dict[type[Exception], int] = {  # the library keeps the text of these, and tells the code by the class
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
    said = f"{what}: {_readable(text)}"
    if code is None:
        lost = isinstance(problem, OSError | EOFError | exceptions.AMQPConnectionError | RuntimeError)
        return ToolError("amqp.error", said, code="connection" if lost else "protocol", retryable=lost)
    return ToolError(f"amqp.{_KINDS.get(code, 'error')}", said, code=str(code), retryable=code in _PASSING)


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
