"""A worker in the same process that waits for work. What a batch makes ready is claimed for it in that very
batch, so that the start of an execution and its first claim are one commit instead of two (W4: two commits, not three).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from noetl.events.orders import Order


class OrderReceiver(Protocol):
    def give(self, orders: Sequence[Order]) -> None:
        """These are its own now. Never waits."""


class LocalWorker(OrderReceiver, Protocol):
    worker_id: str

    @property
    def free(self) -> int:
        """How many orders it would begin at once."""
