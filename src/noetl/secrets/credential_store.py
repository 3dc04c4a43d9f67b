"""Where sealed credentials lie. The vault asks this of a store and knows nothing else of it."""

from __future__ import annotations

from typing import Protocol

from noetl.events.credentials import SealedCredential


class CredentialStore(Protocol):
    async def get(self, name: str) -> SealedCredential | None: ...

    async def list(self) -> list[SealedCredential]:
        """All of them, by name."""

    async def put(self, row: SealedCredential, *, over: SealedCredential | None) -> bool:
        """Store a row in place of `over` (None: of none), durably. False when it was no longer what is there."""

    async def delete(self, name: str) -> bool:
        """False when there was none."""
