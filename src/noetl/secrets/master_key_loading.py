"""Opening a keychain for a program on somebody's own machine: its environment, its files, its store's credentials."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from noetl.base.addresses.guard import UNGUARDED
from noetl.base.clock import Clock
from noetl.base.errors import RefusedError
from noetl.secrets.contract import Resolvers, Sources
from noetl.secrets.keychain import Keychain
from noetl.secrets.master_keys import MasterKeys, load_master_keys
from noetl.secrets.token_requests import TokenRequests
from noetl.secrets.vault import MAX_BYTES, CredentialStore, Vault


def open_keychain(credentials: CredentialStore, clock: Clock, *, resolvers: Resolvers | None = None) -> Keychain:
    """The keychain of an embedded run: the author sits at the terminal, so every variable but our own and every file
    they can read is open to them. The master key is read when a credential is first opened, not before."""
    return Keychain(open_sources(Vault(credentials, _LaterKeys(os.environ), clock), clock), resolvers)


def open_sources(vault: Vault, clock: Clock) -> Sources:
    """Where the keychain of an embedded run looks, beside its stored credentials."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
    post = TokenRequests(UNGUARDED)
    return Sources(environment=environment, vault=vault, clock=clock, read_file=read_file, post=post)


class _LaterKeys(MasterKeys):
    """Master keys, read from where they are when one is first asked for."""

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
        body = opened.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise RefusedError(f"it has more than {MAX_BYTES} bytes")
    return body.decode("utf-8")
