"""Quotas: how much one subject may use, so that no subject uses up the servers. Also the reservations of all servers.

Executions, starts and stored bytes are counted over all servers of a store: each server reserves a part of the rest,
uses it up and reserves more (`SharedUsage`). Each server counts streams for itself. A subject is the person or program
that a token was made for; several tokens of a subject share its quota. Requests of workers are not counted: their work
counts for the subject that started the execution.
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
from noetl.store.installation import KeyValue, KeyValues, each_key_value
from noetl.store.open_store import MEMORY, is_database
from noetl.store.results.files import FileResults
from noetl.store.row_codecs import payload_bodies

_log = logging.getLogger(__name__)
_MINUTE_S = 60.0
_DAY_S = 86_400.0
# Seconds between two checks of the free disk space: each is a system call, and there may be thousands of starts.
_LOOK_EVERY_S = 5.0
# Seconds between two exchanges with other servers: bytes stored there are known this late.
_SHARE_EVERY_S = 2.0
# A server reserves a tenth of the rest of a quota at a time.
_PART = 10
_ASKED_AT_ONCE = 1_000  # executions
KIND = "usage"
FRESH_S = 60.0  # an older row belongs to a server that is gone; a live one writes at least every 20 s


class SubjectUsage(msgspec.Struct):
    """The usage of one subject at this server. Reserved amounts may be used without a query."""

    # executions started here that have not ended, and how many may be open without asking the store
    open: int = 0
    open_reserved: int = 0
    # within this minute, and how many there may be
    starts: int = 0
    starts_reserved: int = 0
    # bytes of events of this day
    stored: int = 0
    stored_elsewhere: int = 0  # as of the last look
    is_busy: bool = False  # something was started since its reservations were last looked at


class Usage:
    """The usage of all subjects at one server. `free_bytes` returns the free space on the disk of the store."""

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
        # One reservation at a time: otherwise all requests that find their share used up would each reserve more.
        self._reserving = asyncio.Lock()
        self._looked_at = float("-inf")
        self._free: int | None = None

    async def check_start(self, subject: str) -> None:
        """Count a start. 429 if the subject has used up its quota, 503 while the disk is full."""
        self._check_disk()
        self._turn_periods()
        usage = self.subjects.setdefault(subject, SubjectUsage())
        usage.is_busy = True
        # The common case needs no lock and no query: a reservation covers many starts.
        if not self._is_reserved(usage):
            async with self._reserving:
                while not self._is_reserved(usage):
                    await self._reserve(subject, usage)
        usage.open += 1
        usage.starts += 1

    @asynccontextmanager
    async def starting(self, execution_id: str, subject: str) -> AsyncIterator[None]:
        """Count an execution from its start until its end; if the block fails, it no longer counts."""
        await self.check_start(subject)
        self._owners[execution_id] = subject
        self._starting.add(execution_id)
        try:
            yield
        # It may have been stored and have ended despite the error; then `count_commits` has closed it already.
        except BaseException:
            if execution_id in self._owners:
                self._close(execution_id, subject)
            raise
        finally:
            self._starting.discard(execution_id)

    def count_commits(self, commits: Sequence[Commit]) -> None:
        """Count the stored bytes of commits, and close executions that have ended."""
        for commit in commits:
            execution_id = commit.execution.execution_id
            if (subject := self._owners.get(execution_id)) is None:
                continue
            self._turn_periods()
            self.subjects[subject].stored += sum(map(len, payload_bodies(commit)))
            if commit.execution.finished_at is not None:
                self._close(execution_id, subject)

    def stream(self, subject: str) -> Callable[[int], None]:
        """A function that counts streams of a subject; 429 if it has too many."""
        if self.streams[subject] >= self._quotas.streams:
            raise _used_up(f"you have {self._quotas.streams} open streams", 5)

        def count(number: int) -> None:
            self.streams[subject] += number
            # A Counter keeps zeros, and subjects come and go.
            if not self.streams[subject]:
                del self.streams[subject]

        return count

    async def share(self, store: Store) -> None:
        """Publish the usage of this server to the others, and give back unused reservations."""
        others = await self._shared.others()
        # Another server may have ended executions that were started here.
        if others:
            await self._close_ended(store)
        async with self._reserving:
            self._turn_periods()
            for subject, usage in list(self.subjects.items()):
                usage.stored_elsewhere = self._used_elsewhere(subject, others).stored
                self._give_back(usage)
                # Nothing of it counts any more; the next start creates it again.
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
        """Reserve a part of the rest, at least one place; 429 if nothing is left. The reservation is used only after it
        is stored and the rows of the others were read after that."""
        quotas, minute = self._quotas, self._minute
        before = self._used_elsewhere(subject, await self._shared.others())
        self._check_left(usage, before)
        most_open = usage.open + _part(quotas.open_executions - before.open - usage.open)
        most_starts = usage.starts + _part(quotas.starts_per_minute - before.starts - usage.starts)
        row = self._row()
        row.subjects[subject] = ReservedUsage(open=most_open, starts=most_starts, stored=usage.stored)
        # Write first, then read the others: if two servers do this at the same moment, at least one sees the other, so
        # together they never exceed the quota.
        await self._shared.write(row)
        after = self._used_elsewhere(subject, await self._shared.others())
        self._turn_periods()
        # A reservation for the previous minute covers nothing now.
        if minute == self._minute:
            usage.open_reserved = max(usage.open, min(most_open, quotas.open_executions - after.open))
            usage.starts_reserved = max(usage.starts, min(most_starts, quotas.starts_per_minute - after.starts))
        usage.stored_elsewhere = after.stored
        if (usage.open_reserved, usage.starts_reserved) != (most_open, most_starts):
            await self._shared.write(self._row())  # another server has reserved at the same moment
            self._check_left(usage, after)

    def _give_back(self, usage: SubjectUsage) -> None:
        """Reduce reservations to what is used, plus a spare part while the subject is busy."""
        # A spare reservation saves the next start a query, but other servers cannot use it.
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
            subject: ReservedUsage(open=usage.open_reserved, starts=usage.starts_reserved, stored=usage.stored)
            for subject, usage in self.subjects.items()
        }
        return ServerUsage(minute=self._minute, day=self._day, subjects=subjects)

    async def _close_ended(self, store: Store) -> None:
        # Leave out executions that are being started: they may not be stored yet and would be taken for ended.
        stored = [execution_id for execution_id in self._owners if execution_id not in self._starting]
        for first in range(0, len(stored), _ASKED_AT_ONCE):
            page = stored[first : first + _ASKED_AT_ONCE]
            still_open = await store.open_among(page)
            for execution_id in page:
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
            detail = (
                f"less than {self._quotas.free_bytes // MIB} MiB are free on the server's disk: no execution starts"
            )
            raise ProblemDetails(503, detail, kind="disk", headers={"retry-after": "60"})


def _part(left: int) -> int:
    return max(1, left // _PART)


def _used_up(what: str, wait_s: float) -> ProblemDetails:
    seconds = max(1, ceil(wait_s))
    detail = f"{what}, which is your quota; try again in {seconds} s"
    return ProblemDetails(429, detail, kind="quota", headers={"retry-after": str(seconds)})


def free_bytes_of(db: str | None, results: ResultStore) -> int | None:
    """The free space on the disks of a store and its results; None if both are in memory or on other machines."""
    places = [] if db == MEMORY or is_database(db) else [Path(db).parent if db is not None else default_db().parent]
    if isinstance(results, FileResults):
        places.append(results.folder)
    free = []
    for place in places:
        while not place.exists() and place != place.parent:
            place = place.parent
        try:
            free.append(shutil.disk_usage(os.fspath(place)).free)
        except OSError:
            continue
    return min(free, default=None)


# Shared usage: the reservations of all servers on one store.
#
# A server writes its reservations into a row of its own and then reads the rows of the others. Because it writes before
# reading, it cannot miss an earlier reservation, so no two servers use the same last place of a quota, without a lock.
# The row of a server that has not written for a while is ignored.


class ReservedUsage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A server's part of one subject's quotas: executions that are or may become open, starts within the minute, bytes
    stored within the day."""

    open: int = 0
    starts: int = 0
    stored: int = 0


class ServerUsage(msgspec.Struct, kw_only=True):
    """The row of one server. `minute` and `day` are numbers since 1970; starts and bytes of earlier ones are
    ignored."""

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
        """Store the row, unless the stored one is equal and fresh."""
        body, now = msgspec.json.encode(usage), self._clock.now()
        if body == self._written and now - self._written_at < FRESH_S / 3:
            return
        # Only this server writes the row. If the version does not fit, the row was swept or an earlier answer was lost:
        # read the version and write again.
        while (row := await self._put(body, now)) is None:
            stored = await self._key_values.get(KIND, self._name)
            self._version = stored.version if stored is not None else 0
        self._version, self._written, self._written_at = row.version, body, now

    async def others(self) -> list[ServerUsage]:
        """The fresh rows of the other servers."""
        since = self._clock.now() - FRESH_S
        rows = [row async for row in each_key_value(self._key_values, KIND)]
        return [_decode_usage(row) for row in rows if row.name != self._name and row.updated_at >= since]

    async def sweep(self) -> int:
        return await self._key_values.sweep(KIND, before=self._clock.now() - FRESH_S)

    async def _put(self, body: bytes, now: float) -> KeyValue | None:
        return await self._key_values.put(KIND, self._name, body, over=self._version, at=now)


def _decode_usage(row: KeyValue) -> ServerUsage:
    return msgspec.json.decode(row.body, type=ServerUsage)
