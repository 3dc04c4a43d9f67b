"""Requests: what another process asks of the one that drives an execution (SRV-07, SRV-11).

They are kept beside the log and are no part of it: what was asked for takes effect when it is recorded as an event.
"""

from __future__ import annotations

from typing import Protocol

import msgspec


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is asked of the process that drives an execution."""

    request_id: int
    execution_id: str
    # pause | resume | cancel | compensate; or the name of a command (`control/outside/requests.py`).
    action: str
    # In people's words; of a command it is the command itself, as JSON.
    reason: str | None = None
    requested_at: float
    # Its result; None until a process has answered it.
    answer: str | None = None
    answered_at: float | None = None


class Requests(Protocol):
    async def ask(self, execution_id: str, action: str, *, reason: str | None, at: float) -> int:
        """Store a request; returns its number."""

    async def pending(self) -> list[RequestRow]:
        """Requests without an answer, in the order they came."""

    async def get(self, request_id: int) -> RequestRow | None: ...

    async def answer(self, request_id: int, answer: str, *, at: float) -> None:
        """Say what became of it; the first answer stands."""


class MemoryRequests:
    """For tests, and for stores that need not outlive their process."""

    def __init__(self) -> None:
        self._rows: list[RequestRow] = []

    async def ask(self, execution_id: str, action: str, *, reason: str | None, at: float) -> int:
        number = len(self._rows) + 1
        self._rows.append(
            RequestRow(request_id=number, execution_id=execution_id, action=action, reason=reason, requested_at=at)
        )
        return number

    async def pending(self) -> list[RequestRow]:
        return [row for row in self._rows if row.answer is None]

    async def get(self, request_id: int) -> RequestRow | None:
        return self._rows[request_id - 1] if 0 < request_id <= len(self._rows) else None

    async def answer(self, request_id: int, answer: str, *, at: float) -> None:
        row = self._rows[request_id - 1]
        if row.answer is None:
            self._rows[request_id - 1] = msgspec.structs.replace(row, answer=answer, answered_at=at)
