"""Crash points: named places where a test may have this process killed, and nothing else happens (reliability.md §4.2).

`NOETL_CRASH_AT=name`, `name:3` for the third pass, `name=about` for passes that concern one thing alone, as a step.
`NOETL_CRASH_VICTIM` is the id of another process that is killed there instead, the database's or the broker's;
`NOETL_CRASH_BY=STOP` names another signal than KILL.
Off, which is what it is everywhere but in tests, a pass is one call of a function that does nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

VARIABLE, VICTIM, BY = "NOETL_CRASH_AT", "NOETL_CRASH_VICTIM", "NOETL_CRASH_BY"

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
TRIGGER_POINTS = ("trigger.started",)
WORKER_POINTS = (
    "worker.claimed",
    "worker.before_tool",
    "worker.after_effect",
    "worker.object_stored",
    "worker.reported",
    "worker.heartbeat",
)
STORE_POINTS = (
    "migration.within",
    "packing.within",
    "retention.within",
    "retention.between",
    "retention.collecting",
    "rebuild.within",
)

Pass = Callable[..., None]


def _off(name: str, about: str = "") -> None:
    """No crash is requested."""


def pass_for(wanted: str | None, victim: str | None = None, by: str | None = None) -> Pass:
    """The function that is called at every crash point. ValueError for one that there is not."""
    if not wanted:
        return _off
    place, _, count = wanted.partition(":")
    name, _, about = place.partition("=")
    if name not in (*SERVER_POINTS, *TRIGGER_POINTS, *WORKER_POINTS, *STORE_POINTS):
        raise ValueError(f'{VARIABLE}: there is no crash point "{name}"')
    left, how = int(count or 1), signal.Signals[f"SIG{by or 'KILL'}"]

    def at(passed: str, its: str = "") -> None:
        nonlocal left
        if passed == name and about in ("", its):
            left -= 1
            if left == 0:
                os.kill(int(victim or os.getpid()), how)

    return at


crash_point: Pass = pass_for(os.environ.get(VARIABLE), os.environ.get(VICTIM), os.environ.get(BY))
