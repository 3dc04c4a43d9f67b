"""Requests: what a broker tool asks its child process to do."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.addresses.policy import AddressPolicy


class Broker(msgspec.Struct, frozen=True, kw_only=True):
    """Where a broker is, and who we are there. Shown without secrets."""

    host: str
    port: int
    tls: bool = False
    ca: str = ""
    user: str = ""
    password: str = ""
    database: str = ""  # of Redis: a number; of AMQP: the virtual host
    servers: tuple[str, ...] = ()  # of Kafka: those to begin with
    mechanism: str = ""  # of Kafka: how the password is shown

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
    key: str = ""  # of idempotency
    policy: AddressPolicy = AddressPolicy()
    timeout_s: float = 30.0

    def text(self, name: str) -> str:
        """An input that must be there."""
        from noetl.base.errors import ToolError

        found = self.inputs.get(name)
        if found in (None, "") or "\x00" in str(found):
            raise ToolError(f"{self.kind}.input", f'{self.op} needs "{name}"')
        return str(found)
