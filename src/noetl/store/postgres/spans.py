"""Spans: the history of executions that began in the same week lies in partitions of its own, so that retention drops
tables instead of deleting rows (docs/decisions/0019).

The id of an execution is a UUIDv7, whose text sorts by the time at which it was made: a week is a range of ids. Ids of
another form lie in partitions beside them, and go by rows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import msgspec

from noetl.base.crash_points import crash_point
from noetl.base.errors import BackendError
from noetl.store.postgres.database import QUERIES, Database

# Part of the names and bounds of tables that exist: changing it needs a migration.
SPAN_S = 7 * 86_400.0
_AHEAD = 1  # spans that are there before they are needed: servers look every hour
_LONG_S = 3_600.0  # a span may have a million executions
_log = logging.getLogger(__name__)


class HistorySpan(msgspec.Struct, frozen=True):
    """The executions whose ids are from `low` up to `high`."""

    suffix: str  # of the names of its tables
    low: str
    high: str


def span_at(moment: float) -> HistorySpan:
    number = int(moment // SPAN_S)
    begin, end = number * SPAN_S, (number + 1) * SPAN_S
    return HistorySpan(f"{datetime.fromtimestamp(begin, UTC):%Y%m%d}", first_id(begin), first_id(end))


def first_id(moment: float) -> str:
    """What the ids of executions that begin then, or later, do not sort before."""
    digits = f"{int(moment * 1000) & 0xFFFF_FFFF_FFFF:012x}"
    return f"{digits[:8]}-{digits[8:]}"


async def add_spans(database: Database) -> None:
    """Make the span of now and those that come next, unless they are there."""
    known = {row[0] for row in await database.rows("select_spans")}
    now = float(await database.value("select_now"))
    for span in (span_at(now + ahead * SPAN_S) for ahead in range(_AHEAD + 1)):
        if span.suffix not in known:
            await _tried(database, _Adding(span).add, "made", span.suffix)


class _Adding:
    def __init__(self, span: HistorySpan) -> None:
        self._span = span

    async def add(self, connection: Any) -> None:
        # Two servers find at the same moment that the next week is missing.
        await connection.execute(QUERIES["lock_spans"])
        await connection.execute(QUERIES["add_span"], self._span.suffix, self._span.low, self._span.high)


async def retire_spans(database: Database, before: Mapping[str, float]) -> dict[str, str]:
    """Drop the spans in which everything ended before the moment of its net; gives the nets of the executions that have
    gone, by execution."""
    await add_spans(database)
    now = float(await database.value("select_now"))
    nets, moments = list(before), list(before.values())
    gone: dict[str, str] = {}
    for (suffix,) in await database.rows("select_outlived_spans", nets, moments, first_id(now)):
        dropping = _Dropping(suffix, nets, moments)
        if await _tried(database, dropping.drop, "dropped", suffix):
            gone |= dropping.gone
    return gone


class _Dropping:
    """One transaction: the rows of the executions, what else is theirs, then the tables of their history."""

    def __init__(self, suffix: str, nets: list[str], moments: list[float]) -> None:
        self._suffix, self._nets, self._moments = suffix, nets, moments
        self.gone: dict[str, str] = {}

    async def drop(self, connection: Any) -> None:
        await connection.execute(QUERIES["take_time"])
        values = (self._suffix, self._nets, self._moments)
        rows = await connection.fetch(QUERIES["retire_span"], *values, timeout=_LONG_S)
        self.gone = dict(rows)
        await connection.execute(QUERIES["retire_rest_of_span"], self._suffix, timeout=_LONG_S)
        crash_point("retention.within")
        # Last, since everybody waits for this lock: whoever commits does so in between two statements above. An
        # execution that has come meanwhile stands, so the function refuses, and all of it is taken back.
        await connection.execute(QUERIES["drop_span"], self._suffix)


async def _tried(database: Database, work: Any, done: str, suffix: str) -> bool:
    """False when somebody reads for so long that the tables cannot be had: the next hour is soon enough, and until a
    span is there, its rows lie in the default partition."""
    try:
        await database.run_in_transaction(work, repeats=True)
    except BackendError as problem:
        if not isinstance(problem.__cause__, asyncpg.LockNotAvailableError):
            raise
        _log.info("the history of %s is not %s yet: its tables are in use", suffix, done)
        return False
    return True
