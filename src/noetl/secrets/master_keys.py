"""Master keys: what the vault's data keys are wrapped with. Several may be live; the newest seals what is new.

They come from NOETL_MASTER_KEY, from the file NOETL_MASTER_KEY_FILE, or from a file in the user's data folder that is
made with the first credential, or when a server first starts. There is no default key.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from noetl.base.errors import BackendError, RefusedError
from noetl.base.settings import home

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
        """Equal for equal values under one newest key, and worthless to guess from without it."""
        return hmac.digest(_derived(self.key(self.newest_id), b"fingerprint"), value, "sha256").hex()[:16]

    def with_new_key(self) -> MasterKeys:
        """These keys and a new one, which is in the file before anything is sealed with it."""
        if self.file is None:
            raise RefusedError(f"the master key comes from {VARIABLE}: add a new one there, after the old, then rotate")
        key = os.urandom(SIZE)
        if not self._keys:
            _create(self.file, key)
        else:
            _append(self.file, key)
        return _from_file(self.file)


def key_id_of(key: bytes) -> str:
    return _derived(key, b"id").hex()[:12]


def _derived(key: bytes, purpose: bytes) -> bytes:
    # A key for each purpose: what is known of one says nothing of another.
    return hmac.digest(key, b"noetl " + purpose, "sha256")


_taken: dict[str, str] = {}  # what was in the environment of this process


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
        # what stands there is never shown
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
    # Its rights from the first moment: a chmod afterwards would leave it readable for an instant.
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
