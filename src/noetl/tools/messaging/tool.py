"""`redis` and `mqtt`: one operation of a broker at a time, in a child process.

The clients of these brokers look hosts up by themselves; in a process of their own their sockets are held to the
address policy, and a cancelled task ends with its process.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from noetl.base.durations import seconds
from noetl.base.errors import ToolError
from noetl.tools.auth_shapes import UNRESOLVED, connection_fields
from noetl.tools.child_pool import ChildPool
from noetl.tools.child_process import Program
from noetl.tools.contents import encoded
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.messaging.request import Broker, MessagingRequest
from noetl.tools.trigger_source import TriggerBatch, TriggerItem, TriggerPoll

LIMIT, MOST = 100, 10_000
_TIMEOUT_S = 30.0


class BrokerTool:
    """What the kinds share. A subclass names its kind, its URL schemes (those with TLS marked) and its ports."""

    kind = ""
    schemes: Mapping[str, bool] = {}
    ports = (0, 0)  # without and with TLS

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
            limit=self._count(inputs.get("limit")),
            wait_s=self._duration(inputs.get("wait"), 0.0),
            key=context.idempotency_key,
            policy=context.addresses.policy,
            timeout_s=self._duration(_total(context.spec.get("timeout")), _TIMEOUT_S),
        )

    def broker_of(self, auth: Any, context: ToolContext) -> Broker:
        """The broker of a credential. ToolError `keychain.unresolved` says what is missing."""
        given = dict(connection_fields(auth, context, kind=self.kind, address="url"))
        found = {**self._of_url(str(given["url"])), **given} if given.get("url") else given
        host = str(found.get("host") or found.get("hostname") or "")
        if not host:
            example = f"{next(iter(self.schemes))}://host:{self.ports[0]}"
            raise ToolError(
                UNRESOLVED, f'"auth" does not say which broker: it needs a url such as {example}, or a host'
            )
        tls = found.get("tls") is True or str(found.get("tls")).lower() == "true"
        port = str(found.get("port") or self.ports[tls])
        if not port.isdecimal():
            raise ToolError(UNRESOLVED, "the port of the credential is no number")
        return Broker(
            host=host,
            port=int(port),
            tls=tls,
            ca=str(found.get("ca") or ""),
            user=str(found.get("user") or found.get("username") or ""),
            password=str(found.get("password") or found.get("token") or ""),
            database=str(found.get("database") or found.get("db") or found.get("vhost") or ""),
        )

    def _of_url(self, url: str) -> dict[str, Any]:
        """The fields of a URL. What is wrong with it is told without it: any part may be a password."""
        try:
            parts = urlsplit(url)
            if parts.scheme not in self.schemes or not parts.hostname:
                raise ValueError
            found = {"host": parts.hostname, "port": parts.port, "tls": self.schemes[parts.scheme]}
        except ValueError:
            known = ", ".join(f"{scheme}://" for scheme in self.schemes)
            raise ToolError(UNRESOLVED, f"the url is none of {self.kind}: it begins with {known}") from None
        found |= {"user": unquote(parts.username or ""), "password": unquote(parts.password or "")}
        found["database"] = unquote(parts.path.removeprefix("/"))
        return {name: value for name, value in found.items() if value not in (None, "")}

    def _duration(self, written: Any, default: float) -> float:
        try:
            return default if written is None else seconds(written)
        except ValueError as problem:
            raise ToolError(f"{self.kind}.input", str(problem)) from None

    def _count(self, written: Any) -> int:
        if written is None:
            return LIMIT
        if isinstance(written, bool) or not isinstance(written, int) or not 1 <= written <= MOST:
            raise ToolError(f"{self.kind}.input", f'limit "{written}" is not a number from 1 to {MOST}')
        return written


def _total(timeout: Any) -> Any:
    return timeout.get("total", timeout.get("read")) if isinstance(timeout, Mapping) else timeout


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
