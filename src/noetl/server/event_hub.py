"""The hub: tells live streams that something moved. It carries no events: a stream reads the log itself, from where it
stands, so a slow reader costs nobody anything and none is ever missed.

What this process commits is told at once. What others commit to the same store is found by asking it, every now and
then, what has moved since.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from secrets import token_hex

import msgspec

from noetl.base.errors import BackendError, Outage
from noetl.store.contract import Commit, ExecutionRow, MovedExecution, Store

_log = logging.getLogger(__name__)
_PRINTED = 1_000  # executions with live output of late
_REMEMBERED = 10_000  # changes that a stream of the whole system can be resumed over


class Change(msgspec.Struct, frozen=True):
    number: int
    execution_id: str


class Hub:
    def __init__(self, store: Store, *, poll_s: float = 1.0) -> None:
        self._store, self._poll_s = store, poll_s
        self._listeners: dict[str | None, set[asyncio.Event]] = {}  # None: those who want to hear of everything
        self._changed: dict[str, int] = {}  # by execution, the number of its latest change, oldest first
        self._seqs: dict[str, int] = {}
        self._rows: dict[str, ExecutionRow] = {}  # as this process has stored them, of those changed here of late
        self._printed: dict[str, int] = {}  # by execution, the number of its latest live output, oldest first
        self.output_number = 0
        self._forgotten = 0
        self._cursor: str | None = None
        self.number = 0
        self.is_closed = False  # whoever reads a live stream is to come back to another server, or later
        self.era = token_hex(4)  # numbers mean something within one life of this process only

    def stored(self, commits: Sequence[Commit]) -> None:
        """Committed here just now."""
        for commit in commits:
            row = commit.execution
            if self._note(row.execution_id, row.last_seq):
                self._rows[row.execution_id] = row

    def _note(self, execution_id: str, seq: int) -> bool:
        """Tell those who listen, if this is news."""
        # A poll of the store finds our own commits again, and may find them before `stored` is called.
        # The position says whether it is news.
        if self._seqs.get(execution_id, 0) >= seq:
            return False
        self._seqs[execution_id] = seq
        # Whoever committed this may be another server, so the row that was stored here is out of date.
        # `stored` puts the new one back.
        self._rows.pop(execution_id, None)
        self.number += 1
        # A dict keeps the order of insertion: taking the entry out first moves it to the end, as the latest change.
        self._changed.pop(execution_id, None)
        self._changed[execution_id] = self.number
        while len(self._changed) > _REMEMBERED:
            oldest = next(iter(self._changed))
            # Every number up to this one is incomplete from now on: a reader that resumes there is told to start over.
            self._forgotten = self._changed.pop(oldest)
            self._seqs.pop(oldest, None)
            self._rows.pop(oldest, None)
        for key in (execution_id, None):
            for listener in self._listeners.get(key, ()):
                listener.set()
        return True

    def note_output(self, execution_id: str) -> None:
        """A task of it has printed something that can be looked at here. Streams of everything say so; whoever does
        not hear it misses nothing but a hint."""
        self.output_number += 1
        self._printed.pop(execution_id, None)
        self._printed[execution_id] = self.output_number
        if len(self._printed) > _PRINTED:
            del self._printed[next(iter(self._printed))]
        for listener in self._listeners.get(None, ()):
            listener.set()

    def printed_since(self, number: int) -> list[str]:
        """Executions with live output past `number`, each once."""
        return [execution_id for execution_id, at in self._printed.items() if at > number]

    def close(self) -> None:
        """The server is about to stop: streams end."""
        self.is_closed = True
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.set()

    def since(self, number: int) -> list[Change] | None:
        """The executions changed past `number`, each once, the latest change last; None when that is not known."""
        if number < self._forgotten or number > self.number:
            return None
        found: list[Change] = []
        for execution_id in reversed(self._changed):
            if self._changed[execution_id] <= number:
                break
            found.append(Change(self._changed[execution_id], execution_id))
        return found[::-1]

    @contextmanager
    def listen(self, execution_id: str | None = None) -> Iterator[asyncio.Event]:
        """An event that is set whenever the execution, or any, may have moved. Who has heard it clears it."""
        # An event and no queue: however often it moved meanwhile, the stream reads the log once, from where it stands.
        heard = asyncio.Event()
        self._listeners.setdefault(execution_id, set()).add(heard)
        try:
            yield heard
        finally:
            listeners = self._listeners[execution_id]
            listeners.discard(heard)
            if not listeners:
                del self._listeners[execution_id]

    async def ended(self, execution_id: str, timeout_s: float) -> ExecutionRow | None:
        """The execution once it is over, or as it is when the time is; None where there is none."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        with self.listen(execution_id) as heard:
            known = self._rows.get(execution_id)  # whoever has just stored it need not ask the store
            while True:
                # Clear before looking: a change between the look and the wait would be lost otherwise.
                heard.clear()
                row = known or await self._store.execution(execution_id)
                left = until - loop.time()
                if row is None or row.finished_at is not None or left <= 0:
                    return row
                # Another server may end it without this process hearing of it at once, so the store is asked again
                # after `poll_s` even if nothing was heard.
                is_ours = await heard_within(heard, min(left, self._poll_s))
                known = self._rows.get(execution_id) if is_ours else None

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Look for what others do, for as long as the block lasts."""
        with suppress(BackendError):  # it will be asked again
            self._cursor = (await self._store.moved(None)).cursor
        task = asyncio.create_task(self._look_around())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _look_around(self) -> None:
        outage = Outage(_log, "changes by other servers were not looked for", "changes are looked for again")
        while True:
            await asyncio.sleep(self._poll_s)
            try:
                await self.note_moved()
                outage.worked()
            except BackendError as problem:
                outage.failed(problem)

    async def note_moved(self) -> None:
        """Note what others have moved since the last look. While nobody listens, only from where to go on is noted."""
        # Asking for positions costs the store a scan of what moved. While nobody listens, only the cursor is kept.
        is_heard = bool(self._listeners)
        moved = await self._store.moved(self._cursor if is_heard else None)
        if self._cursor is None:  # the first look: what was being listened to before it may have moved
            watched = [one for one in self._listeners if one is not None]
            moved = MovedExecution(moved.cursor, await self._store.positions(watched))
        elif self._listeners and not is_heard:
            return  # whoever began to listen meanwhile may have missed something: the next look begins where this did
        self._cursor = moved.cursor
        for execution_id, seq in moved.positions.items():
            self._note(execution_id, seq)


async def heard_within(heard: asyncio.Event, seconds: float) -> bool:
    """Whether it was set before the time was over."""
    try:
        async with asyncio.timeout(seconds):
            await heard.wait()
    except TimeoutError:
        return False
    return True
