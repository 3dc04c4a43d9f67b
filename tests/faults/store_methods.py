"""The methods of a store that a test can make fail."""

from __future__ import annotations

METHODS = (
    "claimable",
    "commit",
    "due",
    "events",
    "execution",
    "held_by",
    "leased",
    "net",
    "next_due",
    "orders",
    "positions",
    "renew",
)
