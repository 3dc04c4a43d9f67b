"""Dispatch: the doorbell that wakes workers. It may be lost, doubled or late; it never carries state."""

from __future__ import annotations

from typing import Protocol


class Dispatch(Protocol):
    def ring(self, times: int = 1) -> None:
        """There may be work for this many workers."""

    async def wait(self) -> None:
        """Until it rings. If it rang while nobody waited, return at once."""
