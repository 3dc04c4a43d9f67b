"""Vaults and keychains for tests: in memory, a manual clock, sources that a test fills."""

from __future__ import annotations

import os
from typing import Any

from noetl.base.clock import Clock, ManualClock
from noetl.base.errors import RefusedError
from noetl.net.net import KeychainEntry
from noetl.secrets.contract import Resolver, Resolvers, Sources
from noetl.secrets.encryption import MasterKeys
from noetl.secrets.keychain import Keychain
from noetl.secrets.vault import Vault
from noetl.store.installation import MemoryCredentials


def new_vault(clock: Clock | None = None) -> Vault:
    return Vault(MemoryCredentials(), MasterKeys([os.urandom(32)]), clock or ManualClock())


def entry(name: str, kind: str, **lookup: Any) -> KeychainEntry:
    return KeychainEntry(name=name, kind=kind, lookup=lookup)


class Endpoint:
    """A token endpoint: its answers in turn, and what it was asked."""

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, dict[str, str], tuple[str, str] | None]] = []

    async def __call__(self, url: str, form: dict[str, str], login: tuple[str, str] | None) -> tuple[int, Any]:
        self.asked.append((url, form, login))
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def new_keychain(
    *,
    vault: Vault | None = None,
    clock: Clock | None = None,
    environment: dict[str, str] | None = None,
    files: dict[str, str] | None = None,
    endpoint: Endpoint | None = None,
    resolvers: dict[str, Resolver] | None = None,
) -> Keychain:
    def read_file(path: str) -> str:
        try:
            return (files or {})[path]
        except KeyError:
            raise RefusedError("there is no such file") from None

    sources = Sources(
        environment=environment or {},
        vault=vault,
        clock=clock or ManualClock(),
        read_file=read_file,
        post=endpoint or Endpoint((500, None)),
    )
    return Keychain(sources, Resolvers(resolvers))
