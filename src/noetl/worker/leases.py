"""Leases that a worker holds, as both its event loop and its heartbeat see them."""

from __future__ import annotations

from threading import Event, Lock

from noetl.records.orders import Terms

_USUAL = Terms()


class Leases:
    """Order ids with the epochs they are held under, and their terms. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._epochs: dict[str, int] = {}
        self._terms: dict[str, Terms] = {}  # those that are not the usual ones
        self.sooner = Event()  # set when one came that is to be prolonged sooner than usual

    def hold(self, order_id: str, epoch: int, terms: Terms = _USUAL) -> None:
        with self._lock:
            self._epochs[order_id] = epoch
            if terms != _USUAL:
                self._terms[order_id] = terms
                self.sooner.set()

    def drop(self, order_id: str) -> None:
        with self._lock:
            self._epochs.pop(order_id, None)
            self._terms.pop(order_id, None)

    def held(self) -> dict[str, int]:
        """As of this moment."""
        with self._lock:
            return dict(self._epochs)

    @property
    def terms(self) -> dict[str, Terms]:
        """By order, where they are not the usual ones."""
        with self._lock:
            return dict(self._terms)

    def ttls(self) -> dict[str, float]:
        """How long each lasts, where that is not as usual."""
        return {order_id: terms.ttl_s for order_id, terms in self.terms.items()}

    def every_s(self, usual_s: float) -> float:
        """How often they are to be prolonged, so that none of them is too late."""
        return min((terms.heartbeat_s for terms in self.terms.values()), default=usual_s)
