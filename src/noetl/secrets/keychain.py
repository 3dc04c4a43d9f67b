"""The keychain of a server: names to materials, for requests being evaluated and for workers that hold an order. Also
opening one for a program on a user's own machine.

Stored values are not cached. A token that was fetched (one with `refresh_after`) is kept in memory until it is due,
since every fetch costs its endpoint a call.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from noetl.base.addresses.policy import UNGUARDED
from noetl.base.clock import Clock
from noetl.base.errors import BackendError, RefusedError, ToolError
from noetl.base.secret_forms import SHORTEST
from noetl.events.secret_materials import VALUE, Material, SealedCredential, secrets_in
from noetl.net.net import KeychainEntry
from noetl.secrets.contract import UNRESOLVED, Resolvers, Sources, unresolved
from noetl.secrets.encryption import MasterKeys, load_master_keys
from noetl.secrets.token_requests import TokenRequests
from noetl.secrets.vault import MAX_BYTES, CredentialStore, Vault

_log = logging.getLogger(__name__)

_MOST_TOKENS = 1_000
# Kinds for which `map` names where each field lies, not another name of a field that was found.
_MAP_THEMSELVES = ("env", "secret_manager")


class Keychain:
    def __init__(self, sources: Sources, resolvers: Resolvers | None = None) -> None:
        self._sources = sources
        self._resolvers = resolvers or Resolvers()
        self._tokens: dict[bytes, Material] = {}

    async def missing(self, entries: Sequence[KeychainEntry], names: Sequence[str]) -> ToolError | None:
        """Why a request cannot be run: the first entry that does not resolve, or the first of `names` (written as
        `auth`) that is neither an entry nor a stored credential (KEY-02, VAL-21)."""
        for entry in entries:
            try:
                _warn_if_short(entry, await self._looked_up(entry))
            except ToolError as problem:
                return problem
        declared = {entry.name for entry in entries}
        for name in names:
            if name not in declared and not await self._is_stored(name):
                return ToolError(UNRESOLVED, _not_found_text(name), code="E_KEYCHAIN", entry=name)
        return None

    async def material(self, entries: Sequence[KeychainEntry], name: str) -> Material:
        """The value of `name`: the entry of that name, else the stored credential (KEY-05)."""
        entry = _entry(entries, name)
        if entry is None:
            if not await self._is_stored(name):
                raise ToolError(UNRESOLVED, _not_found_text(name), entry=name)
            entry = KeychainEntry(name=name, kind="credential")
        return await self._looked_up(entry)

    async def looked_up(self, entries: Sequence[KeychainEntry], asked: KeychainEntry) -> Material:
        """One secret of a `secrets` task: by its resolver where one is named, else as `material` does (TOOL-09)."""
        if asked.kind:
            return await self._looked_up(asked)
        entry = _entry(entries, asked.name)
        if entry is None:
            entry = msgspec.structs.replace(asked, kind="credential")
        return await self._looked_up(entry)

    async def refreshed(self, entries: Sequence[KeychainEntry], name: str) -> Material:
        """Renew one entry: its cached value is dropped, and it is resolved again (KEY-04)."""
        entry = _entry(entries, name) or KeychainEntry(name=name, kind="credential")
        self._tokens.pop(_identity(entry), None)
        return await self._looked_up(entry)

    def sealed_texts(self, owner: str, texts: Sequence[str]) -> SealedCredential | None:
        """See `Vault.sealed_texts`; None where nothing can be stored."""
        vault = self._sources.vault
        return vault.sealed_texts(owner, texts) if vault is not None else None

    def opened_texts(self, owner: str, sealed: SealedCredential) -> list[str]:
        if self._sources.vault is None:
            raise BackendError(f"the sealed texts of {owner} cannot be opened: there is no vault here")
        return self._sources.vault.opened_texts(owner, sealed)

    async def _is_stored(self, name: str) -> bool:
        vault = self._sources.vault
        return vault is not None and await vault.knows(name)

    async def _looked_up(self, entry: KeychainEntry) -> Material:
        identity = _identity(entry)
        kept = self._tokens.get(identity)
        if kept is not None and not kept.due(self._sources.clock.now()):
            return kept
        found = _checked(entry, _with_mapped_fields(entry, await self._resolved(entry)))
        # Only what was fetched. A stored value is read again each time, so that a changed credential counts at once.
        if found.refresh_after is not None:
            if len(self._tokens) >= _MOST_TOKENS:
                # The oldest one: it costs another request if it is needed again.
                self._tokens.pop(next(iter(self._tokens)))
            self._tokens[identity] = found
        return found

    async def _resolved(self, entry: KeychainEntry) -> Material:
        try:
            return await self._resolvers.resolver(entry).resolve(entry, self._sources)
        except ToolError as problem:
            if problem.kind == UNRESOLVED:
                raise
            raise unresolved(entry, problem.message) from None
        except Exception as problem:  # a plug-in's; its words may hold what it found
            raise unresolved(entry, f"its resolver failed with {type(problem).__name__}") from None


def _warn_if_short(entry: KeychainEntry, found: Material) -> None:
    if any(len(text) < SHORTEST for text in secrets_in(found)):
        message = 'keychain entry "%s" has a value of fewer than %d characters, which cannot be masked in logs'
        _log.warning(message, entry.name, SHORTEST)


def _checked(entry: KeychainEntry, found: Material) -> Material:
    """Refuse values that are neither UTF-8 text nor plain data: they could be neither used nor masked."""
    try:
        msgspec.json.encode(found.fields)
    # A plug-in may return anything; a value that cannot be sent to a worker is refused here, without showing it.
    except (TypeError, UnicodeError, RecursionError):
        raise unresolved(entry, "the value is not plain data in UTF-8") from None
    return found


def _entry(entries: Sequence[KeychainEntry], name: str) -> KeychainEntry | None:
    return next((entry for entry in entries if entry.name == name), None)


def _identity(entry: KeychainEntry) -> bytes:
    # The whole entry, not its name: two playbooks may call different things the same.
    return msgspec.json.encode(entry, order="deterministic")


def _not_found_text(name: str) -> str:
    return (
        f'"{name}" is neither in the keychain nor a stored credential: declare it under keychain, '
        f"or store it with noetl credential set {name}"
    )


def _with_mapped_fields(entry: KeychainEntry, found: Material) -> Material:
    """`map` gives further names to fields: {user: db_user}. Kinds that look each of them up have done so."""
    mapped = entry.lookup.get("map")
    if not isinstance(mapped, dict) or entry.kind in _MAP_THEMSELVES:
        return found
    fields = dict(found.fields)
    for name, source in mapped.items():
        if source not in found.fields:
            has = ", ".join(key for key in found.fields if key != VALUE) or "one text only"
            raise unresolved(entry, f'map names the field "{source}", and it has {has}')
        fields[name] = found.fields[str(source)]
    return msgspec.structs.replace(found, fields=fields)


# Opening a keychain for a program on a user's own machine: its environment, its files, its store's credentials.


def open_keychain(credentials: CredentialStore, clock: Clock, *, resolvers: Resolvers | None = None) -> Keychain:
    """The keychain of an embedded run: the author sits at the terminal, so every variable but our own and every file
    they can read is open to them. The master key is read when a credential is first opened, not before."""
    return Keychain(open_sources(Vault(credentials, _LaterKeys(os.environ), clock), clock), resolvers)


def open_sources(vault: Vault, clock: Clock) -> Sources:
    """Where the keychain of an embedded run looks, beside its stored credentials."""
    # Ours hold the master key and tokens: a playbook must not read those.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
    post = TokenRequests(UNGUARDED)
    return Sources(environment=environment, vault=vault, clock=clock, read_file=read_file, post=post)


class _LaterKeys(MasterKeys):
    """Master keys, read when one is first needed."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__([])
        self._environment = environment

    @property
    def newest_id(self) -> str:
        self._load()
        return super().newest_id

    def key(self, key_id: str) -> bytes:
        self._load()
        return super().key(key_id)

    def _load(self) -> None:
        if not self._keys:
            self._keys = load_master_keys(self._environment)._keys


def read_file(path: str) -> str:
    """A small text file."""
    file = Path(path.removeprefix("file://")).expanduser()
    if not file.is_file():
        raise RefusedError("there is no such file")
    with file.open("rb") as opened:
        # One byte more than allowed shows that the file is too large, without reading all of it.
        body = opened.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise RefusedError(f"it has more than {MAX_BYTES} bytes")
    return body.decode("utf-8")
