"""Requests: what the tool asks its child process to do."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.addresses.policy import AddressPolicy

METHODS = ("tools/call", "tools/list", "resources/list", "resources/read")


class McpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One call of one server: at `url`, or a program (`command`) that speaks on its standard streams."""

    method: str
    url: str = ""
    headers: dict[str, str] = {}
    command: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    tool: str = ""
    uri: str = ""
    args: dict[str, Any] = {}
    policy: AddressPolicy = AddressPolicy()
    timeout_s: float = 60.0

    @property
    def server(self) -> str:
        """As it is shown: without what may be a secret."""
        return self.command[0] if self.command else self.url.partition("?")[0].rpartition("@")[2]
