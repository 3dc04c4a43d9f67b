"""What PostgreSQL itself holds to, whatever the programs above it do: keys, triggers, privileges, migrations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import msgspec
import pytest
import pytest_asyncio

from noetl.base.errors import BackendError
from noetl.events.executions import Final, PlaybookProcessed
from noetl.events.outcomes import Error
from noetl.events.steps import StepDone, StepFailed
from noetl.store.contract import ConflictError, OrderState
from noetl.store.postgres.database import address_of
from noetl.store.postgres.history import PostgresHistory
from noetl.store.postgres.schema import known_migrations
from noetl.store.postgres.store import PostgresStore
from tests.contracts.commits import commit, event, order
from tests.contracts.stores import borrowed_url, fresh_url
from tests.servers.postgres import server


@pytest_asyncio.fixture
async def url() -> AsyncIterator[str]:
    async with borrowed_url() as url:
        yield url


@pytest_asyncio.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    opened = await PostgresStore.open(url)
    yield opened
    await opened.close()


async def ran(url: str, sql: str) -> Any:
    connection = await asyncpg.connect(**address_of(url).connect_arguments())
    try:
        return await connection.fetch(sql)
    finally:
        await connection.close()


@pytest.mark.req("EVT-01")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET payload = '{}'",
        "UPDATE event SET seq = seq + 100 WHERE false",
        "DELETE FROM event",
        "UPDATE event_batch SET payloads = '[]'",
        "UPDATE history SET payloads = '[]'",
        "UPDATE history_behind SET payloads = '[]'",
        "DELETE FROM event_batch",
        "DELETE FROM history",
        "DELETE FROM history_behind",
        "TRUNCATE history",
        "TRUNCATE history_behind",
        "UPDATE event_key SET key = 0",
        "DELETE FROM event_key",
        "TRUNCATE event_key",
    ],
)
async def test_events_cannot_be_changed_or_deleted_even_by_a_superuser(
    store: PostgresStore, url: str, statement: str
) -> None:
    await store.commit([commit(event(1))])

    with pytest.raises(asyncpg.RaiseError, match="never"):
        await ran(url, statement)

    assert len(await store.events("x1")) == 1


@pytest.mark.req("EVT-01")
async def test_events_of_a_deleted_execution_can_be_deleted(store: PostgresStore, url: str) -> None:
    await store.commit([commit(event(1)), commit(event(1, execution_id="x2"))])
    await ran(url, "DELETE FROM execution WHERE execution_id = 'x1'")

    await ran(url, "DELETE FROM event WHERE execution_id = 'x1'")

    with pytest.raises(asyncpg.RaiseError, match="never"):
        await ran(url, "DELETE FROM event WHERE execution_id = 'x2'")


@pytest.mark.req("EVT-06")
async def test_an_execution_and_a_step_run_end_once(store: PostgresStore) -> None:
    await store.commit([commit(event(1, payload=StepDone()))])
    failed = event(2, payload=StepFailed(error=Error(kind="x", message="y")))
    with pytest.raises(ConflictError, match="stored already"):
        await store.commit([commit(failed, after=1)])

    ends = [event(seq, payload=PlaybookProcessed(status=Final.COMPLETED)) for seq in (2, 3)]
    with pytest.raises(ConflictError, match="stored already"):
        await store.commit([commit(*ends, after=1)])

    assert len(await store.events("x1")) == 1


async def test_a_role_needs_only_its_schema_and_cannot_change_its_log() -> None:
    """Superusers pass every check, so what we ask of an ordinary user is shown with one."""
    server().ask("CREATE ROLE plain LOGIN")
    server().ask("CREATE DATABASE plain OWNER plain")
    url = f"postgresql://plain@/plain?host={server().socket}"
    store = await PostgresStore.open(url)
    await store.commit([commit(event(1), orders=(order(),))])
    await store.commit([commit(event(2), after=1, orders=(order(OrderState.LEASED, 1, until=5.0),))])
    assert len(await store.events("x1")) == 2
    assert await ran(url, "SELECT 1 FROM noetl.event"), "without search_path the schema is ours"

    for statement in (
        "UPDATE history SET last_seq = 9",
        "UPDATE history_behind SET last_seq = 9",
        "TRUNCATE history",
        "TRUNCATE history_behind",
        "UPDATE audit SET seq = 9",
        "DELETE FROM audit",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await ran(url, statement)
    await store.close()


async def test_one_of_several_servers_that_decide_on_the_same_state_is_stored(url: str) -> None:
    stores = [await PostgresStore.open(url, connections=2) for _ in range(4)]
    await stores[0].commit([commit(event(1))])

    for seq in range(2, 12):
        tries = [
            store.commit([commit(event(seq, event_id=f"e{seq}-{number}"), after=seq - 1)])
            for number, store in enumerate(stores)
        ]
        ended = await asyncio.gather(*tries, return_exceptions=True)
        assert sorted(type(one).__name__ for one in ended) == ["ConflictError"] * 3 + ["NoneType"]

    assert [one.seq for one in await stores[0].events("x1")] == list(range(1, 12))
    for store in stores:
        await store.close()


async def test_batches_in_opposite_order_do_not_deadlock(url: str) -> None:
    stores = [await PostgresStore.open(url, connections=2) for _ in range(2)]
    ids = [f"x{number}" for number in range(20)]
    await stores[0].commit([commit(event(1, execution_id=one)) for one in ids])

    def batch(whose: int, order_of: list[str]) -> Any:
        events = [event(2, execution_id=one, event_id=f"e2-{whose}") for one in order_of]
        return stores[whose].commit([commit(one, after=1) for one in events])

    async with asyncio.timeout(60):
        ended = await asyncio.gather(batch(0, ids), batch(1, ids[::-1]), return_exceptions=True)

    assert sorted(type(one).__name__ for one in ended) == ["ConflictError", "NoneType"]
    for store in stores:
        await store.close()


async def test_closing_an_unknown_order_is_a_conflict(store: PostgresStore) -> None:
    with pytest.raises(ConflictError, match="another epoch"):
        await store.commit([commit(event(1), orders=(order(OrderState.CLOSED),))])


async def test_text_that_a_database_cannot_store_is_refused_and_changes_nothing(store: PostgresStore) -> None:
    for reason in ("nul \0", "half \ud800"):
        with pytest.raises(BackendError, match="the store"):
            await store.requests.ask("x1", "pause", reason=reason, at=1.0)
    for name in ("nul \0", "half \ud800"):
        one = commit(event(1))
        with pytest.raises(BackendError, match="the store"):
            await store.commit(
                [msgspec.structs.replace(one, execution=msgspec.structs.replace(one.execution, name=name))]
            )
    assert await store.requests.pending() == []
    assert await store.execution("x1") is None


# migrations


async def test_migrations_run_once_even_if_many_servers_open_an_empty_schema_together() -> None:
    url = fresh_url()
    stores = await asyncio.gather(*(PostgresStore.open(url, connections=1) for _ in range(5)))
    for store in stores:
        await store.close()

    rows = await ran(url, "SELECT number, checksum FROM migration ORDER BY number")
    assert [tuple(row) for row in rows] == [(one.number, one.checksum) for one in known_migrations()]


async def test_a_schema_of_a_newer_version_is_refused(store: PostgresStore, url: str) -> None:
    await ran(url, "INSERT INTO migration VALUES (99, 'future', 'x')")

    for opening in (PostgresStore.open(url), PostgresHistory.open(url)):
        with pytest.raises(BackendError, match="newer noetl"):
            await opening


async def test_a_changed_migration_is_refused(store: PostgresStore, url: str) -> None:
    await ran(url, "UPDATE migration SET checksum = 'x' WHERE number = 1")

    with pytest.raises(BackendError, match="another migration 1"):
        await PostgresStore.open(url)


async def test_a_schema_of_another_program_is_refused_and_left_unchanged() -> None:
    schema = address_of(url := fresh_url()).schema
    await ran(url, f"CREATE SCHEMA {schema}")
    await ran(url, "CREATE TABLE theirs (a int)")

    with pytest.raises(BackendError, match='has "theirs"'):
        await PostgresStore.open(url)

    assert await ran(url, "SELECT 1 WHERE to_regclass('event') IS NULL")


async def test_a_reader_of_a_missing_store_gets_an_error() -> None:
    with pytest.raises(BackendError, match="there is no store"):
        await PostgresHistory.open(fresh_url())


# addresses


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("postgresql://127.0.0.1:1/none", "cannot be reached"),
        ("postgresql://nobody.invalid/none", "cannot be reached"),
        ("postgresql://postgres@/absent?host={socket}", "create the database first"),
        ("postgresql://nobody@/postgres?host={socket}", "does not let us in"),
        ("postgresql://u:secret@h/d?search_path=A%3B", "not one plain schema name"),
        ("postgresql://u:secret@h/d?sslmode=sideways", "failed"),
        ("postgresql://u:secret@[h/d", "not a database address"),
        ("postgresql://u:secret@h:port/d", "the store"),
    ],
)
async def test_a_store_that_cannot_be_opened_is_reported_without_the_password(given: str, message: str) -> None:
    with pytest.raises(BackendError, match=message) as refused:
        await PostgresStore.open(given.format(socket=server().socket))

    assert "secret" not in str(refused.value)


def test_an_address_is_shown_without_its_password() -> None:
    address = address_of("postgresql://ann:secret@db.example:5433/work?search_path=mine&sslmode=require")

    assert address.shown == "postgresql://db.example:5433/work (schema mine)"
    assert address.schema == "mine"
    assert "search_path" not in address.dsn


def test_queries_are_never_concatenated() -> None:
    """Values are parameters everywhere (reliability.md §2.5); the one name that is put in is checked."""
    folder = Path(__file__).parents[2] / "src" / "noetl" / "store" / "postgres"
    built = [line for file in folder.glob("*.py") for line in file.read_text().splitlines() if 'execute(f"' in line]

    assert [line.strip().partition("  #")[0] for line in built] == [
        'await connection.execute(f"CREATE SCHEMA {schema}")'
    ]
