"""Heartbeat: prolongs leases from a thread of its own, over a connection of its own (reliability.md §3.3).

A tool that keeps the event loop busy must not cost its worker the lease, so the loop has no part in it. What turns out
to be somebody else's is stopped; so is everything once the server could not be told for two thirds of the lease, before
another worker may begin the same work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from threading import Event, Thread

from noetl.base.crash_points import crash_point
from noetl.base.errors import BackendError
from noetl.events.orders import LeaseTerms
from noetl.worker.leases import HeldLeases

LEASE_S = LeaseTerms().ttl_s
EVERY_S = LeaseTerms().heartbeat_s
# The last third is for stopping the tools: they must have ended before another worker may begin.
PATIENCE = 2 / 3  # of a lease: so long a worker goes on without being able to prolong it

Renew = Callable[[dict[str, int]], Collection[str]]  # leases -> those no longer held; BackendError: nobody there
Stop = Callable[[Collection[str]], None]


class Heartbeat(Thread):
    """`stop` is told which orders to stop, in this thread."""

    def __init__(
        self,
        leases: HeldLeases,
        renew: Renew,
        stop: Stop,
        *,
        every_s: float = EVERY_S,
        lease_s: float = LEASE_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(name="noetl-heartbeat", daemon=True)
        self._leases, self._renew, self._stop_orders = leases, renew, stop
        self._usual, self._monotonic = LeaseTerms(ttl_s=lease_s, heartbeat_s=every_s), monotonic
        self._over = Event()
        # By order and epoch, on the monotonic clock: until then the order may go on without a word from the server.
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
        """Prolong everything once."""
        # Read before the request: a lease that comes during it is not counted as renewed.
        leases, asked_at, since = self._leases.held(), self._monotonic(), self._leases.now()
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
        else:
            self._leases.renewed({one: epoch for one, epoch in leases.items() if one not in lost}, since)
            # From when it was asked, not from the answer: the server counts from somewhere in between.
            self._safe_until = {lease: asked_at + its.ttl_s * PATIENCE for lease, its in terms.items()}
        if lost:
            self._stop_orders(lost)

    def end(self) -> None:
        """No further beat; returns once the thread has ended."""
        self._over.set()
        self._leases.sooner.set()
        if self.is_alive():
            self.join()
