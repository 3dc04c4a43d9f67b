"""Leases that a worker holds, as both its event loop and its heartbeat see them."""

from __future__ import annotations

from threading import Lock


class Leases:
    """Order ids with the epochs they are held under. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._epochs: dict[str, int] = {}

    def hold(self, order_id: str, epoch: int) -> None:
        with self._lock:
            self._epochs[order_id] = epoch

    def drop(self, order_id: str) -> None:
        with self._lock:
            self._epochs.pop(order_id, None)

    def held(self) -> dict[str, int]:
        """As of this moment."""
        with self._lock:
            return dict(self._epochs)
