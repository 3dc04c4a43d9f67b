"""Encryption of credentials: each value has a data key of its own, which is encrypted with a master key (reliability.md
§2.6). Also digests of secrets, which are compared and never opened.

AES-256-GCM with random nonces. The name, type, version and key of a sealed text are authenticated with it, so that a
row that was copied to another name does not open.

Several master keys may be live; the newest seals what is new. They come from NOETL_MASTER_KEY, from the file
NOETL_MASTER_KEY_FILE, or from a file in the user's data folder that is made with the first credential, or when a server
first starts. There is no default key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from noetl.base.errors import BackendError, RefusedError
from noetl.base.settings import home
from noetl.events.secret_materials import SealedCredential

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM


VARIABLE, FILE_VARIABLE, FILE = "NOETL_MASTER_KEY", "NOETL_MASTER_KEY_FILE", "master.key"
SIZE = 32  # bytes: AES-256
_HEAD = "# NoETL master keys, the newest last. Whoever reads this file can read every stored credential.\n"


class MasterKeys:
    """Keys by id, in the order they came to be. `file` is where a new one can be added, None where it cannot."""

    def __init__(self, keys: list[bytes], *, file: Path | None = None) -> None:
        self._keys = {key_id_of(key): key for key in keys}
        self.file = file

    def __repr__(self) -> str:
        return f"MasterKeys({', '.join(self._keys)})"

    def __bool__(self) -> bool:
        return bool(self._keys)

    @property
    def newest_id(self) -> str:
        if not self._keys:
            raise RefusedError(
                f"there is no master key, so credentials can neither be stored nor read: set {VARIABLE} or "
                f"{FILE_VARIABLE}, or store a first one with noetl credential set"
            )
        return next(reversed(self._keys))

    def key(self, key_id: str) -> bytes:
        """BackendError when this key is not here."""
        try:
            return self._keys[key_id]
        except KeyError:
            here = ", ".join(self._keys) or "none"
            raise BackendError(f"master key {key_id} is needed and not here (here: {here})") from None

    def fingerprint(self, value: bytes) -> str:
        """Equal for equal values while the newest key is the same. Without that key, nobody can test guesses against
        it."""
        return hmac.digest(_derived_key(self.key(self.newest_id), b"fingerprint"), value, "sha256").hex()[:16]

    def with_new_key(self) -> MasterKeys:
        """These keys and a new one. The new key is written to the file before anything is sealed with it."""
        if self.file is None:
            raise RefusedError(f"the master key comes from {VARIABLE}: add a new one there, after the old, then rotate")
        key = os.urandom(SIZE)
        if not self._keys:
            _create(self.file, key)
        else:
            _append(self.file, key)
        return _from_file(self.file)


def key_id_of(key: bytes) -> str:
    return _derived_key(key, b"id").hex()[:12]


def _derived_key(key: bytes, purpose: bytes) -> bytes:
    # A key for each purpose: knowing one reveals nothing about another.
    return hmac.digest(key, b"noetl " + purpose, "sha256")


_taken: dict[str, str] = {}  # from the environment of this process


def take_from_environment() -> None:
    """Keep the master keys of the environment in memory only: programs that are started from here do not get them."""
    if (written := os.environ.pop(VARIABLE, None)) is not None:
        _taken[VARIABLE] = written


def key_file(environment: Mapping[str, str]) -> Path:
    """Where the keys are, or would be, when they are not in a variable."""
    chosen = environment.get(FILE_VARIABLE)
    return Path(chosen).expanduser() if chosen else home() / FILE


def has_master_keys(environment: Mapping[str, str]) -> bool:
    taken = VARIABLE in _taken and environment is os.environ
    return bool(environment.get(VARIABLE)) or taken or key_file(environment).exists()


def load_master_keys(environment: Mapping[str, str], *, create: bool = False) -> MasterKeys:
    """The keys of this installation; without any, and with `create`, a file with a first one is made."""
    taken = _taken.get(VARIABLE) if environment is os.environ else None
    if written := environment.get(VARIABLE) or taken:
        return MasterKeys(_keys(written.replace(",", "\n"), VARIABLE))
    path = key_file(environment)
    if path.exists():
        return _from_file(path)
    # A file that is named and missing is a mistake, such as a volume that is not mounted. Without a name there is
    # simply no key yet.
    if environment.get(FILE_VARIABLE) and not create:
        raise BackendError(f"the master key file {path} is not there")
    keys = MasterKeys([], file=path)
    return keys.with_new_key() if create else keys


def _from_file(path: Path) -> MasterKeys:
    return MasterKeys(_keys(_read(path), str(path)), file=path)


def _read(path: Path) -> str:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if os.name == "posix" and mode & 0o077:
            raise BackendError(f"the master key file {path} can be read by others (mode {mode:o}): chmod 600 {path}")
        return path.read_text(encoding="ascii", errors="strict")
    except (OSError, UnicodeDecodeError) as problem:
        raise BackendError(f"the master key file {path} cannot be read: {problem}") from problem


def _keys(text: str, where: str) -> list[bytes]:
    lines = [line.strip() for line in text.splitlines()]
    keys = [_key(line, where) for line in lines if line and not line.startswith("#")]
    if not keys:
        raise BackendError(f"{where} holds no master key")
    return keys


def _key(line: str, where: str) -> bytes:
    try:
        key = base64.b64decode(line, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != SIZE:
        # the contents are never shown
        raise BackendError(
            f"{where} contains something that is not a master key: each is {SIZE} random bytes in base64"
        )
    return key


def _line(key: bytes) -> bytes:
    return base64.b64encode(key) + b"\n"


def _create(path: Path, key: bytes) -> None:
    """Make the file, readable by its owner only; when another process was faster, its key is the one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    # With its rights from the start: a later chmod would leave it readable for a moment.
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        _write(handle, _HEAD.encode() + _line(key))
        # A link refuses where the file exists: of two processes that make the first key at once, one key stays, and
        # both read it.
        with suppress(FileExistsError):
            os.link(part, path)
    finally:
        part.unlink()


def _append(path: Path, key: bytes) -> None:
    # A file that was written by hand may lack the last line break: the two keys would become one line, and unreadable.
    start = b"" if path.read_bytes().endswith(b"\n") else b"\n"
    _write(os.open(path, os.O_WRONLY | os.O_APPEND), start + _line(key))


def _write(handle: int, body: bytes) -> None:
    with os.fdopen(handle, "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


_NONCE = 12  # bytes, as GCM wants them; each key seals too few texts for a random one ever to repeat


def seal(name: str, kind: str, version: int, value: bytes, keys: MasterKeys, *, now: float) -> SealedCredential:
    """`value` under the newest master key."""
    data_key, key_id = os.urandom(SIZE), keys.newest_id
    return SealedCredential(
        name=name,
        type=kind,
        version=version,
        key_id=key_id,
        wrapped_key=_sealed_bytes(keys.key(key_id), data_key, "data key", name, version, key_id),
        sealed=_sealed_bytes(data_key, value, "credential", name, version, kind),
        fingerprint=keys.fingerprint(value),
        created_at=now,
        updated_at=now,
    )


def opened(row: SealedCredential, keys: MasterKeys) -> bytes:
    """The value. BackendError when the key is missing or the row differs from what was written."""
    data_key = _data_key(row, keys)
    return _unsealed_bytes(data_key, row.sealed, row.name, "credential", row.name, row.version, row.type)


def rewrapped(row: SealedCredential, keys: MasterKeys) -> SealedCredential:
    """The same credential under the newest master key; its value stays sealed as it is."""
    data_key, key_id = _data_key(row, keys), keys.newest_id
    # Opened for its fingerprint, which is keyed by the newest master key; the value is not sealed again.
    value = _unsealed_bytes(data_key, row.sealed, row.name, "credential", row.name, row.version, row.type)
    return msgspec.structs.replace(
        row,
        key_id=key_id,
        wrapped_key=_sealed_bytes(keys.key(key_id), data_key, "data key", row.name, row.version, key_id),
        fingerprint=keys.fingerprint(value),
    )


def _data_key(row: SealedCredential, keys: MasterKeys) -> bytes:
    try:
        master = keys.key(row.key_id)
    except BackendError as problem:
        raise BackendError(f'credential "{row.name}" cannot be opened: {problem}') from None
    return _unsealed_bytes(master, row.wrapped_key, row.name, "data key", row.name, row.version, row.key_id)


def _sealed_bytes(key: bytes, body: bytes, *bound: object) -> bytes:
    nonce = os.urandom(_NONCE)
    # The names it belongs to are authenticated, not encrypted: a row that is copied to another name does not open.
    return nonce + _cipher(key).encrypt(nonce, body, msgspec.json.encode(bound))


def _unsealed_bytes(key: bytes, locked: bytes, name: str, *bound: object) -> bytes:
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
    """Whether two texts are equal, in a time that does not depend on where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), kept.encode("utf-8", "surrogatepass"))
