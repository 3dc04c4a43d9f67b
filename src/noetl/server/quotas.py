"""Quotas: how much of a server one subject may use at a time, so that nobody takes it from everybody else.

Each server counts for itself and from its own start, as rate limits do. A subject is whom a token was made for, however
many tokens that are. What workers do counts for nobody: it is the work of those who started it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path

from noetl.base.clock import Clock
from noetl.base.settings import default_db
from noetl.server.access.limits import Buckets, RequestRate
from noetl.server.configuration import MIB, Quotas
from noetl.server.problem_details import ProblemDetails
from noetl.store.contract import Commit, ResultStore, Store
from noetl.store.open_store import MEMORY, is_database
from noetl.store.results.files import FileResults
from noetl.store.row_codecs import payload_bodies

_DAY_S = 86_400.0
_LOOK_EVERY_S = 5.0


class Usage:
    """What subjects use of one server. `free_bytes` gives what is left where the store lies."""

    def __init__(self, quotas: Quotas, clock: Clock, free_bytes: Callable[[], int | None] = lambda: None) -> None:
        self._quotas, self._clock, self._free_bytes = quotas, clock, free_bytes
        per_minute = quotas.starts_per_minute
        self._starts = Buckets(RequestRate(per_minute, per_minute / 60), clock)
        self._owners: dict[str, str] = {}  # open executions that were started here
        self.open: Counter[str] = Counter()
        self.streams: Counter[str] = Counter()
        self.stored: Counter[str] = Counter()
        self._day = clock.now() // _DAY_S
        self._looked_at = float("-inf")
        self._free: int | None = None

    def check_start(self, subject: str) -> None:
        """Problem 429 for a subject that has used up what is its own, 503 while there is no room on the disk."""
        self._check_disk()
        self._turn_day()
        if self.open[subject] >= self._quotas.open_executions:
            raise _used_up(f"{self._quotas.open_executions} of your executions are open", 30)
        if self.stored[subject] >= self._quotas.stored_bytes:
            raise _used_up(f"your executions have stored {self._quotas.stored_bytes} bytes today", 3_600)
        if wait_s := self._starts.take(subject):
            raise _used_up(f"you have started {self._quotas.starts_per_minute} executions within a minute", wait_s)

    @contextmanager
    def starting(self, execution_id: str, subject: str) -> Iterator[None]:
        """For as long as it is being started; it counts from then on until it ends, or if it could not be started."""
        self.check_start(subject)
        self._owners[execution_id] = subject
        self.open[subject] += 1
        try:
            yield
        except BaseException:
            if execution_id in self._owners:
                self._close(execution_id, subject)
            raise

    def count_commits(self, commits: Sequence[Commit]) -> None:
        """Of every commit: what it stores is counted, and what has ended is open no longer."""
        for commit in commits:
            execution_id = commit.execution.execution_id
            if (subject := self._owners.get(execution_id)) is None:
                continue
            self.stored[subject] += sum(map(len, payload_bodies(commit)))
            if commit.execution.finished_at is not None:
                self._close(execution_id, subject)

    async def reconcile(self, store: Store) -> None:
        """Those that another server has ended are open no longer."""
        for execution_id, subject in list(self._owners.items()):
            row = await store.execution(execution_id)
            if (row is None or row.finished_at is not None) and execution_id in self._owners:
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

    def _close(self, execution_id: str, subject: str) -> None:
        del self._owners[execution_id]
        self.open[subject] -= 1
        if not self.open[subject]:
            del self.open[subject]

    def _turn_day(self) -> None:
        if (day := self._clock.now() // _DAY_S) != self._day:
            self._day = day
            self.stored.clear()

    def _check_disk(self) -> None:
        if time.monotonic() - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at, self._free = time.monotonic(), self._free_bytes()
        if self._free is not None and self._free < self._quotas.free_bytes:
            detail = f"less than {self._quotas.free_bytes // MIB} MiB are free on the server's disk: nothing is started"
            raise ProblemDetails(503, detail, kind="disk", headers={"retry-after": "60"})


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
