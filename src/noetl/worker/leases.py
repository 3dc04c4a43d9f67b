"""Leases that a worker holds, as both its event loop and its heartbeat see them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Event, Lock

from noetl.records.orders import Terms

_USUAL = Terms()
_REMEMBERED = 10_000  # orders that an answer on its way could still name


class Leases:
    """Order ids with the epochs they are held under, and their terms. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._epochs: dict[str, int] = {}
        self._terms: dict[str, Terms] = {}  # those that are not the usual ones
        self._met: OrderedDict[tuple[str, int], None] = OrderedDict()
        self.sooner = Event()  # set when one came that may have to be prolonged sooner than the others
        self.hurry: Callable[[], None] | None = None  # called then, where no thread waits for it

    def meet(self, order_id: str, epoch: int) -> bool:
        """Whether it has come for the first time. One that is given again, since its answer seemed lost, may come
        twice: also after it was run and before the server has heard of it. It is run once."""
        with self._lock:
            if (order_id, epoch) in self._met:
                return False
            self._met[order_id, epoch] = None
            if len(self._met) > _REMEMBERED:
                self._met.popitem(last=False)
            return True

    def hold(self, order_id: str, epoch: int, terms: Terms = _USUAL) -> None:
        with self._lock:
            self._epochs[order_id] = epoch
            if terms != _USUAL:
                self._terms[order_id] = terms
            if self._terms:
                self.sooner.set()
                if self.hurry is not None:
                    self.hurry()

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
        with self._lock:
            is_usual = len(self._epochs) > len(self._terms) or not self._terms
            every_s = [terms.heartbeat_s for terms in self._terms.values()]
        return min([*every_s, usual_s] if is_usual else every_s)
