"""Encryption of credentials: each value has a data key of its own, which is encrypted with a master key (reliability.md
§2.6). Also digests of secrets, which are compared and never opened.

AES-256-GCM with random nonces. The name, type, version and key of a sealed text are authenticated with it, so that a
row that was copied to another name does not open.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from typing import TYPE_CHECKING

import msgspec

from noetl.base.errors import BackendError
from noetl.events.secret_materials import SealedCredential
from noetl.secrets.master_keys import SIZE, MasterKeys

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE = 12  # bytes, as GCM wants them; each key seals too few texts for a random one ever to repeat


def seal(name: str, kind: str, version: int, value: bytes, keys: MasterKeys, *, now: float) -> SealedCredential:
    """`value` under the newest master key."""
    data_key, key_id = os.urandom(SIZE), keys.newest_id
    return SealedCredential(
        name=name,
        type=kind,
        version=version,
        key_id=key_id,
        wrapped_key=_locked(keys.key(key_id), data_key, "data key", name, version, key_id),
        sealed=_locked(data_key, value, "credential", name, version, kind),
        fingerprint=keys.fingerprint(value),
        created_at=now,
        updated_at=now,
    )


def opened(row: SealedCredential, keys: MasterKeys) -> bytes:
    """The value. BackendError when the key is missing or the row differs from what was written."""
    data_key = _data_key(row, keys)
    return _unlocked(data_key, row.sealed, row.name, "credential", row.name, row.version, row.type)


def rewrapped(row: SealedCredential, keys: MasterKeys) -> SealedCredential:
    """The same credential under the newest master key; its value stays sealed as it is."""
    data_key, key_id = _data_key(row, keys), keys.newest_id
    # Opened for its fingerprint, which is keyed by the newest master key; the value is not sealed again.
    value = _unlocked(data_key, row.sealed, row.name, "credential", row.name, row.version, row.type)
    return msgspec.structs.replace(
        row,
        key_id=key_id,
        wrapped_key=_locked(keys.key(key_id), data_key, "data key", row.name, row.version, key_id),
        fingerprint=keys.fingerprint(value),
    )


def _data_key(row: SealedCredential, keys: MasterKeys) -> bytes:
    try:
        master = keys.key(row.key_id)
    except BackendError as problem:
        raise BackendError(f'credential "{row.name}" cannot be opened: {problem}') from None
    return _unlocked(master, row.wrapped_key, row.name, "data key", row.name, row.version, row.key_id)


def _locked(key: bytes, body: bytes, *bound: object) -> bytes:
    nonce = os.urandom(_NONCE)
    # The names it belongs to are authenticated, not encrypted: a row that is copied to another name does not open.
    return nonce + _cipher(key).encrypt(nonce, body, msgspec.json.encode(bound))


def _unlocked(key: bytes, locked: bytes, name: str, *bound: object) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        return _cipher(key).decrypt(locked[:_NONCE], locked[_NONCE:], msgspec.json.encode(bound))
    # One message for both: the difference would only help an attacker.
    except (InvalidTag, ValueError):
        raise BackendError(f'credential "{name}" is not what was stored: its row was changed or damaged') from None


def _cipher(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # slow to import, and rarely needed

    return AESGCM(key)


# Secrets that are shown once and kept as digests, and the only way here to compare them (reliability.md §2.3).

BYTES = 32  # 256 bits cannot be guessed, so a plain hash of them is safe to store


def fresh_secret() -> str:
    return secrets.token_urlsafe(BYTES)


def digest_of(secret: str) -> str:
    # surrogatepass: a header may hold half a character, and a stranger must get an answer, not an error.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def are_same(given: str, kept: str) -> bool:
    """Whether two texts are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), kept.encode("utf-8", "surrogatepass"))
