"""Kinds that make what a request carries: `bearer`, `basic` and `oauth2` (design.md §5).

Their parts (`token`, `username`, `password`, `client_id`, …) are written as text, or as where to find them:
`{env: VAR}`, `{file: PATH}`, `{credential: NAME, field: FIELD}`. What is left out comes from `auth` (or `credential`),
from `env` or from `file`, and else from the stored credential of the entry's own name.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.errors import BackendError, RefusedError
from noetl.events.secret_materials import VALUE, Material
from noetl.net.net import KeychainEntry
from noetl.secrets.contract import Sources, unresolved, word
from noetl.secrets.credential_types import Fields, basic, bearer, postgres
from noetl.secrets.plaintext import file_fields, variable
from noetl.secrets.token_requests import granted


class BearerResolver:
    async def resolve(self, entry: KeychainEntry, sources: Sources) -> Material:
        token = await _part(entry, sources, "token")
        given = token if token is not None else await _source(entry, sources)
        return _material(entry, bearer, given)


class BasicResolver:
    async def resolve(self, entry: KeychainEntry, sources: Sources) -> Material:
        username, password = await _part(entry, sources, "username"), await _part(entry, sources, "password")
        found: str | Fields = {}
        if username is None or password is None:
            found = await _source(entry, sources)
            if isinstance(found, str) and username is not None:
                found = {"password": found}  # a lone secret beside a written name is the password
        if isinstance(found, dict):
            written = {"username": username, "password": password}
            found = {**found, **{key: value for key, value in written.items() if value is not None}}
        return _material(entry, basic, found)


class Oauth2Resolver:
    async def resolve(self, entry: KeychainEntry, sources: Sources) -> Material:
        written: Fields = {key: entry.lookup[key] for key in _OAUTH2 if key in entry.lookup}
        for name in ("client_id", "client_secret"):
            part = await _part(entry, sources, name)
            written |= {name: part} if part is not None else {}
        if "client_id" in written and "client_secret" in written:
            return await granted(entry, written, sources)
        if named := word(entry, "auth", "credential"):
            entry = msgspec.structs.replace(entry, lookup={**entry.lookup, "credential": named})
        found = await _client(entry, sources)
        return await granted(entry, {**found, **written}, sources)


_OAUTH2 = ("token_url", "scope", "audience", "auth_method")


async def _client(entry: KeychainEntry, sources: Sources) -> Fields:
    """The stored client a token is asked for with."""
    name = word(entry, "credential") or entry.name
    found = await sources.vault.fields(name) if sources.vault is not None else None
    if found is None:
        raise unresolved(entry, f'there is no credential "{name}": store it with noetl credential set {name}')
    return found[1]


async def _part(entry: KeychainEntry, sources: Sources, name: str) -> str | None:
    written = entry.lookup.get(name)
    match written:
        case None:
            return None
        case {"env": var}:
            return variable(entry, sources, str(var))
        case {"file": path}:
            return _text(entry, name, file_fields(entry, sources, str(path)), written)
        case {"credential": stored_name}:
            found = await stored(entry, sources, str(stored_name))
            return _text(entry, name, found.fields, written)
        case str() | int():
            return str(written)
        case _:
            raise unresolved(entry, f"{name} is text, or one of {{env: …}}, {{file: …}}, {{credential: …, field: …}}")


def _text(entry: KeychainEntry, name: str, fields: Fields, written: dict[str, Any]) -> str:
    field = str(written.get("field", name if name in fields else VALUE))
    value = fields.get(field)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise unresolved(entry, f'{name} was not found: there is no field "{field}"')
    return str(value)


async def _source(entry: KeychainEntry, sources: Sources) -> str | Fields:
    if name := word(entry, "auth", "credential"):
        found = (await stored(entry, sources, name)).text_or_fields()
    elif name := word(entry, "env", "var"):
        return variable(entry, sources, name)
    elif name := word(entry, "file", "path"):
        found = Material(fields=file_fields(entry, sources, name)).text_or_fields()
    else:
        found = (await stored(entry, sources, entry.name)).text_or_fields()
    return found if isinstance(found, dict) else str(found)


def _material(entry: KeychainEntry, shape: Any, given: str | Fields) -> Material:
    try:
        return Material(fields=shape(given))
    except RefusedError as problem:
        raise unresolved(entry, str(problem)) from None


# Kinds that read the vault: `credential`, `postgres_credential` and `secret_manager` (KEY-07).

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
