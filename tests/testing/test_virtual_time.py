"""Virtual time: what ends in real time is waited for."""

from __future__ import annotations

import asyncio
import threading

from noetl.testing.virtual_time import run_virtually


def test_the_clock_waits_for_a_thread_that_outlives_the_run() -> None:
    """From Python 3.12 on the wait has a limit, which virtual time would pass at once."""
    release, ended = threading.Event(), threading.Event()

    def work() -> None:
        release.wait(60)
        ended.set()

    async def begun() -> None:
        asyncio.get_running_loop().run_in_executor(None, work)
        threading.Timer(0.5, release.set).start()

    run_virtually(begun())

    assert ended.is_set()
