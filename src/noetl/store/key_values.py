"""Small things by kind and name that belong to the installation, not to an execution: tokens, pools, workers,
schedules, webhooks, answers under an idempotency key. A thing is replaced only by whoever has seen what it replaces.
"""

from __future__ import annotations

from typing import Protocol

import msgspec


class KeyValue(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the table."""

    kind: str
    name: str
    # Counts from one. A change names the version it has seen, which makes every change a compare and set.
    version: int
    # JSON; each kind has a struct of its own where it is used.
    body: bytes
    updated_at: float


class KeyValues(Protocol):
    async def get(self, kind: str, name: str) -> KeyValue | None: ...

    async def list(
        self, kind: str, *, prefix: str = "", limit: int = 1000, beyond: str | None = None
    ) -> list[KeyValue]:
        """By name. `beyond` is the last name of the page before."""

    async def put(self, kind: str, name: str, body: bytes, *, over: int, at: float) -> KeyValue | None:
        """Store it, durably, in place of version `over` (0: of none); None when that is not what is there."""

    async def delete(self, kind: str, name: str, *, version: int | None = None) -> bool:
        """False when there was none, or not of this version."""

    async def sweep(self, kind: str, *, before: float) -> int:
        """Remove those not touched since; gives how many."""


class MemoryKeyValues:
    """For tests, and for stores that need not outlive their process."""

    def __init__(self) -> None:
        self._things: dict[tuple[str, str], KeyValue] = {}

    async def get(self, kind: str, name: str) -> KeyValue | None:
        return self._things.get((kind, name))

    async def list(
        self, kind: str, *, prefix: str = "", limit: int = 1000, beyond: str | None = None
    ) -> list[KeyValue]:
        names = sorted(name for of, name in self._things if of == kind and name.startswith(prefix))
        return [self._things[kind, name] for name in names if beyond is None or name > beyond][:limit]

    async def put(self, kind: str, name: str, body: bytes, *, over: int, at: float) -> KeyValue | None:
        there = self._things.get((kind, name))
        if (there.version if there else 0) != over:
            return None
        thing = KeyValue(kind=kind, name=name, version=over + 1, body=body, updated_at=at)
        self._things[kind, name] = thing
        return thing

    async def delete(self, kind: str, name: str, *, version: int | None = None) -> bool:
        there = self._things.get((kind, name))
        if there is None or version not in (None, there.version):
            return False
        del self._things[kind, name]
        return True

    async def sweep(self, kind: str, *, before: float) -> int:
        old = [key for key, thing in self._things.items() if key[0] == kind and thing.updated_at < before]
        for key in old:
            del self._things[key]
        return len(old)
