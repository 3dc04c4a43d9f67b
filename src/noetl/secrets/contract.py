"""Resolvers: each finds the material of one kind of keychain entry. Built-in kinds and plug-ins have the same contract
(KEY-07).

A resolver runs in the server. It reads only from its `Sources`, keeps no value, and names in its errors what it looked
for and where, never a value.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any, Protocol

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import ToolError
from noetl.events.secret_materials import Material
from noetl.net.net import KeychainEntry
from noetl.secrets.vault import Vault

UNRESOLVED = "keychain.unresolved"
Post = Callable[[str, dict[str, str], tuple[str, str] | None], Awaitable[tuple[int, Any]]]
BUILT_IN = {
    "env": "noetl.secrets.resolvers:EnvResolver",
    "file": "noetl.secrets.resolvers:FileResolver",
    "static": "noetl.secrets.resolvers:StaticResolver",
    "credential": "noetl.secrets.resolvers:StoredResolver",
    "postgres_credential": "noetl.secrets.resolvers:PostgresResolver",
    "secret_manager": "noetl.secrets.resolvers:SecretManagerResolver",
    "bearer": "noetl.secrets.resolvers:BearerResolver",
    "basic": "noetl.secrets.resolvers:BasicResolver",
    "oauth2": "noetl.secrets.resolvers:Oauth2Resolver",
}
GROUP = "noetl.keychains"
OWN_PROVIDERS = ("noetl", "local")  # secret managers that are the vault itself


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Where resolvers may look. The code that opens the keychain decides."""

    environment: Mapping[str, str]  # only what may be read
    vault: Vault | None
    clock: Clock
    read_file: Callable[[str], str]  # opens only what may be opened
    # Sends a form, with basic credentials when given; returns the status and the parsed body.
    post: Post
    sees_environment: bool = True  # False where the operator has named the variables that may be read


class Resolver(Protocol):
    """One kind of keychain entry. A plug-in names its class under the entry-point group `noetl.keychains`."""

    async def resolve(self, entry: KeychainEntry, sources: Sources) -> Material:
        """The present value of the entry. ToolError `keychain.unresolved` gives the reason if there is none."""


def unresolved(entry: KeychainEntry, why: str) -> ToolError:
    """The error of an entry that cannot be resolved; it names the entry (KEY-02)."""
    return ToolError(UNRESOLVED, f'keychain entry "{entry.name}" ({entry.kind}): {why}', entry=entry.name)


def word(entry: KeychainEntry, *names: str) -> str | None:
    """The first of these keys that the entry has, as text."""
    for name in names:
        written = entry.lookup.get(name)
        # YAML reads a name such as 2024 as a number; a boolean is not a name.
        if isinstance(written, str | int) and not isinstance(written, bool) and written != "":
            return str(written)
    return None


# Resolvers by kind, imported when first needed; plug-ins come through the entry-point group `noetl.keychains`.


class Resolvers:
    """`extra` adds kinds, for tests and embedders."""

    def __init__(self, extra: dict[str, Resolver] | None = None) -> None:
        self._made: dict[str, Resolver] = dict(extra or {})

    def resolver(self, entry: KeychainEntry) -> Resolver:
        """The resolver of an entry; one of another secret manager is found by its `provider`."""
        kind, provider = entry.kind, entry.lookup.get("provider")
        # Another secret manager is a plug-in of its own name; the kind in the playbook stays the same.
        if kind == "secret_manager" and isinstance(provider, str) and provider not in OWN_PROVIDERS:
            kind = provider
        if kind not in self._made:
            self._made[kind] = self._make(entry, kind)
        return self._made[kind]

    def _make(self, entry: KeychainEntry, kind: str) -> Resolver:
        path = BUILT_IN.get(kind) or _plugins().get(kind)
        if path is None:
            raise unresolved(entry, _unknown(entry, kind))
        module, _, name = path.partition(":")
        try:
            made: Any = getattr(import_module(module), name)()
        except ImportError as problem:
            raise unresolved(entry, f'the plug-in for "{kind}" could not be imported: {problem}') from problem
        resolver: Resolver = made
        return resolver


def _unknown(entry: KeychainEntry, kind: str) -> str:
    if kind != entry.kind:
        return (
            f'the secret manager "{kind}" is reached through a plug-in (entry-point group {GROUP}), and none is '
            f"installed; without provider, the stored credentials are used"
        )
    return f"there is no resolver for this kind; built in are {', '.join(BUILT_IN)}, others come as plug-ins ({GROUP})"


def _plugins() -> dict[str, str]:
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    return {entry.name: entry.value for entry in entry_points(group=GROUP)}
