"""`nats`: publishes messages, asks for answers, and reads and writes buckets of a NATS server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import nats.errors
import nats.js.errors
from nats.aio.client import Client

from noetl.base.errors import ToolError
from noetl.tools.contract import ToolContext, ToolResult, TriggerBatch, TriggerItem, TriggerPoll
from noetl.tools.nats import buckets, messages
from noetl.tools.nats.connections import NatsConnections, target_of

Operation = Callable[[Client, Mapping[str, Any], ToolContext], Awaitable[dict[str, Any]]]

OPERATIONS: dict[str, Operation] = {
    "publish": messages.publish,
    "request": messages.request,
    "kv_get": buckets.kv_get,
    "kv_put": buckets.kv_put,
    "kv_delete": buckets.kv_delete,
    "kv_keys": buckets.kv_keys,
    "object_get": buckets.object_get,
    "object_put": buckets.object_put,
    "object_delete": buckets.object_delete,
    "object_list": buckets.object_list,
}


class NatsTool:
    def __init__(self) -> None:
        self._connections = NatsConnections()

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        op = str(inputs.get("op") or "")
        operation = OPERATIONS.get(op)
        if operation is None:
            raise ToolError("nats.input", f'op "{op}" is not known: write {", ".join(OPERATIONS)}')
        client = await self._connections.client(target_of(inputs.get("auth"), context), context.addresses)
        try:
            return ToolResult(result=await operation(client, inputs, context))
        except (nats.errors.Error, TimeoutError) as problem:
            raise _tool_error(op, inputs, problem) from None

    async def poll(self, inputs: Mapping[str, Any], poll: TriggerPoll, context: ToolContext) -> TriggerBatch:
        """Messages of a stream that were not acknowledged for this trigger."""
        client = await self._connections.client(target_of(inputs.get("auth"), context), context.addresses)
        try:
            return await messages.new_messages(client, inputs, poll)
        except (nats.errors.Error, TimeoutError) as problem:
            raise _tool_error("poll", inputs, problem) from None

    async def settle(
        self,
        inputs: Mapping[str, Any],
        accepted: Sequence[TriggerItem],
        returned: Sequence[TriggerItem],
        context: ToolContext,
    ) -> None:
        client = await self._connections.client(target_of(inputs.get("auth"), context), context.addresses)
        try:
            await messages.settle(client, accepted, returned)
        except (nats.errors.Error, TimeoutError) as problem:
            raise _tool_error("acknowledge", inputs, problem) from None

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Whether the server takes the credential. ToolError says why it does not."""
        target = target_of(inputs.get("auth"), context)
        await self._connections.client(target, context.addresses)
        return f"connected to NATS at {target}"

    async def close(self) -> None:
        await self._connections.close()

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


def _tool_error(op: str, inputs: Mapping[str, Any], problem: nats.errors.Error | TimeoutError) -> ToolError:
    named = [str(inputs[name]) for name in ("stream", "bucket", "key") if inputs.get(name)]
    what = f"{op} of {inputs.get('subject') or '/'.join(named)}"
    match problem:
        case nats.js.errors.KeyWrongLastSequenceError():
            message = f"{what}: somebody else has written it since, its revision is not {inputs.get('revision')}"
            return ToolError("nats.conflict", message)
        case nats.js.errors.NoStreamResponseError():
            return ToolError("nats.missing", f"{what}: no stream keeps this subject", code="stream")
        case nats.js.errors.NotFoundError():
            return ToolError("nats.missing", f"{what}: there is none", code="key")
        case nats.errors.NoRespondersError():
            return ToolError("nats.missing", f"{what}: nobody answers there", code="responder", retryable=True)
        case TimeoutError():
            return ToolError("timeout", f"{what} got no answer in time", retryable=True)
        case nats.js.errors.APIError():
            retryable = (problem.code or 0) >= 500
            return ToolError("nats.error", f"{what}: {problem.description}", code=problem.err_code, retryable=retryable)
        case _:
            return ToolError("nats.error", f"{what}: {problem or type(problem).__name__}", retryable=True)
