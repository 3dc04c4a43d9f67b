"""`redis`, `mqtt` and `kafka`: one operation of a broker at a time, in a child process.

The clients of these brokers look hosts up by themselves; in a process of their own their sockets are held to the
address policy, and a cancelled task ends with its process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import msgspec

from noetl.tools.child_process import ChildPool, Program
from noetl.tools.contents import encoded
from noetl.tools.contract import ToolContext, ToolResult, TriggerBatch, TriggerItem, TriggerPoll
from noetl.tools.messaging.broker_inputs import BrokerInputs, total
from noetl.tools.messaging.request import MessagingRequest

_TIMEOUT_S = 30.0


class BrokerTool(BrokerInputs):
    """What the kinds with a child process share."""

    def __init__(self) -> None:
        self._children = ChildPool(
            Program(module="noetl.tools.messaging.child", name=self.kind, error=f"{self.kind}.error", retryable=True)
        )

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        request = self._request(inputs, context)
        answer = await self._children.call(context.execution_id, msgspec.to_builtins(request))
        return ToolResult(result=answer["result"])

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Whether the broker takes the credential. Nothing is sent or taken."""
        request = self._request({**inputs, "op": "check"}, context)
        await self._children.call(context.execution_id, msgspec.to_builtins(request))
        return f"connected to {self.kind} at {request.broker}"

    def release(self, execution_id: str) -> None:
        self._children.release(execution_id)

    async def close(self) -> None:
        await self._children.close()

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}

    def _request(self, inputs: Mapping[str, Any], context: ToolContext) -> MessagingRequest:
        given = {name: value for name, value in inputs.items() if name not in ("auth", "data")}
        form = inputs.get("format")
        return MessagingRequest(
            kind=self.kind,
            op=str(inputs.get("op") or ""),
            broker=self.broker_of(inputs.get("auth"), context),
            inputs=given,
            body=encoded(inputs.get("data"), form, kind=self.kind) if "data" in inputs else b"",
            limit=self.count_of(inputs.get("limit")),
            wait_s=self.duration_of(inputs.get("wait"), 0.0),
            key=context.idempotency_key,
            policy=context.addresses.policy,
            timeout_s=self.duration_of(total(context.spec.get("timeout")), _TIMEOUT_S),
        )


def _needs(package: str) -> None:
    """The child imports it; say so before there is one."""
    if find_spec(package) is None:
        raise ImportError(f"{package} is not installed")


class RedisTool(BrokerTool):
    kind = "redis"
    schemes: Mapping[str, bool] = {"redis": False, "rediss": True, "valkey": False, "valkeys": True}
    ports = (6379, 6379)

    def __init__(self) -> None:
        _needs("redis")
        super().__init__()

    async def poll(self, inputs: Mapping[str, Any], poll: TriggerPoll, context: ToolContext) -> TriggerBatch:
        """Messages of a stream after the cursor."""
        asked = {"op": "stream_read", "cursor": poll.cursor, "limit": poll.limit, "wait": poll.wait_s or None}
        found = (await self.run({**inputs, **asked}, context)).result
        items = [TriggerItem(item_id=one["id"], value=one) for one in found["messages"]]
        return TriggerBatch(items=tuple(items), cursor=found["cursor"])


class MqttTool(BrokerTool):
    kind = "mqtt"
    schemes: Mapping[str, bool] = {"mqtt": False, "mqtts": True}
    ports = (1883, 8883)

    def __init__(self) -> None:
        _needs("aiomqtt")
        super().__init__()


class KafkaTool(BrokerTool):
    kind = "kafka"
    schemes: Mapping[str, bool] = {"kafka": False, "kafkas": True}
    ports = (9092, 9093)

    def __init__(self) -> None:
        _needs("aiokafka")
        super().__init__()

    async def poll(self, inputs: Mapping[str, Any], poll: TriggerPoll, context: ToolContext) -> TriggerBatch:
        """Records of a topic after the cursor; at the beginning, after what the group has committed."""
        group = str(inputs.get("group") or f"noetl-{poll.trigger_id}")
        asked = {"op": "consume", "group": group, "offsets": poll.cursor, "limit": poll.limit, "wait": poll.wait_s}
        found = (await self.run({**inputs, **asked}, context)).result
        items = [_record_item(found["topic"], group, row) for row in found["records"]]
        return TriggerBatch(items=tuple(items), cursor=found["offsets"])

    async def settle(
        self,
        inputs: Mapping[str, Any],
        accepted: Sequence[TriggerItem],
        returned: Sequence[TriggerItem],
        context: ToolContext,
    ) -> None:
        """Commit how far the group has come, so that the broker's own tools show it. The cursor is what counts."""
        offsets: dict[str, int] = {}
        for item in accepted:
            group, part, offset = item.receipt.rsplit(":", 2)
            offsets[part] = max(offsets.get(part, 0), int(offset) + 1)
        if offsets:
            await self.run({**inputs, "op": "commit", "group": group, "offsets": offsets}, context)


def _record_item(topic: str, group: str, row: dict[str, Any]) -> TriggerItem:
    place = f"{row['partition']}:{row['offset']}"
    return TriggerItem(item_id=f"{topic}:{place}", value=row, receipt=f"{group}:{place}")
