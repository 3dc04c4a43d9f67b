"""Leases that a worker holds: how old each is by the worker's own clock, and what may begin under it (WRK-03)."""

from __future__ import annotations

import pytest

from noetl.base.clock import ManualClock
from noetl.events.orders import LeaseTerms
from noetl.worker.leases import HeldLeases
from tests.worker.orders import an_order

TERMS = LeaseTerms(ttl_s=30.0, heartbeat_s=5.0)


class Watch:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.req("WRK-03")
def test_a_lease_is_over_when_its_time_has_passed_on_the_workers_own_clock() -> None:
    watch = Watch()
    leases = HeldLeases(monotonic=watch)
    leases.hold("o1", 1, TERMS)

    watch.now += 29.9
    assert not leases.is_over("o1", 1)
    watch.now += 0.1
    assert leases.is_over("o1", 1)
    assert leases.is_over("o1", 2), "another epoch"


@pytest.mark.req("WRK-03")
def test_what_is_left_of_a_lease_is_told_by_the_order_and_not_by_when_it_came() -> None:
    """The answer may have waited in a socket while the worker was stopped."""
    watch, clock = Watch(), ManualClock()
    leases = HeldLeases(clock, watch)

    leases.receive(an_order("a", order_id="o1", lease_until=clock.now() - 1.0))
    leases.receive(an_order("a", order_id="o2", lease_until=clock.now() + 10.0))

    assert leases.is_over("o1", 1)
    assert not leases.is_over("o2", 1)
    watch.now += 10.0
    assert leases.is_over("o2", 1)


@pytest.mark.req("WRK-03")
def test_a_lease_is_prolonged_from_when_the_server_was_asked() -> None:
    watch = Watch()
    leases = HeldLeases(monotonic=watch)
    leases.hold("o1", 1, TERMS)
    asked_at = watch.now + 5.0
    watch.now += 40.0  # the worker was stopped before it saw the answer

    leases.renewed({"o1": 1, "gone": 1}, asked_at)

    assert leases.is_over("o1", 1)
    leases.renewed({"o1": 1}, watch.now)
    assert not leases.is_over("o1", 1)


def test_holding_the_same_lease_again_does_not_prolong_it() -> None:
    watch = Watch()
    leases = HeldLeases(monotonic=watch)
    leases.hold("o1", 1, TERMS)
    watch.now += 30.0

    leases.hold("o1", 1, TERMS)
    assert leases.is_over("o1", 1)
    leases.hold("o1", 2, TERMS)
    assert not leases.is_over("o1", 2)
