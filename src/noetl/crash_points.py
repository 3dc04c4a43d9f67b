"""Crash points: named places where a test may have this process killed, and nothing else happens (RELIABILITY 4.2).

`NOETL_CRASH_AT=name`, `name:3` for the third pass, `name=about` for passes that concern one thing alone, as a step.
Off, which is what it is everywhere but in tests, a pass is one call of a function that does nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

VARIABLE = "NOETL_CRASH_AT"

SERVER_POINTS = (
    "start.before_commit",
    "start.after_commit",
    "append.before",
    "append.locked",
    "append.after",
    "ring.before",
    "ring.after",
    "claim.before_reply",
    "turn.before_reply",
    "alarm.before",
    "alarm.after",
    "cancel.before",
    "cancel.after",
)
WORKER_POINTS = (
    "worker.claimed",
    "worker.before_tool",
    "worker.after_effect",
    "worker.object_stored",
    "worker.reported",
    "worker.heartbeat",
)

Pass = Callable[..., None]


def _off(name: str, about: str = "") -> None:
    """Nobody wants anything here."""


def pass_for(wanted: str | None) -> Pass:
    """The function that is called at every crash point. ValueError for one that there is not."""
    if not wanted:
        return _off
    place, _, count = wanted.partition(":")
    name, _, about = place.partition("=")
    if name not in (*SERVER_POINTS, *WORKER_POINTS):
        raise ValueError(f'{VARIABLE}: there is no crash point "{name}"')
    left = int(count or 1)

    def at(passed: str, its: str = "") -> None:
        nonlocal left
        if passed == name and about in ("", its):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return at


crash_point: Pass = pass_for(os.environ.get(VARIABLE))
