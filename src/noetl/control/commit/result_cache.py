"""Result cache: large results for deciding, which is synchronous and cannot wait for a network (RES-01, RES-06).

`keep` returns the reference of a value at once, since it is the hash of the content, and notes that the value has to be
sent. `load` of a value that is not in memory notes that it has to be fetched, and returns None in its place. After the
decision `check` raises ResultNotLoadedError if anything was noted, and the decision is thrown away. The group commit
sends and fetches outside of any batch, so that other decisions do not wait, and decides again. So a value is always
stored before the event that refers to it.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from noetl.base.errors import BackendError, ToolError
from noetl.events.large_values import Load
from noetl.events.outcomes import Reference
from noetl.store.contract import ResultStore
from noetl.store.results.files import referring, table_reference

# Each try may discover one more reference inside a value that was just fetched.
_TRIES = 30
_T = TypeVar("_T")


class ResultNotLoadedError(BackendError):
    """Values have to be sent or fetched first; then decide again."""

    def __init__(self, transfer: ResultTransfer, unsent: dict[str, bytes], unread: set[str]) -> None:
        super().__init__("stored results have to be brought first, and were asked for too often")
        self._transfer, self._unsent, self._unread = transfer, unsent, unread

    async def fetch(self) -> None:
        """BackendError while the store is away."""
        await self._transfer.transfer(self._unsent, self._unread)

    def begin(self) -> None:
        """The same, without waiting for it."""
        self._transfer.begin(self._unsent, self._unread)

    @property
    def is_over(self) -> bool:
        return self._transfer.has(self._unsent, self._unread)


class ResultCache:
    """For one event loop, never called from a thread. Results in local files are read at once up to `near_bytes`; a
    larger one is fetched like one in a remote store."""

    def __init__(self, results: ResultStore, near_bytes: int = sys.maxsize) -> None:
        self._results = results
        # -1: every size is far, also an empty value.
        self._near_bytes = -1 if results.is_outside else near_bytes
        self._transfer = ResultTransfer(results)
        # Noted since the last `check`: bodies to send before the decision may be stored, and checksums to fetch before
        # it can be made.
        self._unsent: dict[str, bytes] = {}
        self._unread: set[str] = set()
        self._owed: dict[str, bytes] = {}  # values that the worker in this process keeps, not sent yet

    # in the middle of a decision

    def is_far(self, size: int) -> bool:
        """Whether reading or writing so many bytes takes long."""
        return size > self._near_bytes

    def keep(self, value: Any) -> Reference:
        found = self._reference_of(value)
        if isinstance(found, Reference):
            return found
        reference, body = found
        if not self._transfer.is_sent(reference.checksum):
            self._unsent[reference.checksum] = body
        return reference

    def load(self, reference: Reference) -> Any:
        value = self._load_encoded(reference)
        return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value

    def _load_encoded(self, reference: Reference) -> Any:
        if not self.is_far(reference.size):
            return self._results.load(reference)
        body = self._transfer.cached_body(reference.checksum)
        if body is not None:
            return msgspec.Raw(body)
        if (gone := self._transfer.known_gone(reference.checksum)) is not None:
            raise ToolError(gone.kind, gone.message)
        # None stands in for the value. `check` discards the decision, so no caller sees it.
        self._unread.add(reference.checksum)
        return None

    def check(self) -> None:
        """ResultNotLoadedError if a value was missing since the last check."""
        if self._unsent or self._unread:
            unsent, self._unsent = self._unsent, {}
            unread, self._unread = self._unread, set()
            raise ResultNotLoadedError(self._transfer, unsent, unread)

    async def read(self, look: Callable[[Load], _T], *, encoded: bool = False) -> _T:
        """The result of `look`, repeated until every value that it reads is in memory. With `encoded`, one that is far
        is a `msgspec.Raw`, as it is stored: decoding it would hold up the event loop, in a thread too."""
        load = self._load_encoded if encoded else self.load
        for _ in range(_TRIES):
            try:
                try:
                    found = look(load)
                # Also when `look` raised: perhaps because it was given None for a value that is not here.
                finally:
                    self.check()
                return found
            except ResultNotLoadedError as problem:
                away = problem
            await away.fetch()
        raise away

    # for a worker in the same process, which can wait between its tasks only

    def send_soon(self, value: Any) -> Reference:
        """Begin to store a value; `settled` waits for it."""
        found = self._reference_of(value)
        if isinstance(found, Reference):
            return found
        reference, body = found
        if not self._transfer.is_sent(reference.checksum):
            self._owed[reference.checksum] = body
            self._transfer.send(reference.checksum, body)
        return reference

    async def settled(self, what: Any) -> None:
        """Return once every value that `what` names is stored. BackendError while that fails; it may be asked again."""
        self._owed = {one: body for one, body in self._owed.items() if not self._transfer.is_sent(one)}
        if self._owed:
            # Only the values that this report names: another task may still be uploading its own.
            text = msgspec.json.encode(what).decode()
            await self._transfer.transfer({one: body for one, body in self._owed.items() if one in text}, ())

    def load_now(self, reference: Reference) -> Any:
        """A value from memory, else by a blocking read. The values that an order refers to are fetched before it
        runs."""
        body = self._transfer.cached_body(reference.checksum)
        return self._results.load(reference) if body is None else msgspec.json.decode(body)

    async def fetch(self, references: Iterable[Reference]) -> None:
        """Fetch these into memory. Errors are left to the reader of a value that is missing."""
        with suppress(BackendError):
            await self._transfer.transfer({}, [one.checksum for one in references if self.is_far(one.size)])

    async def store_table(self, file: Path) -> Reference:
        """Store a table at once, past the cache: no decision reads one."""
        size = file.stat().st_size
        return table_reference(self._results.store, await self._results.send_file(file), size)

    async def fetch_table(self, reference: Reference, into: Path) -> None:
        await self._results.fetch_file(reference.checksum, into)

    def close(self) -> None:
        self._transfer.close()

    def _reference_of(self, value: Any) -> Reference | tuple[Reference, bytes]:
        """The reference of a value that was stored at once; otherwise with the body that has to be sent."""
        if self._near_bytes == sys.maxsize:
            return self._results.put(value)
        body = msgspec.json.encode(value)
        if not self.is_far(len(body)):
            return self._results.put(value)
        reference = referring(self._results.store, hashlib.sha256(body).hexdigest(), value, body)
        self._transfer.remember(reference.checksum, body)
        return reference, body


# Moves the bodies of results to and from a remote result store, one transfer for each body however many ask for it,
# and caches them.
CACHE_BYTES = 128 << 20  # more than any single decision reads
# How long a sent value counts as stored. Far below the day for which retention keeps values without a reference.
_SENT_S = 600.0
_GONE_S = 5.0  # before a missing value is asked for again
_AT_A_TIME = 8
_PAUSE_S = 1.0  # after a failure, before `begin` starts transfers again
_MOST_SENT = 10_000


class ResultTransfer:
    """Bodies of values by their checksums. For one event loop, never called from a thread."""

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

    # in memory

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
        # Not forever: garbage collection may delete a body that no event names yet. It spares younger ones.
        return time.monotonic() - self._sent.get(checksum, float("-inf")) < _SENT_S

    def known_gone(self, checksum: str) -> ToolError | None:
        at, problem = self._gone.get(checksum, (0.0, None))
        if problem is not None and time.monotonic() - at < _GONE_S:
            return problem
        self._gone.pop(checksum, None)
        return None

    def has(self, unsent: Iterable[str], unread: Iterable[str]) -> bool:
        """Whether all of these are sent, and fetched or known to be gone."""
        known = (one in self._bodies or self.known_gone(one) is not None for one in unread)
        return all(map(self.is_sent, unsent)) and all(known)

    # transfers

    async def transfer(self, unsent: dict[str, bytes], unread: Iterable[str]) -> None:
        """Send and fetch; return once all are stored, and in memory or known to be gone. BackendError while the store
        cannot be reached."""
        # Shielded: a caller that is cancelled must not stop a transfer that others wait for.
        if tasks := [asyncio.shield(task) for task in self._tasks(unsent, unread)]:
            for problem in await asyncio.gather(*tasks, return_exceptions=True):
                if problem is not None:
                    raise problem

    def begin(self, unsent: dict[str, bytes], unread: Iterable[str]) -> None:
        """The same, without waiting for it."""
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
            # `transfer` raises the error. After `begin` it is not raised, and the next decision tries again.
            self._failed_at = time.monotonic()

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
            # Remembered, so that the decision that is made again finds an answer instead of asking forever.
            self._gone[checksum] = time.monotonic(), problem
