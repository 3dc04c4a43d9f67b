"""Stops what a test process started for all of its tests.

That happens at the end of pytest's session, not of the process: pytest-xdist waits for a session as long as it takes,
but kills a process that has not ended ten seconds later, and on a busy machine its servers then stayed behind.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable

_stops: list[Callable[[], object]] = []


def stop_at_end(stop: Callable[[], object]) -> None:
    _stops.append(stop)
    atexit.register(stop)  # for a process that has no session, or is interrupted in it


def already_stopped(stop: Callable[[], object]) -> None:
    atexit.unregister(stop)
    if stop in _stops:
        _stops.remove(stop)


def stop_all() -> None:
    """The newest first: it may use what was started before it."""
    while _stops:
        stop = _stops.pop()
        atexit.unregister(stop)
        stop()
