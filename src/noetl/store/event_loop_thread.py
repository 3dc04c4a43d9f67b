"""An event loop in a thread of its own, for drivers that only know how to be awaited: whoever may block asks them from
any thread, whoever may not awaits them from any other loop. It begins when it is first needed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class LoopThread:
    def __init__(self, name: str) -> None:
        self._name, self._lock = name, threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call(self, asked: Coroutine[Any, Any, _T]) -> _T:
        """What it comes to; blocks until then. Not from the thread itself."""
        return asyncio.run_coroutine_threadsafe(asked, self._running()).result()

    async def call_async(self, asked: Coroutine[Any, Any, _T]) -> _T:
        """The same, for one who has a loop to go on with."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked, self._running()))

    def _running(self) -> asyncio.AbstractEventLoop:
        # Several threads may ask first at the same moment.
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """End it; what is under way is cut off. It begins anew, should somebody ask."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.run_until_complete(_cut_off(asyncio.all_tasks(loop)))
    loop.close()


async def _cut_off(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
