"""Whether a process lives, and waiting until it does not: it may end at any moment, also while it is looked at."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

LONGEST_S = 60.0


def is_alive(pid: int) -> bool:
    """A zombie process is not alive."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def gone(pid: int) -> bool:
    """Whether it ended within a time that is long on any machine."""
    end = time.monotonic() + LONGEST_S
    while is_alive(pid):
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.01)
    return True
