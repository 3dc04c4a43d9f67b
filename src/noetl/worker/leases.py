"""The leases that a worker holds, and the heartbeat that renews them from a thread of its own."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from threading import Event, Lock, Thread

from noetl.base.clock import Clock, SystemClock, uptime_s
from noetl.base.crash_points import crash_point
from noetl.base.errors import BackendError
from noetl.events.orders import LeaseTerms, Order

_USUAL = LeaseTerms()
_REMEMBERED = 10_000  # received orders, to recognise one that a late answer repeats


class HeldLeases:
    """Order ids with the epochs they are held under, their terms, and when each lease expires. Thread-safe.

    `clock` is the server's: orders give the end of their leases by it. `monotonic` is the worker's own: it measures
    their age.
    """

    def __init__(self, clock: Clock | None = None, monotonic: Callable[[], float] = uptime_s) -> None:
        # Protects everything below: the heartbeat reads from its own thread what the event loop changes.
        self._lock = Lock()
        self._clock, self.now = clock or SystemClock(), monotonic
        self._epochs: dict[str, int] = {}
        self._ends: dict[str, float] = {}  # by order, when its lease expires, on the worker's own clock
        self._terms: dict[str, LeaseTerms] = {}  # by order, where they differ from the default
        # Orders that were received before, with their epochs, also those that have ended.
        self._met: OrderedDict[tuple[str, int], None] = OrderedDict()
        # Set when a lease was added that may have to be renewed sooner than the others: for a heartbeat in a thread,
        # and for one in the worker's event loop. Only that loop holds leases, so it may set its own event.
        self.sooner, self.sooner_here = Event(), asyncio.Event()

    def add_if_new(self, order_id: str, epoch: int) -> bool:
        """Whether the order is received for the first time under this epoch; it is remembered. The server repeats an
        order if its answer may have been lost, so it may arrive twice, even after it was run. It is run once."""
        with self._lock:
            # Remembered beyond the end of the order: the answer that repeats it may arrive after it was run.
            if (order_id, epoch) in self._met:
                return False
            self._met[order_id, epoch] = None
            if len(self._met) > _REMEMBERED:
                self._met.popitem(last=False)
            return True

    def receive(self, order: Order, left_s: float | None = None) -> None:
        """Hold the lease of a received order. `left_s` is how long it lasts from now on; by default until
        `order.lease_until`, by the server's clock. A lease that is held already does not change."""
        if left_s is None:
            left_s = order.lease_until - self._clock.now() if order.lease_until else order.terms.ttl_s
        self.hold(order.order_id, order.lease_epoch, order.terms, left_s=left_s)

    def hold(self, order_id: str, epoch: int, terms: LeaseTerms = _USUAL, *, left_s: float | None = None) -> None:
        with self._lock:
            known = self._epochs.get(order_id)
            if known is not None and known > epoch:
                return  # the order was received again meanwhile, under a later lease
            # Only for a new lease: a repeated answer says nothing new about how long this one lasts.
            if known != epoch:
                self._ends[order_id] = self.now() + (terms.ttl_s if left_s is None else left_s)
            self._epochs[order_id] = epoch
            if terms != _USUAL:
                self._terms[order_id] = terms
            if self._terms:
                self.sooner.set()
                self.sooner_here.set()

    def drop(self, order_id: str) -> None:
        with self._lock:
            self._epochs.pop(order_id, None)
            self._ends.pop(order_id, None)
            self._terms.pop(order_id, None)

    def renewed(self, leases: Mapping[str, int], asked_at: float) -> None:
        """Note that the server has renewed these. They last from `asked_at`, when it was asked: the answer may have
        taken long."""
        with self._lock:
            for order_id, epoch in leases.items():
                if self._epochs.get(order_id) == epoch:
                    end = asked_at + self._terms.get(order_id, _USUAL).ttl_s
                    # Answers may overtake each other; an older one must not shorten the lease.
                    self._ends[order_id] = max(self._ends[order_id], end)

    def is_replaced(self, order_id: str, epoch: int) -> bool:
        """Whether the order was received again, under a later lease."""
        with self._lock:
            return self._epochs.get(order_id, 0) > epoch

    def is_over(self, order_id: str, epoch: int) -> bool:
        """Whether this lease may have run out. Then no task begins under it before the server has renewed it."""
        with self._lock:
            # By the worker's monotonic clock: setting the wall clock must not make an expired lease look valid.
            return self._epochs.get(order_id) != epoch or self.now() >= self._ends[order_id]

    def epochs(self) -> dict[str, int]:
        """The epochs of all held leases, by order; a copy."""
        with self._lock:
            return dict(self._epochs)

    @property
    def terms(self) -> dict[str, LeaseTerms]:
        """By order, where they differ from the default; a copy."""
        with self._lock:
            return dict(self._terms)

    def ttls(self) -> dict[str, float]:
        """The durations of leases, by order, where they differ from the default."""
        return {order_id: terms.ttl_s for order_id, terms in self.terms.items()}

    def every_s(self, usual_s: float) -> float:
        """The shortest interval at which the held leases have to be renewed."""
        with self._lock:
            # Where all leases have terms of their own, the usual interval does not matter.
            is_usual = len(self._epochs) > len(self._terms) or not self._terms
            every_s = [terms.heartbeat_s for terms in self._terms.values()]
        return min([*every_s, usual_s] if is_usual else every_s)


# Heartbeat: renews leases from a thread of its own, over a connection of its own (reliability.md §3.3).
#
# A tool that blocks the event loop must not cost its worker the lease, so the heartbeat does not use the loop. An order
# that the server no longer counts as held is stopped. If the server cannot be reached for two thirds of a lease, all
# orders are stopped, before another worker may begin the same work.

LEASE_S = LeaseTerms().ttl_s
EVERY_S = LeaseTerms().heartbeat_s
# The last third is for stopping the tools: they must have ended before another worker may begin.
PATIENCE = 2 / 3  # the part of a lease for which a worker goes on without renewing it

Renew = Callable[[dict[str, int]], Collection[str]]  # leases -> those no longer held; BackendError: no server answers
Stop = Callable[[Collection[str]], None]


class Heartbeat(Thread):
    """`stop` is called with the orders to stop, in this thread; before it `cut_off` with their number, if it is because
    no server has answered."""

    def __init__(
        self,
        leases: HeldLeases,
        renew: Renew,
        stop: Stop,
        *,
        every_s: float = EVERY_S,
        lease_s: float = LEASE_S,
        monotonic: Callable[[], float] = time.monotonic,
        cut_off: Callable[[int], None] = lambda _: None,
    ) -> None:
        super().__init__(name="noetl-heartbeat", daemon=True)
        self._leases, self._renew, self._stop_orders, self._cut_off = leases, renew, stop, cut_off
        self._usual, self._monotonic = LeaseTerms(ttl_s=lease_s, heartbeat_s=every_s), monotonic
        self._over = Event()
        # By order and epoch, on the monotonic clock: until then the order may run without a renewal.
        self._safe_until: dict[tuple[str, int], float] = {}

    def run(self) -> None:
        beaten_at = self._monotonic()
        while not self._over.is_set():
            every_s = self._leases.every_s(self._usual.heartbeat_s)
            self._leases.sooner.wait(max(0.0, beaten_at + every_s - self._monotonic()))
            self._leases.sooner.clear()
            if not self._over.is_set() and self._monotonic() >= beaten_at + self._leases.every_s(every_s):
                beaten_at = self._monotonic()
                self.beat()

    def beat(self) -> None:
        """Renew all held leases once, and stop orders that are lost."""
        # Read before the request: a lease that is added during it is not counted as renewed.
        leases, asked_at, since = self._leases.epochs(), self._monotonic(), self._leases.now()
        own = self._leases.terms
        terms = {lease: own.get(lease[0], self._usual) for lease in leases.items()}
        self._safe_until = {
            # A lease that is new here was given at most one interval ago.
            lease: self._safe_until.get(lease, asked_at - its.heartbeat_s + its.ttl_s * PATIENCE)
            for lease, its in terms.items()
        }
        if not leases:
            return
        crash_point("worker.heartbeat")
        try:
            lost = set(self._renew(leases))
        except BackendError:
            now = self._monotonic()
            # Stop before the lease can end: the server may hand the order to another worker from then on.
            lost = {order_id for (order_id, _), until in self._safe_until.items() if now >= until}
            if lost:
                self._cut_off(len(lost))
        else:
            self._leases.renewed({one: epoch for one, epoch in leases.items() if one not in lost}, since)
            # From when it was asked, not from the answer: the server counts from somewhere in between.
            self._safe_until = {lease: asked_at + its.ttl_s * PATIENCE for lease, its in terms.items()}
        if lost:
            self._stop_orders(lost)

    def end(self) -> None:
        """End the heartbeat; returns once its thread has ended."""
        self._over.set()
        self._leases.sooner.set()
        if self.is_alive():
            self.join()
