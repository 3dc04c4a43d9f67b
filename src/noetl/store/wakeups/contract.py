"""The doorbell that wakes workers. It may be lost, doubled or late; it never carries state.

Whoever waits also looks now and then by itself, and whoever rings does it again while there is work, so that a bell
that is broken for a while costs a moment and nothing else (reliability.md §3.2).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

DEFAULT_POOL = "default"  # of orders that name no pool
EVERY_POOL = "*"  # for who waits: all of them


class Wakeups(Protocol):
    def notify_workers(self, times: int = 1, *, pool: str = DEFAULT_POOL) -> None:
        """There may be work for this many workers of a pool. Never waits, never fails."""

    async def wait(self, pools: Collection[str] | None = None, timeout: float | None = None) -> bool:
        """Until it rings for one of these pools (None or `*`: for any), or the time is over: then False. If it rang
        while nobody waited, return at once."""

    async def close(self) -> None: ...
