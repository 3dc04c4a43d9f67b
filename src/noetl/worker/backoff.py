"""Backoff: how long to wait before asking again. Full jitter, so that a crowd does not come back as one."""

from __future__ import annotations

import random
from collections.abc import Callable

FIRST_S, LONGEST_S = 0.2, 1.0  # a server that is back has its workers back, and their work done, within 2 s


def delay_s(tries: int, retry_after: str | None = None, *, spread: Callable[[], float] = random.random) -> float:
    """Before the try after `tries` failed ones; what the server asks for (`Retry-After`) is the least."""
    most = min(LONGEST_S, FIRST_S * float(1 << min(tries, 16)))
    least = float(retry_after) if retry_after is not None and retry_after.isdigit() else 0.0
    return min(least, 60.0) + most * spread()
