"""Targets: which NATS server a credential names, and who we are there. Shown without its secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.auth_shapes import connection_fields, shapes
from noetl.tools.contract import ToolContext

_SCHEMES = ("nats", "tls", "ws", "wss")


class NatsTarget(msgspec.Struct, frozen=True):
    servers: tuple[str, ...]
    user: str | None = None
    password: str | None = None
    token: str | None = None
    nkey_seed: str | None = None

    def __str__(self) -> str:
        return ", ".join(_without_secrets(server) for server in self.servers)

    __repr__ = __str__

    def login(self) -> dict[str, Any]:
        """Who we are, as the client takes it."""
        told = {"user": self.user, "password": self.password, "token": self.token, "nkeys_seed_str": self.nkey_seed}
        return {name: value for name, value in told.items() if value is not None}


def target_of(auth: Any, context: ToolContext) -> NatsTarget:
    """The target of a task's `auth`: an address, the fields of a credential, or its name."""
    auth = connection_fields(auth, context, kind="nats", address="url")
    return NatsTarget(
        servers=_servers(auth),
        user=_text(auth, "user", "username"),
        password=_text(auth, "password"),
        token=_text(auth, "token"),
        nkey_seed=_text(auth, "nkey_seed", "nkeys_seed", "seed"),
    )


def _servers(auth: Mapping[str, Any]) -> tuple[str, ...]:
    written = next((auth[name] for name in ("url", "nats_url", "servers", "server") if auth.get(name)), None)
    if written is None:
        message = f'"auth" has no url, such as nats://host:4222; it is {shapes("url")}'
        raise ToolError("keychain.unresolved", message)
    servers = tuple(map(str, written)) if isinstance(written, list) else tuple(str(written).split(","))
    for server in servers:
        if urlsplit(server.strip()).scheme not in _SCHEMES:
            # not shown: who can say which part of it is a password
            raise ToolError("keychain.unresolved", "the url is no address of NATS: write nats://host:4222")
    return tuple(server.strip() for server in servers)


def _text(auth: Mapping[str, Any], *names: str) -> str | None:
    return next((str(auth[name]) for name in names if auth.get(name)), None)


def _without_secrets(server: str) -> str:
    return server.rpartition("@")[2] if "@" in server else server
