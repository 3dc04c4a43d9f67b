"""Credentials of a test: what keychain entries and stored credentials stand for, by name, in memory only.

A value is a text or the fields of a credential; its field `type` says which type it is (`bearer`, `postgres`, …), as
`noetl credential set --type` does. Nothing is read from the store of whoever runs the test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.base.clock import Clock
from noetl.events.secret_materials import Material
from noetl.net.net import KeychainEntry
from noetl.secrets.contract import Resolver, Sources
from noetl.secrets.credential_types import GENERIC, Fields, shaped
from noetl.secrets.keychain import Keychain
from noetl.secrets.master_key_loading import open_sources
from noetl.secrets.master_keys import MasterKeys
from noetl.secrets.resolvers import Resolvers
from noetl.secrets.vault import Vault
from noetl.store.credentials import MemoryCredentials


def given_keychain(given: Mapping[str, str | Fields], clock: Clock) -> Keychain:
    """A keychain that has these credentials and no others; variables and files are read as in an embedded run."""
    fields = {name: _typed_fields(value) for name, value in given.items()}
    sources = open_sources(_GivenVault(fields, clock), clock)
    return Keychain(sources, _GivenResolvers({name: value for name, (_, value) in fields.items()}))


def _typed_fields(value: str | Fields) -> tuple[str, Fields]:
    kind = str(value.get("type", GENERIC)) if isinstance(value, Mapping) else GENERIC
    return kind, shaped(kind, value)


class _GivenVault(Vault):
    """Stored credentials that were never stored, so that a test needs no master key."""

    def __init__(self, given: Mapping[str, tuple[str, Fields]], clock: Clock) -> None:
        super().__init__(MemoryCredentials(), MasterKeys([]), clock)
        self._given = given

    async def fields(self, name: str, *, version: int | None = None) -> tuple[str, Fields] | None:
        return self._given.get(name)

    async def knows(self, name: str) -> bool:
        return name in self._given


class _GivenResolvers(Resolvers):
    """An entry of a given name stands for what was given, whatever its kind: no token is fetched for it."""

    def __init__(self, given: Mapping[str, Fields]) -> None:
        super().__init__()
        self._given = given

    def resolver(self, entry: KeychainEntry) -> Resolver:
        return _Given(self._given[entry.name]) if entry.name in self._given else super().resolver(entry)


class _Given:
    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    async def resolve(self, entry: KeychainEntry, sources: Sources) -> Material:
        return Material(fields=self._fields)
