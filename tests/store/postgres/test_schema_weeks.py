"""History by time in PostgreSQL: what began in the same week lies in tables of its own, which retention drops when all
of it is over (docs/decisions/0019)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import msgspec
import pytest

from noetl.base.clock import ManualClock
from noetl.base.ids import uuid7
from noetl.control.background.retention import Retention
from noetl.events.executions import Final, PlaybookProcessed
from noetl.events.steps import StepDone
from noetl.store.contract import Commit
from noetl.store.postgres.database import address_of
from noetl.store.postgres.schema import SPAN_S, add_spans, first_id, span_at
from noetl.store.postgres.store import PostgresStore
from noetl.store.results.files import MemoryResults
from tests.contracts.commits import commit, event
from tests.contracts.stores import fresh_url

LONG_AGO = 1_700_000_000.0
DAY_S = 86_400.0
# Rows of histories that were deleted one by one, in the schema of this test. The table of spans is not one of them: a
# span that goes loses its row there, and PostgreSQL counts that some time afterwards.
DELETED = """SELECT coalesce(sum(n_tup_del), 0)::int FROM pg_stat_user_tables
  WHERE relname LIKE 'history%' AND relname <> 'history_span' AND schemaname = current_schema()"""


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(**address_of(url).connect_arguments())
    try:
        yield connection
    finally:
        await connection.close()


async def _asked(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    async with _connected(url) as connection:
        return [tuple(row) for row in await connection.fetch(statement, *values)]


async def _with_past(url: str, *moments: float) -> PostgresStore:
    """A store that has been there since then."""
    store = await PostgresStore.open(url)
    for span in {span_at(one) for one in moments}:
        await _asked(url, "SELECT add_span($1, $2, $3)", span.suffix, span.low, span.high)
    return store


def _execution(began_at: float, *, ended_at: float | None, execution_id: str | None = None) -> Commit:
    execution_id = execution_id or uuid7(began_at)
    ended = PlaybookProcessed(status=Final.COMPLETED)
    events = [event(1, execution_id=execution_id), event(2, execution_id=execution_id, payload=StepDone())]
    if ended_at is not None:
        events.append(event(3, execution_id=execution_id, payload=ended))
    named = [msgspec.structs.replace(one, event_id=f"{execution_id}/{one.seq}") for one in events]
    made = commit(*named)
    row = msgspec.structs.replace(
        made.execution, created_at=began_at, finished_at=ended_at, status="running" if ended_at is None else "completed"
    )
    return msgspec.structs.replace(made, execution=row)


async def _spans(url: str) -> set[str]:
    return {row[0] for row in await _asked(url, "SELECT suffix FROM history_span")}


def _retention(store: PostgresStore, *, now: float, is_patient: bool = True) -> Retention:
    return Retention(store, MemoryResults(), ManualClock(now), default_s=90 * DAY_S, is_patient=is_patient)


async def test_executions_of_each_week_are_stored_in_their_own_tables() -> None:
    url = fresh_url()
    store = await _with_past(url, LONG_AGO)
    one = _execution(LONG_AGO, ended_at=LONG_AGO + 5)

    await store.commit([one])

    place = span_at(LONG_AGO).suffix
    assert await _asked(url, f"SELECT execution_id FROM history_{place}") == [(one.execution.execution_id,)]
    assert await _asked(url, f"SELECT count(*) FROM event_key_{place}") == [(2,)], "its end and that of its step run"
    assert await store.events(one.execution.execution_id) == list(one.events)
    await store.close()


@pytest.mark.req("EVT-01")
async def test_a_partition_is_dropped_whole_when_all_of_it_has_expired() -> None:
    url = fresh_url()
    begin = SPAN_S * (LONG_AGO // SPAN_S)
    store = await _with_past(url, begin)
    gone = [_execution(begin + hour * 3_600, ended_at=begin + hour * 3_600 + 60) for hour in range(30)]
    await store.commit(gone)
    younger = _execution(begin + SPAN_S + 60, ended_at=begin + SPAN_S + 120)
    await store.commit([younger])
    before = await _asked(url, DELETED)

    removed = await _retention(store, now=begin + 91 * DAY_S + 30 * 3_600).run()

    assert removed.total == len(gone)
    assert span_at(begin).suffix not in await _spans(url)
    assert [row.execution_id for row in await store.executions()] == [younger.execution.execution_id]
    assert await store.events(gone[0].execution.execution_id) == []
    assert await _asked(url, DELETED) == before
    await store.close()


@pytest.mark.req("EVT-01")
@pytest.mark.parametrize("left", ["open", "younger"])
async def test_a_retained_execution_keeps_its_partition_and_the_others_are_deleted_later(left: str) -> None:
    """They wait for each other a tenth of their time, a week and a day at most."""
    url = fresh_url()
    begin = SPAN_S * (LONG_AGO // SPAN_S)
    store = await _with_past(url, begin)
    over = _execution(begin + 60, ended_at=begin + 120)
    stays = _execution(begin + 60, ended_at=None if left == "open" else begin + 30 * DAY_S)
    await store.commit([over, stays])

    waiting = await _retention(store, now=begin + 97 * DAY_S).run()
    by_rows = await _retention(store, now=begin + 99 * DAY_S).run()

    assert (waiting.total, by_rows.total) == (0, 1)
    assert await store.events(over.execution.execution_id) == []
    assert len(await store.events(stays.execution.execution_id)) > 0
    assert span_at(begin).suffix in await _spans(url)
    await store.close()


async def test_a_manual_retention_waits_for_no_other_executions() -> None:
    url = fresh_url()
    store = await _with_past(url, LONG_AGO)
    await store.commit([_execution(LONG_AGO, ended_at=LONG_AGO + 1), _execution(LONG_AGO, ended_at=None)])

    removed = await _retention(store, now=LONG_AGO + 91 * DAY_S, is_patient=False).run()

    assert removed.total == 1
    await store.close()


@pytest.mark.req("EVT-01")
async def test_the_database_drops_no_partition_with_a_retained_execution() -> None:
    url = fresh_url()
    store = await _with_past(url, LONG_AGO)
    one = _execution(LONG_AGO, ended_at=LONG_AGO + 1)
    await store.commit([one])

    with pytest.raises(asyncpg.RaiseError, match="never deleted while their execution stands"):
        await _asked(url, "SELECT drop_span($1)", span_at(LONG_AGO).suffix)

    assert await store.events(one.execution.execution_id) == list(one.events)
    await store.close()


async def test_ids_without_a_time_are_stored_outside_the_partitions_and_deleted_by_row() -> None:
    url = fresh_url()
    store = await PostgresStore.open(url)
    names = ["00ab", "a name", "ffffffff-0000-4000-8000-000000000000"]
    await store.commit([_execution(LONG_AGO, ended_at=LONG_AGO + 1, execution_id=name) for name in names])

    removed = await _retention(store, now=LONG_AGO + 100 * DAY_S).run()

    assert removed.total == 3
    assert await _asked(url, "SELECT count(*) FROM history") == [(0,)]
    await store.close()


async def test_concurrent_servers_create_the_current_and_the_next_partition_once() -> None:
    url = fresh_url()
    stores = await asyncio.gather(*(PostgresStore.open(url) for _ in range(3)))

    await asyncio.gather(*(add_spans(one._db) for one in stores))

    [(now,)] = await _asked(url, "SELECT extract(epoch FROM clock_timestamp())::float8")
    assert await _spans(url) == {span_at(now).suffix, span_at(now + SPAN_S).suffix}
    for one in stores:
        await one.close()


async def test_rows_older_than_their_partition_stay_in_the_default_one() -> None:
    url = fresh_url()
    store = await PostgresStore.open(url)
    early = _execution(LONG_AGO, ended_at=LONG_AGO + 1)
    await store.commit([early])  # of a week that nobody has made tables for
    span = span_at(LONG_AGO)

    assert await _asked(url, "SELECT add_span($1, $2, $3)", span.suffix, span.low, span.high) == [(False,)]
    assert await store.events(early.execution.execution_id) == list(early.events)
    await store.close()


async def test_a_long_read_delays_the_drop_and_nothing_is_lost() -> None:
    url = fresh_url()
    store = await _with_past(url, LONG_AGO)
    one = _execution(LONG_AGO, ended_at=LONG_AGO + 1)
    await store.commit([one])
    async with _connected(url) as reader, reader.transaction():
        await reader.fetch("SELECT count(*) FROM history")

        removed = await _retention(store, now=LONG_AGO + 91 * DAY_S).run()

    assert removed.total == 0
    assert await store.events(one.execution.execution_id) == list(one.events)
    await store.close()


def test_partition_bounds_are_bounds_of_ids() -> None:
    span = span_at(LONG_AGO)

    assert span.low <= uuid7(LONG_AGO) < span.high
    assert first_id(LONG_AGO) <= uuid7(LONG_AGO, b"\x00" * 10)
    assert uuid7(LONG_AGO - 0.001, b"\xff" * 10) < first_id(LONG_AGO)
    assert span.high == span_at(LONG_AGO + SPAN_S).low
