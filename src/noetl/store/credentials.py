"""Credentials: sealed rows by name. The store sees no value and has no key (reliability.md §2.6)."""

from __future__ import annotations

from typing import Protocol

from noetl.events.secret_materials import SealedCredential


class CredentialRows(Protocol):
    """One row per name; a row is replaced only by whoever has seen what it replaces."""

    async def get(self, name: str) -> SealedCredential | None: ...

    async def list(self) -> list[SealedCredential]:
        """All of them, by name."""

    async def put(self, row: SealedCredential, *, over: SealedCredential | None) -> bool:
        """Store a row in place of `over` (None: of none), durably. False when it was no longer what is there."""

    async def delete(self, name: str) -> bool:
        """False when there was none."""


class MemoryCredentials:
    """For tests, and for stores that need not outlive their process."""

    def __init__(self) -> None:
        self._rows: dict[str, SealedCredential] = {}

    async def get(self, name: str) -> SealedCredential | None:
        return self._rows.get(name)

    async def list(self) -> list[SealedCredential]:
        return [self._rows[name] for name in sorted(self._rows)]

    async def put(self, row: SealedCredential, *, over: SealedCredential | None) -> bool:
        if _state(self._rows.get(row.name)) != _state(over):
            return False
        self._rows[row.name] = row
        return True

    async def delete(self, name: str) -> bool:
        return self._rows.pop(name, None) is not None


def _state(row: SealedCredential | None) -> tuple[int, str] | None:
    return (row.version, row.key_id) if row is not None else None
