"""The folds of executions that people look at, kept so that a look reads the events that are new, and a look back none.

Bounded by their bytes: the one that was not looked at for longest goes first. A fold that alone is too large is made
for its answer and not kept.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

import msgspec

from noetl.events.projection.state_history import StateHistory
from noetl.store.contract import ExecutionRow, History, SingleRow

MOST_BYTES = 64_000_000  # about 20 executions of 100,000 events
_PAGE = 1_000  # events that are folded between two looks at other requests


class _Kept(msgspec.Struct):
    history: StateHistory = msgspec.field(default_factory=StateHistory)
    reading: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    size_bytes: int = 0


class StateHistories:
    """What is kept, least recently viewed first."""

    def __init__(self, store: History, most_bytes: int = MOST_BYTES) -> None:
        self._store, self._most_bytes = store, most_bytes
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    async def of(self, row: ExecutionRow) -> StateHistory:
        """The fold of an execution with all events that are stored. Two who ask at once read its log once."""
        kept = self._kept.setdefault(row.execution_id, _Kept())
        self._kept.move_to_end(row.execution_id)
        async with kept.reading:
            if kept.history.seq < row.last_seq:
                try:
                    await self._read(row.execution_id, kept.history)
                except Exception:
                    self._kept.pop(row.execution_id, None)  # half of a page may have been taken
                    raise
                kept.size_bytes = kept.history.size_bytes
                self._forget()
        return kept.history

    async def _read(self, execution_id: str, history: StateHistory) -> None:
        only = SingleRow(limit=_PAGE)
        while page := await self._store.events(execution_id, after=history.seq, only=only):
            history.take_all(page)
            if len(page) < _PAGE:
                return

    def _forget(self) -> None:
        total = sum(one.size_bytes for one in self._kept.values())
        while total > self._most_bytes and self._kept:
            total -= self._kept.popitem(last=False)[1].size_bytes
