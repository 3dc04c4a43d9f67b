"""The wake-ups of a remote worker: it polls while a slot waits, and not after it was closed (CLI-01)."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from noetl.worker.remote_control_plane import RemoteControlPlane
from noetl.worker.remote_worker import WakeupPoll


class Silent:
    """An office that never has an order."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def poll(self, capacity: int) -> int:
        self.asked.append(capacity)
        await asyncio.Event().wait()
        return 0


async def test_a_slot_that_becomes_idle_during_shutdown_makes_no_poll() -> None:
    """What the server answered to that would be claimed, and run by nobody until its lease ends."""
    control_plane = Silent()
    wakeups = WakeupPoll(cast("RemoteControlPlane", cast("Any", control_plane)))
    first = asyncio.ensure_future(wakeups.wait())
    while not control_plane.asked:
        await asyncio.sleep(0)

    await wakeups.close()
    late = asyncio.ensure_future(wakeups.wait())
    for _ in range(5):
        await asyncio.sleep(0)
    wakeups.notify_workers(2)

    assert (await first, await late) == (True, True)
    assert control_plane.asked == [1]
