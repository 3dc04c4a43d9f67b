"""Kinds that read the vault: `credential`, `postgres_credential` and `secret_manager` (KEY-07)."""

from __future__ import annotations

from typing import Any

from noetl.base.errors import BackendError, RefusedError
from noetl.events.secret_materials import VALUE, Material
from noetl.net.net import KeychainEntry
from noetl.secrets.contract import Sources, unresolved, word
from noetl.secrets.credential_types import postgres
from noetl.secrets.oauth2 import granted

_NAMES = ("credential", "secret", "secret_name", "key", "ref")
_OR_AUTH = (*_NAMES, "auth")  # as bearer and oauth2 write it; to a secret manager `auth` is how it is entered


class StoredResolver:
    """`credential` names the stored one; without it the entry's own name does."""

    async def resolve(self, entry: KeychainEntry, sources: Sources) -> Material:
        return await stored(entry, sources, word(entry, *_OR_AUTH) or entry.name)


class PostgresResolver:
    """The same, and it must be one that a postgres task can connect with."""

    async def resolve(self, entry: KeychainEntry, sources: Sources) -> Material:
        found = await stored(entry, sources, word(entry, *_OR_AUTH) or entry.name)
        try:
            return Material(fields=postgres(found.text_or_fields()), refresh_after=found.refresh_after)
        except RefusedError as problem:
            raise unresolved(entry, str(problem)) from None


class SecretManagerResolver:
    """The vault is the secret manager that is built in. With `map` each field is a secret of its own."""

    async def resolve(self, entry: KeychainEntry, sources: Sources) -> Material:
        mapped = entry.lookup.get("map")
        if not isinstance(mapped, dict) or not mapped:
            return await stored(entry, sources, word(entry, *_NAMES) or entry.name)
        fields: dict[str, Any] = {}
        for field, name in mapped.items():
            fields[field] = (await stored(entry, sources, str(name))).text_or_fields()
        return Material(fields=fields)


async def stored(entry: KeychainEntry, sources: Sources, name: str) -> Material:
    """The material of one stored credential; one of type oauth2 gives a token."""
    if sources.vault is None:
        raise unresolved(entry, "there is no credential store here")
    try:
        found = await sources.vault.fields(name, version=_version(entry))
    except (BackendError, RefusedError) as problem:
        raise unresolved(entry, str(problem)) from None
    if found is None:
        raise unresolved(entry, f'there is no credential "{name}": store it with noetl credential set {name}')
    kind, fields = found
    if kind == "oauth2":
        return await granted(entry, fields | _overlay(entry), sources)
    field = word(entry, "field")
    if field is not None and field not in fields:
        raise unresolved(entry, f'credential "{name}" has no field "{field}"')
    return Material(fields={VALUE: fields[field]} if field is not None else fields)


def _version(entry: KeychainEntry) -> int | None:
    written = word(entry, "version")
    if written is None or written == "latest":
        return None
    if not written.isdecimal():
        raise unresolved(entry, f'version "{written}" is not a number')
    return int(written)


def _overlay(entry: KeychainEntry) -> dict[str, Any]:
    return {key: entry.lookup[key] for key in ("scope", "audience", "token_url") if key in entry.lookup}
