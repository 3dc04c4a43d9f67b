"""How tests wait for what another process does: they look again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

Found = TypeVar("Found")
_FIRST_S, _LONGEST_S, _SHARE = 0.02, 0.25, 0.1


def looks(within_s: float, what: str = "it did not happen in time") -> Iterator[None]:
    """One for each look, until time is up.

    Ever more seldom: a look asks a server, which costs both sides, and a test that waits for a lease to run out would
    look a thousand times. After ten seconds a quarter of a second more does not matter.
    """
    begun = time.monotonic()
    while (waited := time.monotonic() - begun) < within_s:
        yield
        time.sleep(min(max(waited * _SHARE, _FIRST_S), _LONGEST_S))
    raise AssertionError(what)


def until(look: Callable[[], Found | None], within_s: float = 110.0, what: str = "it did not happen in time") -> Found:
    for _ in looks(within_s, what):
        if found := look():
            return found
    raise AssertionError("unreachable")
