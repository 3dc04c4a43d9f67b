"""Quotas: how much of the servers one subject may use at a time, so that nobody takes them from everybody else. Also
what the servers on one store have reserved of them.

Executions, starts and stored bytes are counted over all servers of a store: each reserves a part of what is left, uses
it up and reserves more (`SharedUsage`). Streams are counted by each server for itself. A subject is whom a token was
made for, however many tokens that are. What workers do counts for nobody: it is the work of those who started it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from math import ceil
from pathlib import Path
from secrets import token_hex

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import BackendError, Outage
from noetl.base.settings import default_db
from noetl.server.configuration import MIB, Quotas
from noetl.server.problem_details import ProblemDetails
from noetl.store.contract import Commit, ResultStore, Store
from noetl.store.installation import KeyValue, KeyValues
from noetl.store.open_store import MEMORY, is_database
from noetl.store.results.files import FileResults
from noetl.store.row_codecs import payload_bodies

_log = logging.getLogger(__name__)
_MINUTE_S = 60.0
_DAY_S = 86_400.0
_LOOK_EVERY_S = 5.0
_SHARE_EVERY_S = 2.0
_PART = 10  # of what is left of a quota, a server reserves so small a part at a time
_ASKED_AT_ONCE = 1_000  # executions
KIND = "usage"
FRESH_S = 60.0  # a server writes its row at least three times as often


class SubjectUsage(msgspec.Struct):
    """Of one subject at this server. What is reserved may be used without asking the store."""

    open: int = 0
    open_reserved: int = 0
    starts: int = 0
    starts_reserved: int = 0
    stored: int = 0
    stored_elsewhere: int = 0  # as of the last look
    is_busy: bool = False  # something was started since its reservations were last looked at


class Usage:
    """What subjects use of one server. `free_bytes` gives what is left where the store lies."""

    def __init__(
        self,
        quotas: Quotas,
        clock: Clock,
        shared: SharedUsage,
        free_bytes: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._quotas, self._clock, self._free_bytes, self._shared = quotas, clock, free_bytes, shared
        self._owners: dict[str, str] = {}  # open executions that were started here
        self._starting: set[str] = set()  # those of them that may not be stored yet
        self.subjects: dict[str, SubjectUsage] = {}
        self.streams: Counter[str] = Counter()
        self._minute, self._day = self._periods()
        # One reservation at a time: requests that find their share used up would else each make a new one.
        self._reserving = asyncio.Lock()
        self._looked_at = float("-inf")
        self._free: int | None = None

    async def check_start(self, subject: str) -> None:
        """Problem 429 for a subject that has used up what is its own, 503 while there is no room on the disk. Else it
        is counted."""
        self._check_disk()
        self._turn_periods()
        usage = self.subjects.setdefault(subject, SubjectUsage())
        usage.is_busy = True
        # The common case takes no lock and asks no store: a reservation covers many starts.
        if not self._is_reserved(usage):
            async with self._reserving:
                while not self._is_reserved(usage):
                    await self._reserve(subject, usage)
        usage.open += 1
        usage.starts += 1

    @asynccontextmanager
    async def starting(self, execution_id: str, subject: str) -> AsyncIterator[None]:
        """For as long as it is being started; it counts from then on until it ends, or if it could not be started."""
        await self.check_start(subject)
        self._owners[execution_id] = subject
        self._starting.add(execution_id)
        try:
            yield
        # It may have been stored and have ended all the same; then `count_commits` has closed it already.
        except BaseException:
            if execution_id in self._owners:
                self._close(execution_id, subject)
            raise
        finally:
            self._starting.discard(execution_id)

    def count_commits(self, commits: Sequence[Commit]) -> None:
        """Of every commit: what it stores is counted, and what has ended is open no longer."""
        for commit in commits:
            execution_id = commit.execution.execution_id
            if (subject := self._owners.get(execution_id)) is None:
                continue
            self._turn_periods()
            self.subjects[subject].stored += sum(map(len, payload_bodies(commit)))
            if commit.execution.finished_at is not None:
                self._close(execution_id, subject)

    def stream(self, subject: str) -> Callable[[int], None]:
        """Counts the streams of a subject; Problem 429 where it has enough of them."""
        if self.streams[subject] >= self._quotas.streams:
            raise _used_up(f"you read {self._quotas.streams} streams already", 5)

        def count(number: int) -> None:
            self.streams[subject] += number
            if not self.streams[subject]:
                del self.streams[subject]

        return count

    async def share(self, store: Store) -> None:
        """Tell the other servers what is used here, and give back what was reserved in vain."""
        others = await self._shared.others()
        if others:  # they may have ended what was started here
            await self._close_ended(store)
        async with self._reserving:
            self._turn_periods()
            for subject, usage in list(self.subjects.items()):
                usage.stored_elsewhere = self._used_elsewhere(subject, others).stored
                self._give_back(usage)
                if not (usage.is_busy or usage.open or usage.starts or usage.stored):
                    del self.subjects[subject]
                usage.is_busy = False
            await self._shared.write(self._row())

    async def serve(self, store: Store) -> None:
        outage = Outage(_log, "quotas are not shared with other servers", "quotas are shared with other servers again")
        while True:
            await asyncio.sleep(_SHARE_EVERY_S)
            if not self.subjects:
                continue
            try:
                await self.share(store)
                outage.worked()
            except BackendError as problem:
                outage.failed(problem)

    async def sweep(self) -> int:
        """Remove the rows of servers that are gone."""
        return await self._shared.sweep()

    def _is_reserved(self, usage: SubjectUsage) -> bool:
        has_room = usage.open < usage.open_reserved and usage.starts < usage.starts_reserved
        return has_room and usage.stored + usage.stored_elsewhere < self._quotas.stored_bytes

    async def _reserve(self, subject: str, usage: SubjectUsage) -> None:
        """Reserve a part of what is left, at least one place; Problem 429 where nothing is. Nothing of it is used
        before the reservation is stored and those of others were read after that."""
        quotas, minute = self._quotas, self._minute
        before = self._used_elsewhere(subject, await self._shared.others())
        self._check_left(usage, before)
        most_open = usage.open + _part(quotas.open_executions - before.open - usage.open)
        most_starts = usage.starts + _part(quotas.starts_per_minute - before.starts - usage.starts)
        row = self._row()
        row.subjects[subject] = ReservedUsage(open=most_open, starts=most_starts, stored=usage.stored)
        # Write first, then read what others reserve: of two servers that do at the same moment, at least one sees the
        # other, so that together they never exceed the quota.
        await self._shared.write(row)
        after = self._used_elsewhere(subject, await self._shared.others())
        self._turn_periods()
        # A reservation that was made for the minute before covers nothing now.
        if minute == self._minute:
            usage.open_reserved = max(usage.open, min(most_open, quotas.open_executions - after.open))
            usage.starts_reserved = max(usage.starts, min(most_starts, quotas.starts_per_minute - after.starts))
        usage.stored_elsewhere = after.stored
        if (usage.open_reserved, usage.starts_reserved) != (most_open, most_starts):
            await self._shared.write(self._row())  # another server has reserved at the same moment
            self._check_left(usage, after)

    def _give_back(self, usage: SubjectUsage) -> None:
        """Keep reservations only where they are being used up, and a part of the quota at most."""
        # A spare reservation saves the next start a round trip to the store, but it is missing elsewhere.
        spare_open = self._quotas.open_executions // _PART if usage.is_busy else 0
        spare_starts = self._quotas.starts_per_minute // _PART if usage.is_busy else 0
        usage.open_reserved = min(usage.open_reserved, usage.open + spare_open)
        usage.starts_reserved = min(usage.starts_reserved, usage.starts + spare_starts)

    def _check_left(self, usage: SubjectUsage, elsewhere: ReservedUsage) -> None:
        quotas = self._quotas
        if usage.open + elsewhere.open >= quotas.open_executions:
            raise _used_up(f"{quotas.open_executions} of your executions are open", 30)
        if usage.stored + elsewhere.stored >= quotas.stored_bytes:
            raise _used_up(f"your executions have stored {quotas.stored_bytes} bytes today", 3_600)
        if usage.starts + elsewhere.starts >= quotas.starts_per_minute:
            wait_s = _MINUTE_S - self._clock.now() % _MINUTE_S
            raise _used_up(f"you have started {quotas.starts_per_minute} executions within this minute", wait_s)

    def _used_elsewhere(self, subject: str, others: Iterable[ServerUsage]) -> ReservedUsage:
        used = ReservedUsage()
        for other in others:
            if (reserved := other.subjects.get(subject)) is not None:
                used.open += reserved.open
                used.starts += reserved.starts if other.minute == self._minute else 0
                used.stored += reserved.stored if other.day == self._day else 0
        return used

    def _row(self) -> ServerUsage:
        subjects = {
            subject: ReservedUsage(open=one.open_reserved, starts=one.starts_reserved, stored=one.stored)
            for subject, one in self.subjects.items()
        }
        return ServerUsage(minute=self._minute, day=self._day, subjects=subjects)

    async def _close_ended(self, store: Store) -> None:
        # One that is being started is not stored yet. The store would call it unknown, and it would be taken for ended.
        stored = [one for one in self._owners if one not in self._starting]
        for first in range(0, len(stored), _ASKED_AT_ONCE):
            some = stored[first : first + _ASKED_AT_ONCE]
            still_open = await store.open_among(some)
            for execution_id in some:
                if execution_id not in still_open and (subject := self._owners.get(execution_id)) is not None:
                    self._close(execution_id, subject)

    def _close(self, execution_id: str, subject: str) -> None:
        del self._owners[execution_id]
        self.subjects[subject].open -= 1

    def _periods(self) -> tuple[int, int]:
        now = self._clock.now()
        return int(now // _MINUTE_S), int(now // _DAY_S)

    def _turn_periods(self) -> None:
        minute, day = self._periods()
        if minute != self._minute:
            self._minute = minute
            for usage in self.subjects.values():
                usage.starts = usage.starts_reserved = 0
        if day != self._day:
            self._day = day
            for usage in self.subjects.values():
                usage.stored = 0

    def _check_disk(self) -> None:
        if time.monotonic() - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at, self._free = time.monotonic(), self._free_bytes()
        if self._free is not None and self._free < self._quotas.free_bytes:
            detail = f"less than {self._quotas.free_bytes // MIB} MiB are free on the server's disk: nothing is started"
            raise ProblemDetails(503, detail, kind="disk", headers={"retry-after": "60"})


def _part(left: int) -> int:
    return max(1, left // _PART)


def _used_up(what: str, wait_s: float) -> ProblemDetails:
    seconds = max(1, ceil(wait_s))
    detail = f"{what}, which is the quota here; come again in {seconds} s"
    return ProblemDetails(429, detail, kind="quota", headers={"retry-after": str(seconds)})


def free_bytes_of(db: str | None, results: ResultStore) -> int | None:
    """What is left on the disks of a store and its results; None where it lies in memory or elsewhere."""
    places = [] if db == MEMORY or is_database(db) else [Path(db).parent if db is not None else default_db().parent]
    if isinstance(results, FileResults):
        places.append(results.folder)
    found = []
    for place in places:
        while not place.exists() and place != place.parent:
            place = place.parent
        try:
            found.append(shutil.disk_usage(os.fspath(place)).free)
        except OSError:
            continue
    return min(found, default=None)


# Shared usage: what the servers on one store have reserved of each subject's quotas.
#
# A server writes what it reserves into a row of its own and then reads the rows of the others. Whoever writes before
# reading cannot miss a reservation that was made earlier, so no two servers use the same last place of a quota, and no
# lock is needed. The row of a server that has written nothing for a while counts no longer.


class ReservedUsage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a server has of one subject's quotas: executions that are or may become open, starts within the minute,
    bytes stored within the day."""

    open: int = 0
    starts: int = 0
    stored: int = 0


class ServerUsage(msgspec.Struct, kw_only=True):
    """The row of one server. `minute` and `day` are numbers since 1970; starts and bytes of others count nothing."""

    minute: int
    day: int
    subjects: dict[str, ReservedUsage] = {}


class SharedUsage:
    def __init__(self, key_values: KeyValues, clock: Clock) -> None:
        self._key_values, self._clock = key_values, clock
        self._name, self._version = token_hex(8), 0
        self._written: bytes = b""
        self._written_at = float("-inf")

    async def write(self, usage: ServerUsage) -> None:
        """Store it, unless that is what is stored and is fresh."""
        body, now = msgspec.json.encode(usage), self._clock.now()
        if body == self._written and now - self._written_at < FRESH_S / 3:
            return
        while (row := await self._put(body, now)) is None:
            found = await self._key_values.get(KIND, self._name)  # swept, or an earlier answer was lost
            self._version = found.version if found is not None else 0
        self._version, self._written, self._written_at = row.version, body, now

    async def others(self) -> list[ServerUsage]:
        """The fresh rows of the other servers."""
        since = self._clock.now() - FRESH_S
        rows = await self._key_values.list(KIND)
        return [_read(row) for row in rows if row.name != self._name and row.updated_at >= since]

    async def sweep(self) -> int:
        return await self._key_values.sweep(KIND, before=self._clock.now() - FRESH_S)

    async def _put(self, body: bytes, now: float) -> KeyValue | None:
        return await self._key_values.put(KIND, self._name, body, over=self._version, at=now)


def _read(row: KeyValue) -> ServerUsage:
    return msgspec.json.decode(row.body, type=ServerUsage)
