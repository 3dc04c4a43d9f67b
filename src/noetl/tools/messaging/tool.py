"""`redis`, `mqtt` and `kafka`: one operation of a broker at a time, in a child process.

The clients of these brokers resolve host names themselves. In a child process all their sockets follow the address
policy, and cancelling a task ends the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from noetl.base.addresses.policy import AddressPolicy
from noetl.base.durations import seconds
from noetl.base.errors import ToolError
from noetl.tools.child_process import ChildPool, Program
from noetl.tools.contents import encode
from noetl.tools.contract import OwningTool, ToolContext, ToolResult, TriggerBatch, TriggerItem, TriggerPoll
from noetl.tools.input_shapes import UNRESOLVED, connection_fields, total_timeout, whole_number


class Broker(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a broker, and the login there. `str` shows no secrets."""

    host: str
    port: int
    tls: bool = False
    ca: str = ""
    user: str = ""
    password: str = ""
    database: str = ""  # of Redis: a number; of AMQP: the virtual host
    servers: tuple[str, ...] = ()  # of Kafka: the bootstrap servers
    mechanism: str = ""  # of Kafka: the SASL mechanism

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    __repr__ = __str__


class MessagingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of one kind. `inputs` are the task's; `body` is its data as bytes."""

    kind: str
    op: str
    broker: Broker
    inputs: dict[str, Any] = {}
    body: bytes = b""
    limit: int = 100
    wait_s: float = 0.0
    policy: AddressPolicy = AddressPolicy()
    timeout_s: float = 30.0

    def text(self, name: str) -> str:
        """A required input as text. Raises ToolError if it is missing."""
        value = self.inputs.get(name)
        if value in (None, "") or "\x00" in str(value):
            raise ToolError(f"{self.kind}.input", f'{self.op} needs "{name}"')
        return str(value)


# Messages of one task: the received ones become one result.
LIMIT, MOST = 100, 10_000


class BrokerInputs:
    """A subclass names its kind, its URL schemes (those with TLS marked) and its ports."""

    kind = ""
    schemes: Mapping[str, bool] = {}
    ports = (0, 0)  # without and with TLS

    def broker_of(self, auth: Any, context: ToolContext) -> Broker:
        """The broker of a credential. ToolError `keychain.unresolved` says what is missing."""
        given = dict(connection_fields(auth, context, kind=self.kind, address="url"))
        found = {**self._of_url(str(given["url"])), **given} if given.get("url") else given
        servers = _servers(found.get("servers") or found.get("bootstrap_servers"))
        if servers and not found.get("host"):
            found = {**found, "host": servers[0].rpartition(":")[0], "port": servers[0].rpartition(":")[2]}
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
            servers=servers,
            mechanism=str(found.get("mechanism") or ""),
        )

    def _of_url(self, url: str) -> dict[str, Any]:
        """The fields of a URL. Errors do not show the URL: any part may be a password."""
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

    def duration_of(self, written: Any, default: float) -> float:
        try:
            return default if written is None else seconds(written)
        except ValueError as problem:
            raise ToolError(f"{self.kind}.input", str(problem)) from None

    def count_of(self, written: Any) -> int:
        return whole_number(written, "limit", LIMIT, error=f"{self.kind}.input", most=MOST)


def _servers(written: Any) -> tuple[str, ...]:
    """Servers as `host:port`, in a list or with commas between them. Errors do not show the value."""
    if not written:
        return ()
    parts = written.split(",") if isinstance(written, str) else written if isinstance(written, list) else [""]
    found = tuple(str(part).strip() for part in parts)
    if not all(host and port.isdecimal() for host, _, port in (one.rpartition(":") for one in found)):
        raise ToolError(UNRESOLVED, "the servers of the credential are not host:port, with commas between them")
    return found


_TIMEOUT_S = 30.0


class BrokerTool(BrokerInputs, OwningTool):
    """The base of the kinds with a child process."""

    def __init__(self) -> None:
        self._children = ChildPool(
            Program(module="noetl.tools.messaging.child", name=self.kind, error=f"{self.kind}.error", retryable=True)
        )
        super().__init__(self._children)

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        request = self._request(inputs, context)
        answer = await self._children.call(context.task_run.execution_id, msgspec.to_builtins(request))
        return ToolResult(result=answer["result"])

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Whether the broker takes the credential. Nothing is sent or taken."""
        request = self._request({**inputs, "op": "check"}, context)
        await self._children.call(context.task_run.execution_id, msgspec.to_builtins(request))
        return f"connected to {self.kind} at {request.broker}"

    def _request(self, inputs: Mapping[str, Any], context: ToolContext) -> MessagingRequest:
        given = {name: value for name, value in inputs.items() if name not in ("auth", "data")}
        form = inputs.get("format")
        return MessagingRequest(
            kind=self.kind,
            op=str(inputs.get("op") or ""),
            broker=self.broker_of(inputs.get("auth"), context),
            inputs=given,
            body=encode(inputs.get("data"), form, kind=self.kind) if "data" in inputs else b"",
            limit=self.count_of(inputs.get("limit")),
            wait_s=self.duration_of(inputs.get("wait"), 0.0),
            policy=context.addresses.policy,
            timeout_s=self.duration_of(total_timeout(context), _TIMEOUT_S),
        )


def _needs(package: str) -> None:
    """The child imports it; fail here, before a child starts."""
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
        """Commit the offsets of the group, so that tools of the broker show the progress. Only the cursor of the
        trigger counts."""
        offsets: dict[str, int] = {}
        for item in accepted:
            group, part, offset = item.receipt.rsplit(":", 2)
            offsets[part] = max(offsets.get(part, 0), int(offset) + 1)
        if offsets:
            await self.run({**inputs, "op": "commit", "group": group, "offsets": offsets}, context)


def _record_item(topic: str, group: str, row: dict[str, Any]) -> TriggerItem:
    place = f"{row['partition']}:{row['offset']}"
    return TriggerItem(item_id=f"{topic}:{place}", value=row, receipt=f"{group}:{place}")
