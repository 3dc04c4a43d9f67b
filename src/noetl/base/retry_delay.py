"""How long a client or a worker waits before it sends a failed request again."""

from __future__ import annotations

import random
from collections.abc import Callable

FIRST_S, LONGEST_S = 0.2, 1.0  # workers are back, and their work is done, within 2 s after a server is back


def delay_s(tries: int, retry_after: str | None = None, *, spread: Callable[[], float] = random.random) -> float:
    """The delay after `tries` failed requests, at least what the server asks for (`Retry-After`). It has full jitter,
    so that many workers do not come back at the same moment."""
    most = min(LONGEST_S, FIRST_S * float(1 << min(tries, 16)))
    least = float(retry_after) if retry_after is not None and retry_after.isdigit() else 0.0
    return min(least, 60.0) + most * spread()
