"""The event hub: notifies live streams that executions have changed. It transports no events: each stream reads the log
itself, from its own position. So a slow reader costs nothing, and no event is missed.

Commits of this process are notified at once. Commits of other processes are found by polling the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from secrets import token_hex

import msgspec

from noetl.base.errors import BackendError, Outage
from noetl.store.contract import Commit, ExecutionRow, MovedExecutions, Store

_log = logging.getLogger(__name__)
_PRINTED = 1_000  # executions with recent live output in memory
_REMEMBERED = 10_000  # changes in memory; a stream of all executions can resume within them


class Change(msgspec.Struct, frozen=True):
    number: int
    execution_id: str


class Hub:
    def __init__(self, store: Store, *, poll_s: float = 1.0) -> None:
        self._store, self._poll_s = store, poll_s
        self._listeners: dict[str | None, set[asyncio.Event]] = {}  # by execution; None: listeners to all
        self._changed: dict[str, int] = {}  # by execution, the number of its latest change, oldest first
        # by execution, the position of the newest notified event
        self._seqs: dict[str, int] = {}
        self._rows: dict[str, ExecutionRow] = {}  # rows of recent commits of this process
        self._printed: dict[str, int] = {}  # by execution, the number of its latest live output, oldest first
        self.output_number = 0
        # changes up to this number are incomplete
        self._forgotten = 0
        # the position from which the store is polled; None before the first poll
        self._cursor: str | None = None
        self.number = 0
        self.is_closed = False  # the server stops: streams end, and readers reconnect elsewhere or later
        self.era = token_hex(4)  # identifies this process: numbers are valid only within it

    def stored(self, commits: Sequence[Commit]) -> None:
        """Note commits of this process."""
        for commit in commits:
            row = commit.execution
            if self._note(row.execution_id, row.last_seq):
                self._rows[row.execution_id] = row

    def _note(self, execution_id: str, seq: int) -> bool:
        """Notify listeners if `seq` is new; returns whether it is."""
        # A poll of the store finds our own commits again, perhaps before `stored` is called for them. The position
        # shows whether the change is new.
        if self._seqs.get(execution_id, 0) >= seq:
            return False
        self._seqs[execution_id] = seq
        # Another server may have committed this, so the cached row is out of date. `stored` adds a new one.
        self._rows.pop(execution_id, None)
        self.number += 1
        # A dict keeps insertion order: removing the entry first moves it to the end, as the latest change.
        self._changed.pop(execution_id, None)
        self._changed[execution_id] = self.number
        while len(self._changed) > _REMEMBERED:
            oldest = next(iter(self._changed))
            # Numbers up to this one are incomplete from now on: a reader that resumes there gets a `reset`.
            self._forgotten = self._changed.pop(oldest)
            self._seqs.pop(oldest, None)
            self._rows.pop(oldest, None)
        for key in (execution_id, None):
            for listener in self._listeners.get(key, ()):
                listener.set()
        return True

    def note_output(self, execution_id: str) -> None:
        """Note that a task of the execution has printed something. Only streams of all executions are notified; a lost
        notification loses no output."""
        self.output_number += 1
        self._printed.pop(execution_id, None)
        self._printed[execution_id] = self.output_number
        if len(self._printed) > _PRINTED:
            del self._printed[next(iter(self._printed))]
        for listener in self._listeners.get(None, ()):
            listener.set()

    def printed_since(self, number: int) -> list[str]:
        """Executions with live output after `number`, each once."""
        return [execution_id for execution_id, at in self._printed.items() if at > number]

    def close(self) -> None:
        """End all streams, because the server is about to stop."""
        self.is_closed = True
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.set()

    def since(self, number: int) -> list[Change] | None:
        """The executions that changed after `number`, each once, the latest change last; None if that is unknown."""
        if number < self._forgotten or number > self.number:
            return None
        changes: list[Change] = []
        for execution_id in reversed(self._changed):
            if self._changed[execution_id] <= number:
                break
            changes.append(Change(self._changed[execution_id], execution_id))
        return changes[::-1]

    @contextmanager
    def listen(self, execution_id: str | None = None) -> Iterator[asyncio.Event]:
        """An event that is set whenever the execution, or any execution, may have changed. The listener clears it."""
        # An event, not a queue: after many changes the stream still reads the log only once.
        changed = asyncio.Event()
        self._listeners.setdefault(execution_id, set()).add(changed)
        try:
            yield changed
        finally:
            listeners = self._listeners[execution_id]
            listeners.discard(changed)
            if not listeners:
                del self._listeners[execution_id]

    async def wait_for_end(self, execution_id: str, timeout_s: float) -> ExecutionRow | None:
        """Wait for the end of an execution, at most `timeout_s`, and return its row; None for an unknown execution."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        with self.listen(execution_id) as changed:
            # A row that was just stored here needs no query.
            known = self._rows.get(execution_id)
            while True:
                # Clear before looking: a change between the look and the wait would be lost otherwise.
                changed.clear()
                row = known or await self._store.execution(execution_id)
                left = deadline - loop.time()
                if row is None or row.finished_at is not None or left <= 0:
                    return row
                # Another server may end the execution, so the store is read again after `poll_s` even without a
                # notification.
                is_ours = await is_set_within(changed, min(left, self._poll_s))
                known = self._rows.get(execution_id) if is_ours else None

    @asynccontextmanager
    async def polling(self) -> AsyncIterator[None]:
        """Poll the store for changes by other processes while the block runs."""
        # A failure is not fatal: the poll below tries again.
        with suppress(BackendError):
            self._cursor = (await self._store.moved(None)).cursor
        task = asyncio.create_task(self._poll())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _poll(self) -> None:
        outage = Outage(_log, "changes by other servers were not looked for", "changes are looked for again")
        while True:
            await asyncio.sleep(self._poll_s)
            try:
                await self.poll_store()
                outage.worked()
            except BackendError as problem:
                outage.failed(problem)

    async def poll_store(self) -> None:
        """Note changes by other processes since the last poll. Without listeners, only the position is updated."""
        # Positions cost the store a scan of all changes. Without listeners, only the cursor is read.
        is_heard = bool(self._listeners)
        moved = await self._store.moved(self._cursor if is_heard else None)
        # The first poll: executions with listeners may have changed before it.
        if self._cursor is None:
            watched = [execution_id for execution_id in self._listeners if execution_id is not None]
            moved = MovedExecutions(moved.cursor, await self._store.positions(watched))
        elif self._listeners and not is_heard:
            # A listener was added during the query and may have missed a change: poll again from the same position.
            return
        self._cursor = moved.cursor
        for execution_id, seq in moved.positions.items():
            self._note(execution_id, seq)


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event is set within `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
