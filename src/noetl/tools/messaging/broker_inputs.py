"""Inputs that the kinds of brokers share: which broker a credential means, how many messages, how long to wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from noetl.base.durations import seconds
from noetl.base.errors import ToolError
from noetl.tools.auth_shapes import UNRESOLVED, connection_fields
from noetl.tools.contract import ToolContext
from noetl.tools.messaging.request import Broker

# Messages of one task: what is taken becomes one result.
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

    def duration_of(self, written: Any, default: float) -> float:
        try:
            return default if written is None else seconds(written)
        except ValueError as problem:
            raise ToolError(f"{self.kind}.input", str(problem)) from None

    def count_of(self, written: Any) -> int:
        if written is None:
            return LIMIT
        if isinstance(written, bool) or not isinstance(written, int) or not 1 <= written <= MOST:
            raise ToolError(f"{self.kind}.input", f'limit "{written}" is not a number from 1 to {MOST}')
        return written


def _servers(written: Any) -> tuple[str, ...]:
    """Servers as `host:port`, in a list or with commas between them. What is wrong is told without it."""
    if not written:
        return ()
    parts = written.split(",") if isinstance(written, str) else written if isinstance(written, list) else [""]
    found = tuple(str(part).strip() for part in parts)
    if not all(host and port.isdecimal() for host, _, port in (one.rpartition(":") for one in found)):
        raise ToolError(UNRESOLVED, "the servers of the credential are not host:port, with commas between them")
    return found


def total(timeout: Any) -> Any:
    return timeout.get("total", timeout.get("read")) if isinstance(timeout, Mapping) else timeout
