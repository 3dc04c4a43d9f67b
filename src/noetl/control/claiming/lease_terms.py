"""Terms of leases: those of the server, unless a playbook or a step of it asks for its own (WRK-03)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from noetl.base.durations import seconds
from noetl.engine.plan import Plan
from noetl.events.orders import LeaseTerms

LEAST_S, MOST_S = 0.5, 86_400.0
_BEATS = 6  # in the time of one lease, where nobody says how many


def terms_of(plan: Plan, step: str, usual: LeaseTerms) -> LeaseTerms:
    """`usual`, or those of `step.spec.lease: {ttl, heartbeat}`, else of the executor's spec, else of its limits (O-33).
    The heartbeat leaves room for two that are lost."""
    executor = plan.net.executor
    written = plan.step(step).lease or executor.spec.get("lease") or executor.limits.get("lease")
    if not written:
        return usual
    ttl_s = bounded(_seconds(written.get("ttl")) or usual.ttl_s)
    every_s = _seconds(written.get("heartbeat")) or ttl_s / _BEATS
    return LeaseTerms(ttl_s=ttl_s, heartbeat_s=min(every_s, ttl_s / 3))


def bounded(ttl_s: float) -> float:
    return min(max(ttl_s, LEAST_S), MOST_S)


def _seconds(written: Any) -> float | None:
    with suppress(ValueError, TypeError):
        return seconds(written) if written is not None else None
    return None
