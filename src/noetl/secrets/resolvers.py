"""Kinds of keychain entries: those that make the credential of a request (`bearer`, `basic`, `oauth2`, design.md §5),
those that read a value from its place, and those that read the vault (KEY-07).

The parts of the first (`token`, `username`, `password`, `client_id`, …) are written as text, or as where to find them:
`{env: VAR}`, `{file: PATH}`, `{credential: NAME, field: FIELD}`. Missing parts come from `auth` (or `credential`), from
`env` or from `file`, and else from the stored credential of the entry's own name.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.base.errors import BackendError, RefusedError
from noetl.events.secret_materials import VALUE, Material
from noetl.net.net import KeychainEntry
from noetl.secrets.contract import Sources, unresolved, word
from noetl.secrets.credential_types import Fields, basic, bearer, postgres
from noetl.secrets.token_requests import granted

# Kinds that read a value where it lies: `env`, `file` and `static` (KEY-07).


class EnvResolver:
    """`var` names the process variable; without it the entry's own name does, as it is or in capitals. With `map`
    each field has a variable of its own."""

    async def resolve(self, entry: KeychainEntry, sources: Sources) -> Material:
        mapped = entry.lookup.get("map")
        if isinstance(mapped, dict) and mapped:
            return Material(fields={name: variable(entry, sources, str(var)) for name, var in mapped.items()})
        named = word(entry, "var", "variable", "env", "key")
        if named is None:
            named = entry.name if entry.name in sources.environment else entry.name.upper()
        return Material(fields=_fields(variable(entry, sources, named), as_json=entry.lookup.get("format") == "json"))


class FileResolver:
    """`path` names the file. A JSON object gives fields, anything else is one text without its last line break."""

    async def resolve(self, entry: KeychainEntry, sources: Sources) -> Material:
        path = word(entry, "path", "file")
        if path is None:
            raise unresolved(entry, "it names no file: add path")
        return Material(fields=file_fields(entry, sources, path))


class StaticResolver:
    """`value` as written in the playbook: for tests, since a playbook is no place for a secret."""

    async def resolve(self, entry: KeychainEntry, sources: Sources) -> Material:
        value = entry.lookup.get("value", entry.lookup.get("values"))
        if value is None:
            raise unresolved(entry, "it has no value")
        return Material(fields=dict(value) if isinstance(value, dict) else {VALUE: value})


def variable(entry: KeychainEntry, sources: Sources, name: str) -> str:
    value = sources.environment.get(name)
    if not value:
        why = (
            ""
            if sources.sees_environment
            else "; on a server its operator names those that are read (secret_variables)"
        )
        raise unresolved(entry, f"the environment has no variable {name}{why}")
    return value


def file_fields(entry: KeychainEntry, sources: Sources, path: str) -> dict[str, Any]:
    try:
        text = sources.read_file(path)
    except (OSError, UnicodeDecodeError, RefusedError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise unresolved(entry, f"the file {path} cannot be read: {why}") from None
    if not text.strip():
        raise unresolved(entry, f"the file {path} is empty")
    return _fields(text, as_json=entry.lookup.get("format", "json") == "json")


def _fields(text: str, *, as_json: bool) -> dict[str, Any]:
    # Editors end a file with a line break, which is no part of the secret.
    text = text.removesuffix("\n").removesuffix("\r")
    if as_json and text.lstrip().startswith("{"):
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError:
            value = None
        if isinstance(value, dict):
            return value
    return {VALUE: text}


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
    """The stored OAuth client with which a token is requested."""
    name = word(entry, "credential") or entry.name
    found = await sources.vault.fields(name) if sources.vault is not None else None
    if found is None:
        way_out = (
            f"store it with noetl credential set {name} --type oauth2, or write token_url, client_id and client_secret"
        )
        raise unresolved(entry, f'there is no credential "{name}": {way_out}')
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


def credential_name(entry: KeychainEntry) -> str | None:
    """The stored credential that an entry names; None if its kind may find a value elsewhere."""
    return _stored_name(entry) if entry.kind in ("credential", "postgres_credential") else None


def _stored_name(entry: KeychainEntry) -> str:
    """`credential` names the stored one; without it the entry's own name does."""
    return word(entry, *_OR_AUTH) or entry.name


class StoredResolver:
    async def resolve(self, entry: KeychainEntry, sources: Sources) -> Material:
        return await stored(entry, sources, _stored_name(entry))


class PostgresResolver:
    """Like `credential`, but the type must be one with which a postgres task can connect."""

    async def resolve(self, entry: KeychainEntry, sources: Sources) -> Material:
        found = await stored(entry, sources, _stored_name(entry))
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
