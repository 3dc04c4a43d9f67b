"""The vault: stored credentials, sealed. Only resolvers read values (reliability.md §2.6).

People can read the name, type, version and fingerprint of a credential, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import BackendError, RefusedError
from noetl.events.secret_materials import SealedCredential
from noetl.secrets.credential_types import Fields, shaped
from noetl.secrets.encryption import MasterKeys, opened, rewrapped, seal

MAX_BYTES = 1 << 20
# Of a compare and set: a credential is changed by people, one at a time.
_TRIES = 5
_TEXTS = "texts"  # the type of what is sealed for an execution; no stored credential has it


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """A credential as it may be shown. `key_id` is the master key it is sealed with."""

    name: str
    type: str
    version: int
    fingerprint: str
    key_id: str
    created_at: float
    updated_at: float


class Vault:
    def __init__(self, credentials: CredentialStore, keys: MasterKeys, clock: Clock) -> None:
        self._credentials, self._keys, self._clock = credentials, keys, clock

    def under(self, keys: MasterKeys) -> Vault:
        """The same credentials, with other master keys."""
        return Vault(self._credentials, keys, self._clock)

    async def set(self, name: str, given: str | Fields, *, kind: str) -> Credential:
        """Store a credential, or a new version of one."""
        if not name or len(name) > 200 or not name.isprintable():
            raise RefusedError("a credential's name is 1 to 200 printable characters")
        value = msgspec.json.encode(shaped(kind, given))
        if len(value) > MAX_BYTES:
            raise RefusedError(f"a credential has at most {MAX_BYTES} bytes, this has {len(value)}")
        for _ in range(_TRIES):
            old = await self._credentials.get(name)
            row = seal(name, kind, old.version + 1 if old else 1, value, self._keys, now=self._clock.now())
            if old is not None:
                row = msgspec.structs.replace(row, created_at=old.created_at)
            # Compare and set: a version stored meanwhile by another process is not overwritten, and the next try counts
            # on from it.
            if await self._credentials.put(row, over=old):
                return _credential(row)
        raise BackendError(f'credential "{name}" is being changed by others: try again')

    async def fields(self, name: str, *, version: int | None = None) -> tuple[str, Fields] | None:
        """Type and value, for resolvers; None when there is no such credential. Only the newest version is kept."""
        row = await self._credentials.get(name)
        if row is None:
            return None
        if version is not None and version != row.version:
            raise BackendError(f'version {version} of credential "{name}" is not kept, the newest is {row.version}')
        value: dict[str, Any] = msgspec.json.decode(opened(row, self._keys))
        return row.type, value

    async def knows(self, name: str) -> bool:
        return await self._credentials.get(name) is not None

    def sealed_texts(self, owner: str, texts: Sequence[str]) -> SealedCredential | None:
        """Texts that belong to `owner`, sealed as credentials are; None where there is no master key to do so."""
        try:
            return seal(owner, _TEXTS, 1, msgspec.json.encode(texts), self._keys, now=self._clock.now())
        # None: without a master key the caller records how the secret is looked up instead.
        except (RefusedError, BackendError):
            return None

    def opened_texts(self, owner: str, sealed: SealedCredential) -> list[str]:
        """Decrypt the texts given to `sealed_texts` for `owner`. BackendError if the key is missing or belongs to
        another owner."""
        # A text that was sealed for another owner opens as well, under its own name: so the name is compared.
        if (sealed.name, sealed.type) != (owner, _TEXTS):
            raise BackendError(f"the sealed texts of {owner} are not what was stored")
        return msgspec.json.decode(opened(sealed, self._keys), type=list[str])

    async def list(self) -> list[Credential]:
        return [_credential(row) for row in await self._credentials.list()]

    async def delete(self, name: str) -> bool:
        return await self._credentials.delete(name)

    async def is_rotated(self) -> bool:
        """Whether everything is under the newest master key."""
        rows = await self._credentials.list()
        return all(row.key_id == self._keys.newest_id for row in rows)

    async def rotate(self) -> int:
        """Put every credential under the newest master key, one by one, and say how many were moved. Safe to stop
        at any point and to run again: a row opens with the key it names."""
        moved = 0
        for row in await self._credentials.list():
            current: SealedCredential | None = row
            while current is not None and current.key_id != self._keys.newest_id:
                # The same guard: a credential that is set during the rotation keeps its new value.
                if await self._credentials.put(rewrapped(current, self._keys), over=current):
                    moved += 1
                    break
                current = await self._credentials.get(row.name)  # set again meanwhile, or deleted
        return moved


def _credential(row: SealedCredential) -> Credential:
    return Credential(**{field: getattr(row, field) for field in Credential.__struct_fields__})


# Where sealed credentials lie. The vault asks this of a store and knows nothing else of it.


class CredentialStore(Protocol):
    async def get(self, name: str) -> SealedCredential | None: ...

    async def list(self) -> list[SealedCredential]:
        """All of them, by name."""

    async def put(self, row: SealedCredential, *, over: SealedCredential | None) -> bool:
        """Store a row in place of `over` (None: of none), durably. False when it was no longer what is there."""

    async def delete(self, name: str) -> bool:
        """False when there was none."""
