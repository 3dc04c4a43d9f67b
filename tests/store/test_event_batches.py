"""Batches of events: they read back as what was committed, and the database itself refuses what a history cannot hold.
Each refusal is shown twice: with its constraint, and that it is gone without it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import msgspec
import pytest

from noetl.base.errors import UnreadableError
from noetl.events.events import Payload
from noetl.events.executions import Final, PlaybookProcessed
from noetl.events.outcomes import Error
from noetl.events.steps import StepDone, StepFailed
from noetl.store.contract import EventFilter
from noetl.store.event_batches import batch_events, batch_values, picked_events
from noetl.store.postgres.database import address_of
from noetl.store.postgres.store import PostgresStore
from noetl.store.sqlite.store import SqliteStore
from tests.contracts.commits import commit, event
from tests.contracts.stores import fresh_url

FOLLOWS, KEYS, ENDS = "event_batch_follows_the_last", "event_batch_has_keys", "event_batch_has_ends"
IN_POSTGRES = {FOLLOWS: "history_follows_the_last", KEYS: "history_has_keys", ENDS: "history_has_keys"}
_FAILED = StepFailed(error=Error(kind="timeout", message="m"))
_OVER = PlaybookProcessed(status=Final.FAILED)


def _batch(first: int, *ids: str, payload: Payload | None = None) -> tuple[Any, ...]:
    events = [event(first + at, event_id=one, payload=payload) for at, one in enumerate(ids)]
    return batch_values([commit(*events)])[0]


# What is refused after events 1 and 2, `e1` that ends step run r1 and `e2` that ends the execution; and by what.
REFUSED = {
    "a gap": (_batch(4, "e4"), FOLLOWS),
    "a position twice": (_batch(2, "other", "more"), FOLLOWS),
    "a position before the first": (_batch(0, "other"), FOLLOWS),
    "an id twice": (_batch(3, "e1"), KEYS),
    "an id twice, the second in the midst of a batch": (_batch(3, "e3", "e2", "e5"), KEYS),
    "an id twice in one batch": (_batch(3, "e3", "e3"), KEYS),
    "an id that is another position": (_batch(3, "x1/2"), KEYS),
    "a second end of a step run": (_batch(3, "e3", payload=StepDone()), ENDS),
    "another end of a step run": (_batch(3, "e3", payload=_FAILED), ENDS),
    "a second end of the execution": (_batch(3, "e3", payload=_OVER), ENDS),
}
EVERY = pytest.mark.parametrize(("batch", "constraint"), REFUSED.values(), ids=list(REFUSED))
INSERT = "INSERT INTO event_batch VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


async def _begun(store: SqliteStore | PostgresStore) -> None:
    ended = event(1, payload=StepDone()), event(2, payload=PlaybookProcessed(status=Final.COMPLETED))
    await store.commit([commit(*ended)])
    await store.close()


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    await _begun(SqliteStore.open(tmp_path / "s.db"))
    return tmp_path / "s.db"


@pytest.fixture
def database(file: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        yield connection


@EVERY
@pytest.mark.req("EVT-01", "EVT-06")
def test_sqlite_refuses_an_impossible_history(
    database: sqlite3.Connection, batch: tuple[Any, ...], constraint: str
) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        database.execute(INSERT, batch)

    database.execute(f"DROP TRIGGER {constraint}")
    database.execute(INSERT, batch)


@EVERY
@pytest.mark.req("EVT-01", "EVT-06")
async def test_postgres_refuses_an_impossible_history(batch: tuple[Any, ...], constraint: str) -> None:
    url = fresh_url()
    await _begun(await PostgresStore.open(url))
    connection = await asyncpg.connect(**address_of(url).connect_arguments())
    try:
        insert = "INSERT INTO history VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
        with pytest.raises(asyncpg.UniqueViolationError):
            await connection.execute(insert, *batch)

        await connection.execute(f"DROP TRIGGER {IN_POSTGRES[constraint]} ON history")
        await connection.execute(insert, *batch)
    finally:
        await connection.close()


def _spaced(text: str) -> str:
    return json.dumps(json.loads(text))


def _in_full(batch: tuple[Any, ...]) -> tuple[Any, ...]:
    """With envelopes as the version before wrote them."""
    packed = json.loads(batch[5])
    v = packed["v"]
    rows = [[v[e[0]], v[e[1]], None, v[e[3]], v[e[4]], v[e[5]], bool(e[6]), e[7]] for e in packed["e"]]
    return (*batch[:5], json.dumps(rows), *batch[6:])


_END = _batch(3, "e3", payload=StepDone())
# The trigger reads batches as text where they are written as they usually are, and as JSON otherwise.
WRITTEN = {
    "as usual": _END,
    "with spaces": (*_END[:4], _spaced(_END[4]), _spaced(_END[5]), *_END[6:]),
    "as the version before did": _in_full(_END),
    "beside a type with quotes": (
        *_END[:2],
        4,
        '["e3","e4"]',
        '["a\\",","step.done"]',
        _END[5].replace('"e":[', '"e":[[0,0,-1,0,0,0,0,1],'),
        "[{},{}]",
        None,
    ),
}


@pytest.mark.req("EVT-01", "EVT-06")
async def test_postgres_finds_an_end_in_any_batch_encoding() -> None:
    url = fresh_url()
    await _begun(await PostgresStore.open(url))
    connection = await asyncpg.connect(**address_of(url).connect_arguments())
    try:
        partition = await connection.fetchval("SELECT tableoid::regclass::text FROM history LIMIT 1")
        insert = "INSERT INTO {} VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
        for table in ("history", partition):
            for batch in WRITTEN.values():
                with pytest.raises(asyncpg.UniqueViolationError) as refused:
                    await connection.execute(insert.format(table), *batch)
                assert refused.value.table_name.startswith("event_key")

        await connection.execute("DROP TRIGGER history_has_keys ON history")
        await connection.execute(insert.format(partition), *_END)
    finally:
        await connection.close()


@pytest.mark.parametrize("column", ["event_ids", "types"])
def test_a_batch_has_one_event_per_position(database: sqlite3.Connection, column: str) -> None:
    names = ("execution_id", "first_seq", "last_seq", "event_ids", "types", "envelopes", "payloads", "checksum")
    short = dict(zip(names, _batch(3, "e3", "e4"), strict=True)) | {column: '["e3"]'}

    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        database.execute(INSERT, tuple(short.values()))


def _row(*events: Any) -> tuple[Any, ...]:
    [(_, *values)] = batch_values([commit(*events)])
    return (*values, "tx1")


def test_derivable_ids_are_not_stored() -> None:
    events = [msgspec.structs.replace(event(seq, event_id=f"x1/{seq}"), parent_id="x1/4") for seq in (5, 6)]

    row = _row(*events)

    assert row[2] == "[0,0]"
    assert "x1/4" not in row[4]
    assert batch_events("x1", row) == events


@pytest.mark.parametrize("parent", ["x1/4", "x1/04", "x1/", "x1/a", "x2/4", "x1/4/5", "x1/\u0664", "", None])
def test_any_parent_id_reads_back(parent: str | None) -> None:
    events = [msgspec.structs.replace(event(5), parent_id=parent), msgspec.structs.replace(event(6), parent_id="e5")]

    assert batch_events("x1", _row(*events)) == events


def test_batches_of_the_previous_version_are_readable() -> None:
    ids, types = '["a","b"]', '["token.enqueued","token.enqueued"]'
    envelopes = '[[1.5,"server",null,"s","r",null,false,1],[2.5,"worker","a",null,null,"t",true,1]]'
    payloads = '[{"token_id":"t1"},{"token_id":"t2"}]'

    first, second = batch_events("x1", (1, 2, ids, types, envelopes, payloads, None, "tx1"))

    assert (first.event_id, first.ts, first.step, first.parent_id, first.on_behalf) == ("a", 1.5, "s", None, False)
    assert (second.event_id, second.parent_id, second.task_run_id, second.on_behalf) == ("b", "a", "t", True)


def test_batched_events_are_read_back_unchanged() -> None:
    events = [event(5), msgspec.structs.replace(event(6), ts=1794906471.8173616, on_behalf=True, parent_id=None)]

    assert batch_events("x1", _row(*events)) == events
    assert batch_events("x1", _row(*events), after=5) == events[1:]


@pytest.mark.parametrize(
    ("only", "seqs"),
    [
        (EventFilter(types=("step.*",)), [2, 3]),
        (EventFilter(types=("step.done", "token.*")), [1, 2, 4]),
        (EventFilter(types=("step.?one",)), []),
        (EventFilter(step="elsewhere"), []),
        (EventFilter(limit=2), [1, 2]),
        (EventFilter(limit=2, newest=True), [3, 4]),
        (EventFilter(types=("step.*",), limit=1, newest=True), [3]),
    ],
)
def test_batched_events_are_filtered(only: EventFilter, seqs: list[int]) -> None:
    events = [event(1), event(2, payload=StepDone()), event(3, payload=_FAILED), event(4)]

    assert [one.seq for one in picked_events(events, only)] == seqs


@pytest.mark.req("EVT-01")
@pytest.mark.parametrize("column", [2, 3, 4, 5])
def test_a_modified_batch_is_rejected(column: int) -> None:
    row = list(_row(event(1), event(2)))
    row[column] = row[column].translate(str.maketrans("01ets", "10ste"))

    with pytest.raises(
        UnreadableError, match="events 1 to 2 of execution x1 is damaged: it differs from what was written"
    ):
        batch_events("x1", row)


@pytest.mark.req("SRV-12")
async def test_the_view_shows_single_events(file: Path, database: sqlite3.Connection) -> None:
    store = SqliteStore.open(file)
    events = await store.events("x1")
    await store.close()

    shown = database.execute("SELECT seq, event_id, event_type, ts, step, step_run_id, schema FROM event").fetchall()

    assert shown == [(e.seq, e.event_id, e.event_type, e.ts, e.step, e.step_run_id, e.schema) for e in events]


OLD_INSERT = (
    "INSERT INTO event (execution_id, seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id,"
    " on_behalf, schema, payload, checksum) VALUES ('x1', 3, 'e3', 'token.enqueued', 1794906471.8173616, 'server',"
    " NULL, 'a', NULL, NULL, {}, 1, '{{\"token_id\":\"t3\"}}', 12345)"
)


@pytest.mark.req("SRV-12")
async def test_a_row_that_the_previous_version_writes_to_the_view_becomes_a_batch(
    file: Path, database: sqlite3.Connection
) -> None:
    database.execute(OLD_INSERT.format(0))

    store = SqliteStore.open(file)
    [added] = await store.events("x1", after=2)
    assert (added.event_id, added.ts, added.on_behalf) == ("e3", 1794906471.8173616, False)
    await store.close()
    with pytest.raises(sqlite3.IntegrityError):
        database.execute(OLD_INSERT.format(0))


@pytest.mark.req("SRV-12")
async def test_postgres_accepts_rows_that_the_previous_version_writes_to_the_view() -> None:
    url = fresh_url()
    await _begun(await PostgresStore.open(url))
    connection = await asyncpg.connect(**address_of(url).connect_arguments())
    try:
        await connection.execute(OLD_INSERT.format("false"))
        with pytest.raises(asyncpg.UniqueViolationError):
            await connection.execute(OLD_INSERT.format("false"))
    finally:
        await connection.close()

    store = await PostgresStore.open(url)
    [added] = await store.events("x1", after=2)
    assert (added.event_id, added.ts, added.on_behalf) == ("e3", 1794906471.8173616, False)
    await store.close()
