"""Terms of leases: those of the server, unless a playbook or a step of it asks for its own (WRK-03)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from noetl.base.durations import seconds
from noetl.engine.plan import Plan
from noetl.events.orders import LeaseTerms

# Bounds of what a playbook may ask for, and of what a worker may ask for when it renews: neither may lock an order for
# ever, nor have leases so short that every heartbeat comes late.
LEAST_S, MOST_S = 0.5, 86_400.0
_BEATS = 6  # in the time of one lease, where nobody says how many


def terms_of(plan: Plan, step: str, usual: LeaseTerms) -> LeaseTerms:
    """`usual`, or those of `step.spec.lease: {ttl, heartbeat}`, else of the executor's spec, else of its limits (O-33).
    The heartbeat leaves room for two that are lost."""
    written = plan.lease(step)
    if written is None:
        return usual
    ttl_s = bounded(_seconds(written.get("ttl")) or usual.ttl_s)
    every_s = _seconds(written.get("heartbeat")) or ttl_s / _BEATS
    # A third: a lease must survive two heartbeats that are lost.
    return LeaseTerms(ttl_s=ttl_s, heartbeat_s=min(every_s, ttl_s / 3))


def bounded(ttl_s: float) -> float:
    return min(max(ttl_s, LEAST_S), MOST_S)


def _seconds(written: Any) -> float | None:
    # The checker refuses what is no duration. What comes here all the same, as from a net that an older program
    # compiled, has the usual terms: a claim must not fail over a setting.
    with suppress(ValueError, TypeError):
        return seconds(written) if written is not None else None
    return None
