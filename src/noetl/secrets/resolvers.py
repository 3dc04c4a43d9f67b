"""Resolvers by kind, imported when first needed; plug-ins come through the entry-point group `noetl.keychains`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from noetl.net.net import KeychainEntry
from noetl.secrets.contract import Resolver, unresolved

BUILT_IN = {
    "env": "noetl.secrets.plaintext:EnvResolver",
    "file": "noetl.secrets.plaintext:FileResolver",
    "static": "noetl.secrets.plaintext:StaticResolver",
    "credential": "noetl.secrets.tokens:StoredResolver",
    "postgres_credential": "noetl.secrets.tokens:PostgresResolver",
    "secret_manager": "noetl.secrets.tokens:SecretManagerResolver",
    "bearer": "noetl.secrets.tokens:BearerResolver",
    "basic": "noetl.secrets.tokens:BasicResolver",
    "oauth2": "noetl.secrets.tokens:Oauth2Resolver",
}
GROUP = "noetl.keychains"
OWN_PROVIDERS = ("noetl", "local")  # secret managers that are the vault itself


class Resolvers:
    """`extra` adds kinds, for tests and embedders."""

    def __init__(self, extra: dict[str, Resolver] | None = None) -> None:
        self._made: dict[str, Resolver] = dict(extra or {})

    def resolver(self, entry: KeychainEntry) -> Resolver:
        """The resolver of an entry; one of another secret manager is found by its `provider`."""
        kind, provider = entry.kind, entry.lookup.get("provider")
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
    return f"nobody here resolves this kind; built in are {', '.join(BUILT_IN)}, others come as plug-ins ({GROUP})"


def _plugins() -> dict[str, str]:
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    return {entry.name: entry.value for entry in entry_points(group=GROUP)}
