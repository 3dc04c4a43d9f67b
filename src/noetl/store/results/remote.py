"""A result store over a network. It is written once, to be awaited; who may block asks it by a loop in
a thread of its own.

Values are named by the SHA-256 of their content (RES-02), so whoever comes second finds it there. While the store is
away, reading and writing are a BackendError: nothing is told of a value that nobody could ask for.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from noetl.base.errors import BackendError, ToolError
from noetl.events.outcomes import Reference
from noetl.store.results.files import referring

_Result = TypeVar("_Result")


class LoopThread:
    def __init__(self, name: str) -> None:
        self._name, self._lock = name, threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call(self, asked: Coroutine[Any, Any, _Result]) -> _Result:
        """What it comes to; blocks until then. Not from the thread itself."""
        return asyncio.run_coroutine_threadsafe(asked, self._running()).result()

    async def call_async(self, asked: Coroutine[Any, Any, _Result]) -> _Result:
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


# An event loop in a thread of its own, for drivers that only know how to be awaited: whoever may block asks them from
# any thread, whoever may not awaits them from any other loop. It begins when it is first needed.
_T = TypeVar("_T")
OLD_S = 3_600.0  # one that is older is touched when it is put again: whoever collects sees that it is about to be named


class RemoteResults(ABC):
    """What a backend has to say: `send` and `fetch`, and what retention asks."""

    store: str
    is_outside = True

    def __init__(self, url: str) -> None:
        self.url = url
        self._beside = LoopThread(f"results {self.store}")

    @abstractmethod
    async def send(self, body: bytes) -> None: ...

    @abstractmethod
    async def fetch(self, checksum: str) -> bytes: ...

    @abstractmethod
    async def send_file(self, file: Path) -> str: ...

    @abstractmethod
    async def fetch_file(self, checksum: str, into: Path) -> None: ...

    @abstractmethod
    async def listed(self, *, before: float) -> list[str]: ...

    @abstractmethod
    async def dropped(self, checksum: str, *, before: float) -> bool: ...

    def reference(self, value: Any, body: bytes) -> Reference:
        return referring(self.store, hashlib.sha256(body).hexdigest(), value, body)

    def _blocking(self, asked: Coroutine[Any, Any, _T]) -> _T:
        return self._beside.call(asked)

    def put(self, value: Any) -> Reference:
        body = msgspec.json.encode(value)
        self._blocking(self.send(body))
        return self.reference(value, body)

    def load(self, reference: Reference) -> Any:
        # by its content, not by the key: a reference may have come from a worker
        try:
            body = self.body(reference.checksum)
        except BackendError as problem:  # it is read in the middle of a template, whose task may be tried again
            raise ToolError("result.missing", str(problem), retryable=True) from problem
        return msgspec.json.decode(body)

    def body(self, checksum: str) -> bytes:
        return self._blocking(self.fetch(checksum))

    def table_file(self, checksum: str) -> None:
        return None  # it is on no disk of this machine

    def untouched(self, *, before: float) -> list[str]:
        return self._blocking(self.listed(before=before))

    def drop(self, checksum: str, *, before: float) -> bool:
        return self._blocking(self.dropped(checksum, before=before))

    def close(self) -> None:
        self._beside.close()


def first_line(problem: BaseException) -> str:
    """What follows is for who debugs the driver."""
    return (str(problem) or type(problem).__name__).partition("\n")[0]
