"""Credentials: values can be stored but never read back (reliability.md §2.6). A check lets a tool connect with one.

The store records the id of the master key that it is used with, never the key. A process without that key creates no
second one: otherwise each process could not decrypt the credentials of the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.base.clock import Clock
from noetl.base.diagnostics import is_template
from noetl.base.errors import InvalidError, NotFoundError, RefusedError, ToolError
from noetl.net.net import KeychainEntry, Net
from noetl.net.secret_reads import auth_names
from noetl.operations.administration_shapes import CredentialCheck, CredentialTypeView, CredentialView, Rotated
from noetl.operations.api_shapes import view_of
from noetl.secrets.credential_types import TYPES
from noetl.secrets.encryption import FILE_VARIABLE, VARIABLE, MasterKeys, has_master_keys, key_file
from noetl.secrets.resolvers import credential_name
from noetl.secrets.vault import Vault
from noetl.store.contract import Store
from noetl.store.installation import KeyValues
from noetl.tools.contract import UNKNOWN, TaskRunIdentity, ToolContext, ToolPermissions
from noetl.tools.kinds import load_kinds
from noetl.tools.registry import Registry

if TYPE_CHECKING:
    from noetl.events.secret_materials import Material

KIND, NAME = "master_key", "first"


class _FirstKey(msgspec.Struct, frozen=True):
    key_id: str


async def recorded_key_id(key_values: KeyValues) -> str | None:
    """The id of the first master key that was used with the store; None if none was used."""
    row = await key_values.get(KIND, NAME)
    return None if row is None else msgspec.json.decode(row.body, type=_FirstKey).key_id


async def used_key_id(store: Store) -> str | None:
    """The recorded key id, or that of a stored credential: older stores have credentials but no recorded key."""
    if (key_id := await recorded_key_id(store.key_values)) is not None:
        return key_id
    return next((credential.key_id for credential in await store.credentials.list()), None)


async def record_key_id(key_values: KeyValues, clock: Clock, key_id: str) -> str:
    """Record `key_id` unless the store has one; returns the id that the store has now."""
    await key_values.put(KIND, NAME, msgspec.json.encode(_FirstKey(key_id)), over=0, at=clock.now())
    # Read again: if two processes write at the same moment, one is refused and needs the id that the other stored.
    return await recorded_key_id(key_values) or key_id


async def require_recorded_key(store: Store, environment: Mapping[str, str]) -> None:
    """RefusedError if the store is used with a master key and this process has none."""
    if not has_master_keys(environment) and (key_id := await used_key_id(store)) is not None:
        raise RefusedError(missing_key_message(key_id, environment))


def missing_key_message(key_id: str, environment: Mapping[str, str]) -> str:
    return (
        f"credentials of this store are under master key {key_id}, which is not here, so none can be read or stored: "
        f"copy its file from the server that made it to {key_file(environment)}, or set {VARIABLE} or {FILE_VARIABLE}"
    )


def credential_types() -> list[CredentialTypeView]:
    """The types of credentials: ours, and those that kinds of plug-ins declare."""
    kinds: dict[str, list[str]] = {name: [] for name in TYPES}
    for kind in load_kinds().values():
        for name in kind.credential_types:
            kinds.setdefault(name, []).append(kind.name)
    return [CredentialTypeView(name=name, kinds=sorted(users)) for name, users in kinds.items()]


async def missing_credentials(store: Store, net: Net) -> list[str]:
    """The credentials that a net names and that are not stored, in its order. No secret is looked up: entries of other
    kinds, and names that are templates, are known when an execution starts."""
    declared = {entry.name for entry in net.keychain}
    of_entries = [credential_name(entry) for entry in net.keychain]
    of_tasks = [name for name in auth_names(net) if name not in declared]
    names = dict.fromkeys(name for name in (*of_entries, *of_tasks) if name is not None and not is_template(name))
    return [name for name in names if await store.credentials.get(name) is None]


class CredentialOperations:
    """The credentials of one store. `keys` are the master keys of this installation; listing needs none."""

    def __init__(self, store: Store, keys: MasterKeys, clock: Clock) -> None:
        self._keys, self._vault, self._clock = keys, Vault(store.credentials, keys, clock), clock

    async def list(self) -> list[CredentialView]:
        return [view_of(CredentialView, credential) for credential in await self._vault.list()]

    async def set(self, name: str, value: str | dict[str, Any], *, kind: str) -> CredentialView:
        """Store a new credential or a new version. InvalidError for an unknown type or a value that does not fit it."""
        if kind not in TYPES:
            raise InvalidError(f'type: "{kind[:200]}" is not one of {", ".join(TYPES)}')
        try:
            return view_of(CredentialView, await self._vault.set(name, value, kind=kind))
        except RefusedError as problem:
            raise InvalidError(str(problem)) from None

    async def delete(self, name: str) -> None:
        if not await self._vault.delete(name):
            raise _not_found(name)

    async def check(self, name: str, kind: str | None, url: str | None, tools: Registry) -> CredentialCheck:
        """Connect with the credential as a task of `kind` would, and do nothing else. Closes `tools` afterwards."""
        from noetl.secrets.token_requests import shown_host

        if (stored := await self._vault.fields(name)) is None:
            raise _not_found(name)
        credential_type, fields = stored
        if credential_type == "oauth2":
            # Tasks use a token, so the check requests one. With a kind or an address it also tries the token there.
            token = await self._token(name, fields, tools)
            if kind is None and url is None:
                await tools.close()
                return CredentialCheck(reached=f"{shown_host(str(fields['token_url']))} gave a token")
            kind, fields = kind or "http", token.fields
        inputs = {"url": url} if url is not None else {}
        reached = await try_credential(name, kind or kind_for(credential_type), fields, inputs, tools)
        return CredentialCheck(reached=reached)

    async def _token(self, name: str, fields: Mapping[str, Any], tools: Registry) -> Material:
        """A token for an OAuth 2 client. RefusedError has the status and code of the endpoint, and no secret."""
        from noetl.secrets.contract import Sources
        from noetl.secrets.keychain import read_file
        from noetl.secrets.token_requests import TokenRequests, granted

        post = TokenRequests(tools.addresses)
        sources = Sources(environment={}, vault=None, clock=self._clock, read_file=read_file, post=post)
        try:
            return await granted(KeychainEntry(name=name, kind="oauth2"), fields, sources)
        except ToolError as problem:
            raise RefusedError(problem.message) from None

    async def rotate(self, begun: Callable[[], None] = lambda: None) -> Rotated:
        """Encrypt all credentials under a new master key. An interrupted rotation is finished first. With keys from the
        environment, the operator adds the new key. `begun` is called when the new key exists and before it is used."""
        keys, vault = self._keys, self._vault
        # If an earlier rotation stopped half-way, its new key exists already. Finish that one instead of adding a
        # third.
        if await vault.is_rotated() and keys.file is not None:
            keys = keys.with_new_key()
            vault = vault.under(keys)
        # The server drops its cached keys here: rows under the new key may appear from now on.
        begun()
        return Rotated(moved=await vault.rotate(), key_id=keys.newest_id)


def _not_found(name: str) -> NotFoundError:
    return NotFoundError(f'there is no credential "{name}": noetl credential list shows the credentials')


# Trying a stored credential: the tool that uses its type connects with it, and does nothing else.
#
# A tool that supports this has a method `check(inputs, context)`, which returns the name of the service it reached. Its
# kind names the types of credentials it accepts (`credential_types`). Tools of plug-ins are found in the same way.

# A person waits for the answer; a database that starts on demand may take most of a minute.
TIMEOUT_S = 60.0
# Shorter values are not masked, as in all masks: replacing "a" everywhere would make a message unreadable.
_SHORTEST = 6


def kind_for(credential_type: str) -> str:
    """The tool kind that can try credentials of a type. RefusedError lists the types that can be tried."""
    kinds = load_kinds()
    tool_kind = next((name for name, kind in kinds.items() if credential_type in kind.credential_types), None)
    if tool_kind is None:
        known = ", ".join(
            sorted(["oauth2", *(type_name for kind in kinds.values() for type_name in kind.credential_types)])
        )
        raise RefusedError(
            f'a credential of type "{credential_type}" cannot be tried; these can: {known}. '
            "Name the kind of task that uses it with --kind, such as --kind http --url https://…"
        )
    return tool_kind


async def try_credential(
    name: str, kind: str, fields: Mapping[str, Any], inputs: Mapping[str, Any], registry: Registry
) -> str:
    """Connect with a credential and return the name of the service that was reached. RefusedError gives the reason of a
    failure, without the secrets of the credential."""
    try:
        check = getattr(registry.tool(kind), "check", None)
        if check is None:
            able = ", ".join(name for name, known in load_kinds().items() if known.credential_types)
            raise RefusedError(f'the tool "{kind}" has no way to try a credential; these have: {able}')
        async with asyncio.timeout(TIMEOUT_S):
            return _masked_text(str(await check({"auth": name, **inputs}, _context(fields, registry))), fields)
    except TimeoutError:
        raise RefusedError(f"nothing was reached within {TIMEOUT_S:g} s") from None
    except ToolError as problem:
        code = f" ({problem.details['code']})" if problem.details.get("code") else ""
        raise RefusedError(_masked_text(problem.message, fields) + code) from None
    finally:
        await registry.close()


def _context(fields: Mapping[str, Any], registry: Registry) -> ToolContext:
    return ToolContext(
        task_run=TaskRunIdentity(
            execution_id="credential-check",
            step="check",
            task="check",
            attempt=1,
            task_run_id="credential-check",
            idempotency_key="credential-check",
        ),
        spec={},
        name=lambda _: UNKNOWN,
        resolve=lambda _: fields,
        tool=registry.tool,
        permissions=ToolPermissions(data_folders=registry.permissions.data_folders),
        addresses=registry.addresses,
    )


def _masked_text(text: str, fields: Mapping[str, Any]) -> str:
    """The text without the secret values of the credential; names of hosts and users stay readable."""
    public_fields = (
        "host",
        "url",
        "server",
        "namespace",
        "endpoint",
        "user",
        "username",
        "account",
        "account_name",
        "database",
        "port",
        "type",
        "adapter",
        "destination",
        "dbname",
        "schema",
    )
    for field, value in fields.items():
        if field not in public_fields and isinstance(value, str) and len(value) >= _SHORTEST:
            text = text.replace(value, "***")
    return text
