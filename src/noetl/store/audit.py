"""The audit log: actor, action, object, origin and outcome; append-only (reliability.md §3.9).

Each row holds the hash of the row before it, so checking the chain finds a row that was changed, removed or inserted. A
chain that was cut off at its end is found by comparing it with a later hash that is stored elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

ORIGIN = "0" * 64  # the hash before the first row
COLUMNS = ("seq", "at", "actor", "action", "object", "address", "outcome", "prev_hash", "hash")
PAGE = 1_000  # rows read at a time while the chain is walked


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One audited request. `action` is the method and the route, `object` the requested path. Bodies are never
    stored."""

    at: float
    actor: str
    action: str
    object: str
    address: str
    outcome: str


class AuditRow(AuditEntry, frozen=True, kw_only=True):
    """An entry in its place: `seq` counts from one without gaps."""

    seq: int
    prev_hash: str
    hash: str


class AuditChainCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking the chain. `broken_at` is the first row that differs from what was written, None if none
    does; `holds`: the chain contains the hash that was given."""

    rows: int
    last_hash: str
    broken_at: int | None = None
    why: str | None = None
    holds: bool = False


class Audit(Protocol):
    async def append(self, entries: Sequence[AuditEntry]) -> None:
        """Append these entries, durably and in this order."""

    async def onward(self, *, after: int, limit: int = PAGE) -> list[AuditRow]:
        """The rows after row `after`, the oldest first."""

    async def newest(self, *, limit: int = 100, before: int | None = None) -> list[AuditRow]:
        """Rows, the last one first; of those older than row `before`, if given."""


def chained(entries: Iterable[AuditEntry], *, seq: int, prev_hash: str) -> list[AuditRow]:
    """The entries as rows behind row `seq`."""
    rows: list[AuditRow] = []
    for entry in entries:
        seq += 1
        digest = _hash_of(seq, prev_hash, entry)
        fields = {name: getattr(entry, name) for name in AuditEntry.__struct_fields__}
        rows.append(AuditRow(**fields, seq=seq, prev_hash=prev_hash, hash=digest))
        prev_hash = digest
    return rows


def row_values(row: AuditRow) -> tuple[object, ...]:
    """A row as databases keep it."""
    return tuple(getattr(row, column) for column in COLUMNS)


def _hash_of(seq: int, prev_hash: str, entry: AuditEntry) -> str:
    # As JSON list: with plain joining, text could move from one field to the next without changing the hash.
    parts = (seq, prev_hash, *(getattr(entry, name) for name in AuditEntry.__struct_fields__))
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


async def walked(audit: Audit, *, looking_for: str | None = None) -> AuditChainCheck:
    """Walk the whole chain and say where it is broken, if it is."""
    seq, prev_hash = 0, ORIGIN
    holds = looking_for == ORIGIN
    while rows := await audit.onward(after=seq):
        for row in rows:
            if why := _flaw(row, seq, prev_hash):
                return AuditChainCheck(rows=seq, last_hash=prev_hash, broken_at=row.seq, why=why, holds=holds)
            seq, prev_hash = row.seq, row.hash
            # Only before the break: a hash after a changed row proves nothing.
            holds = holds or row.hash == looking_for
    return AuditChainCheck(rows=seq, last_hash=prev_hash, holds=holds)


def _flaw(row: AuditRow, seq: int, prev_hash: str) -> str | None:
    # Numbers first: a removed row would break the chain too, and "missing" is the clearer answer.
    if row.seq != seq + 1:
        lost = f"row {seq + 1} is" if row.seq == seq + 2 else f"rows {seq + 1} to {row.seq - 1} are"
        return f"{lost} missing"
    if row.prev_hash != prev_hash:
        return "it does not follow the row before it"
    return None if row.hash == _hash_of(row.seq, row.prev_hash, row) else "its contents were changed"


class MemoryAudit:
    """For tests, and for stores that need not outlive their process."""

    def __init__(self) -> None:
        self._rows: list[AuditRow] = []

    async def append(self, entries: Sequence[AuditEntry]) -> None:
        last = self._rows[-1].hash if self._rows else ORIGIN
        self._rows += chained(entries, seq=len(self._rows), prev_hash=last)

    async def onward(self, *, after: int, limit: int = PAGE) -> list[AuditRow]:
        return self._rows[after : after + limit]

    async def newest(self, *, limit: int = 100, before: int | None = None) -> list[AuditRow]:
        older = self._rows if before is None else self._rows[: max(before - 1, 0)]
        return older[::-1][:limit]
