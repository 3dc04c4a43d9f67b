"""Moves the bodies of results to and from a remote result store, one transfer for each body however many ask for it,
and caches them."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from noetl.base.errors import ToolError
from noetl.store.contract import ResultStore

CACHE_BYTES = 128 << 20  # more than any single decision reads
# Far below the day for which retention spares what nobody names (GRACE_S).
_SENT_S = 600.0  # for so long nobody collects what was sent, by far
_GONE_S = 5.0  # for so long what was not there is not asked for again
_AT_A_TIME = 8
_PAUSE_S = 1.0  # after a failure, for those whom nobody waits for
_MOST_SENT = 10_000


class ResultTransfer:
    """Bodies by their checksums. Only for one event loop, and never from a thread."""

    def __init__(self, results: ResultStore) -> None:
        self._results = results
        self._bodies: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        # Checksums that the store has, with the moment on the monotonic clock. Only to save sending twice: the address
        # is the content, so that sending again is harmless.
        self._sent: OrderedDict[str, float] = OrderedDict()
        self._gone: dict[str, tuple[float, ToolError]] = {}
        self._under_way: dict[tuple[str, bool], asyncio.Task[None]] = {}  # by checksum, and whether it is sent
        self._failed_at = float("-inf")
        self._places = asyncio.Semaphore(_AT_A_TIME)

    # what is at hand

    def cached_body(self, checksum: str) -> bytes | None:
        body = self._bodies.get(checksum)
        if body is not None:
            self._bodies.move_to_end(checksum)
        return body

    def remember(self, checksum: str, body: bytes) -> None:
        self._size += len(body) - len(self._bodies.pop(checksum, b""))
        self._bodies[checksum] = body
        # At least one stays, however large: the decision that asked for it could never be made otherwise.
        while self._size > CACHE_BYTES and len(self._bodies) > 1:
            self._size -= len(self._bodies.popitem(last=False)[1])

    def is_sent(self, checksum: str) -> bool:
        # Not for ever: garbage collection may delete a body that no event names yet. It spares younger ones.
        return time.monotonic() - self._sent.get(checksum, float("-inf")) < _SENT_S

    def known_gone(self, checksum: str) -> ToolError | None:
        at, problem = self._gone.get(checksum, (0.0, None))
        if problem is not None and time.monotonic() - at < _GONE_S:
            return problem
        self._gone.pop(checksum, None)
        return None

    def has(self, unsent: Iterable[str], unread: Iterable[str]) -> bool:
        """Whether nothing of it would be lacking now."""
        known = (one in self._bodies or self.known_gone(one) is not None for one in unread)
        return all(map(self.is_sent, unsent)) and all(known)

    # what is brought

    async def transfer(self, unsent: dict[str, bytes], unread: Iterable[str]) -> None:
        """Return once the ones are stored and the others at hand, or known to be gone. BackendError while the store is
        away."""
        # Shielded: a caller that is cancelled must not stop a transfer that others wait for.
        if tasks := [asyncio.shield(task) for task in self._tasks(unsent, unread)]:
            for problem in await asyncio.gather(*tasks, return_exceptions=True):
                if problem is not None:
                    raise problem

    def begin(self, unsent: dict[str, bytes], unread: Iterable[str]) -> None:
        """The same, and nobody waits for it."""
        # Called at every batch while a store is away; without the pause each would start the same failing requests.
        if time.monotonic() - self._failed_at > _PAUSE_S:
            self._tasks(unsent, unread)

    def send(self, checksum: str, body: bytes) -> asyncio.Task[None]:
        return self._started_task((checksum, True), partial(self._send, checksum, body))

    def close(self) -> None:
        for task in self._under_way.values():
            task.cancel()

    def _tasks(self, unsent: dict[str, bytes], unread: Iterable[str]) -> list[asyncio.Task[None]]:
        sends = [self.send(one, body) for one, body in unsent.items() if not self.is_sent(one)]
        fetches = [
            self._started_task((one, False), partial(self._fetch, one)) for one in unread if one not in self._bodies
        ]
        return sends + fetches

    def _started_task(
        self, what: tuple[str, bool], make: Callable[[], Coroutine[Any, Any, None]]
    ) -> asyncio.Task[None]:
        task = self._under_way.get(what)
        if task is None:
            task = self._under_way[what] = asyncio.ensure_future(make())
            task.add_done_callback(lambda done: self._on_task_end(what, done))
        return task

    def _on_task_end(self, what: tuple[str, bool], task: asyncio.Task[None]) -> None:
        del self._under_way[what]
        if not task.cancelled() and task.exception() is not None:
            self._failed_at = time.monotonic()  # who waits hears of it; else it is tried again by who needs it

    async def _send(self, checksum: str, body: bytes) -> None:
        async with self._places:
            await self._results.send(body)
        self._sent[checksum] = time.monotonic()
        while len(self._sent) > _MOST_SENT:
            self._sent.popitem(last=False)

    async def _fetch(self, checksum: str) -> None:
        try:
            async with self._places:
                self.remember(checksum, await self._results.fetch(checksum))
        except ToolError as problem:
            # Remembered, so that the decision that is made again finds an answer instead of asking for ever.
            self._gone[checksum] = time.monotonic(), problem
