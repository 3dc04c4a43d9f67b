"""The audit log: every change and every refusal, without bodies, in a chain that shows tampering (reliability.md
§3.9)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from noetl.base.errors import BackendError
from noetl.operations.administration_shapes import Role
from noetl.store.audit import ORIGIN, AuditEntry, AuditRow, walked
from noetl.store.contract import Store
from noetl.store.postgres.store import PostgresStore
from noetl.store.sqlite.store import SqliteStore
from tests.contracts.stores import BACKENDS, fresh_url, opened
from tests.server.access.ground import Ground

REST = "at, actor, action, object, address, outcome, prev_hash, hash"


def entry(number: int) -> AuditEntry:
    return AuditEntry(
        at=number + 0.1, actor="ann", action="POST /api/x", object=f"/api/x/{number}", address="::1", outcome="200"
    )


@pytest_asyncio.fixture(params=BACKENDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with opened(request.param, tmp_path) as one:
        yield one


async def test_audit_rows_are_chained_in_order_and_paged(store: Store) -> None:
    await store.audit.append([entry(1), entry(2)])
    await store.audit.append([entry(3)])

    rows = await store.audit.newest(limit=2)
    assert [row.seq for row in rows] == [3, 2]
    assert [row.seq for row in await store.audit.newest(before=2)] == [1]
    first, second, third = await store.audit.onward(after=0)
    assert first.prev_hash == ORIGIN
    assert (second.prev_hash, third.prev_hash) == (first.hash, second.hash)
    assert [row.seq for row in await store.audit.onward(after=1, limit=1)] == [2]
    walk = await walked(store.audit)
    assert (walk.rows, walk.last_hash, walk.broken_at) == (3, third.hash, None)


async def test_an_empty_audit_log_is_intact(store: Store) -> None:
    assert (await walked(store.audit)).last_hash == ORIGIN


async def test_a_log_longer_than_a_page_is_verified_to_its_end(store: Store) -> None:
    await store.audit.append([entry(number) for number in range(2_001)])

    assert (await walked(store.audit)).rows == 2_001


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET outcome = '200' WHERE seq = 2",
        "DELETE FROM audit WHERE seq = 3",
        "INSERT OR REPLACE INTO audit SELECT * FROM audit WHERE seq = 2",
        f"INSERT INTO audit SELECT 9, {REST} FROM audit WHERE seq = 1",
        f"INSERT INTO audit SELECT 4, {REST} FROM audit WHERE seq = 1",
    ],
)
async def test_the_database_refuses_any_change_but_appending(tmp_path: Path, statement: str) -> None:
    store = SqliteStore.open(tmp_path / "store.db")
    await store.audit.append([entry(1), entry(2), entry(3)])

    with pytest.raises(sqlite3.IntegrityError):
        store._db.execute(statement)

    assert (await walked(store.audit)).rows == 3
    await store.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET outcome = '200' WHERE seq = 2",
        "DELETE FROM audit WHERE seq = 3",
        "TRUNCATE audit",
        f"INSERT INTO audit SELECT 9, {REST} FROM audit WHERE seq = 1",
        f"INSERT INTO audit SELECT 4, {REST} FROM audit WHERE seq = 1",
    ],
)
async def test_postgresql_refuses_any_change_but_appending(statement: str) -> None:
    store = await PostgresStore.open(fresh_url())
    await store.audit.append([entry(1), entry(2), entry(3)])

    with pytest.raises(BackendError):
        await store._db.write(lambda connection: connection.execute(statement))

    assert (await walked(store.audit)).rows == 3
    await store.close()


async def test_two_servers_append_to_one_chain() -> None:
    url = fresh_url()
    one, other = await PostgresStore.open(url), await PostgresStore.open(url)
    await asyncio.gather(*(store.audit.append([entry(number)]) for number in range(20) for store in (one, other)))

    assert (await walked(one.audit)).rows == 40
    await one.close()
    await other.close()


@pytest.mark.parametrize(
    ("tampering", "broken_at", "why"),
    [
        ("UPDATE audit SET actor = 'bob' WHERE seq = 2", 2, "changed"),
        ("UPDATE audit SET at = at + 1 WHERE seq = 1", 1, "changed"),
        ("DELETE FROM audit WHERE seq = 2", 3, "missing"),
        ("UPDATE audit SET hash = printf('%064d', 7) WHERE seq = 1", 1, "changed"),
        ("DELETE FROM audit WHERE seq = 1", 2, "missing"),
        ("UPDATE audit SET seq = seq - 1 WHERE seq > 0; DELETE FROM audit WHERE seq = 0", 1, "follow"),
    ],
)
async def test_tampering_past_the_triggers_breaks_the_chain(
    tmp_path: Path, tampering: str, broken_at: int, why: str
) -> None:
    store = SqliteStore.open(tmp_path / "store.db")
    await store.audit.append([entry(1), entry(2), entry(3)])
    for name in ("audit_is_never_changed", "audit_is_never_deleted", "audit_is_a_chain"):
        store._db.execute(f"DROP TRIGGER {name}")
    store._db.executescript(tampering)

    walk = await walked(store.audit)

    assert walk.broken_at == broken_at
    assert walk.why is not None
    assert why in walk.why
    await store.close()


async def test_two_processes_append_to_one_chain(tmp_path: Path) -> None:
    one, other = SqliteStore.open(tmp_path / "store.db"), SqliteStore.open(tmp_path / "store.db")
    for number in range(5):
        await one.audit.append([entry(number)])
        await other.audit.append([entry(number)])

    assert (await walked(one.audit)).rows == 10
    await one.close()
    await other.close()


def told(row: AuditRow) -> tuple[str, str, str, str]:
    return row.actor, row.action, row.object, row.outcome


async def test_changes_and_refusals_are_recorded_and_reads_are_not() -> None:
    ground = Ground()
    async with await ground.as_(Role.AUTHOR) as author, ground.client() as stranger:
        await author.get("/api/catalog")
        await author.post("/api/catalog", content=b"a body nobody writes down")
        await author.get("/api/tokens?token=nobody-writes-this-down")
        await stranger.get("/api/secret-place")
        await author.get("/api/nothing")

    rows = await ground.store.audit.onward(after=0)
    assert [told(row) for row in rows] == [
        ("a author", "POST /api/catalog", "/api/catalog", "200"),
        ("a author", "GET /api/tokens", "/api/tokens", "403"),
        ("-", "GET unknown", "/api/secret-place", "401"),
    ]
    assert {row.address for row in rows} == {"192.0.2.7"}
    assert "nobody" not in str(rows)


async def test_a_sign_in_is_recorded_under_the_name_of_the_user() -> None:
    ground = Ground()
    async with ground.client() as browser:
        await browser.post("/api/session", json={"token": await ground.token(Role.VIEWER)})
        await browser.post("/api/session", json={"token": "wrong"}, headers={"cookie": ""})

    rows = await ground.store.audit.onward(after=0)
    assert [(row.actor, row.outcome) for row in rows] == [("a viewer", "201"), ("-", "401")]


async def test_requests_that_end_together_are_recorded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    ground, batches = Ground(), []
    append = ground.store.audit.append

    async def counted(entries: list[AuditEntry]) -> None:
        batches.append(len(entries))
        await append(entries)

    monkeypatch.setattr(ground.store.audit, "append", counted)
    async with await ground.as_(Role.AUTHOR) as author:
        await asyncio.gather(*(author.post("/api/catalog") for _ in range(20)))

    assert sum(batches) == 20
    assert len(batches) < 20


async def test_entries_gather_while_a_batch_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    ground, batches = Ground(), []
    append = ground.store.audit.append

    async def slow(entries: list[AuditEntry]) -> None:
        batches.append(len(entries))
        for _ in range(50):
            await asyncio.sleep(0)
        await append(entries)

    monkeypatch.setattr(ground.store.audit, "append", slow)
    async with await ground.as_(Role.AUTHOR) as author:

        async def later(number: int) -> None:
            for _ in range(number):
                await asyncio.sleep(0)
            await author.post("/api/catalog")

        await asyncio.gather(*(later(number) for number in range(40)))

    assert sum(batches) == 40
    assert len(batches) < 15
    assert (await walked(ground.store.audit)).rows == 40


async def test_a_disconnected_client_does_not_cancel_the_batch_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    ground, begun = Ground(), asyncio.Event()
    append = ground.store.audit.append

    async def slow(entries: list[AuditEntry]) -> None:
        begun.set()
        for _ in range(20):
            await asyncio.sleep(0)
        await append(entries)

    monkeypatch.setattr(ground.store.audit, "append", slow)
    scope = {"path": "/api/x", "client": ("::1", 1)}
    desk = ground.access.audit
    first = asyncio.ensure_future(desk.record(scope, actor="a", action="POST /api/x", status=200))
    other = asyncio.ensure_future(desk.record(scope, actor="b", action="POST /api/x", status=200))
    await begun.wait()
    first.cancel()
    await other

    assert {row.actor for row in await ground.store.audit.newest()} == {"a", "b"}


async def test_a_change_that_cannot_be_recorded_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    ground = Ground()

    async def full(entries: list[AuditEntry]) -> None:
        raise BackendError("the disk is full")

    monkeypatch.setattr(ground.store.audit, "append", full)
    async with await ground.as_(Role.AUTHOR) as author, ground.client() as stranger:
        assert (await author.post("/api/catalog")).status_code == 503
        assert (await author.get("/api/catalog")).status_code == 200
        assert (await stranger.get("/api/catalog")).status_code == 503


async def test_administrators_read_and_verify_the_audit_log_over_http() -> None:
    ground = Ground()
    async with await ground.as_(Role.AUTHOR) as author, await ground.as_(Role.ADMIN) as admin:
        for _ in range(3):
            await author.post("/api/catalog")
        page = (await admin.get("/api/audit?limit=2")).json()
        assert [row["seq"] for row in page["rows"]] == [3, 2]
        rest = (await admin.get(f"/api/audit?limit=2&cursor={page['next']}")).json()
        assert ([row["seq"] for row in rest["rows"]], rest["next"]) == ([1], None)
        assert (await admin.get("/api/audit/verify")).json()["rows"] == 3
        for wrong in ("limit=0", "limit=1001", "cursor=x", "cursor=-1"):
            assert (await admin.get(f"/api/audit?{wrong}")).status_code == 422


async def test_a_long_or_unusual_path_is_recorded_in_a_plain_form() -> None:
    ground = Ground()
    async with ground.client() as stranger:
        await stranger.get("/" + "x" * 5_000)
        await stranger.get("/%E2%80%AE" + "%ff")

    rows = await ground.store.audit.onward(after=0)
    assert len(rows[0].object) == 500
    assert all(row.object.isprintable() for row in rows)


async def test_a_page_that_checks_the_session_records_no_refusal() -> None:
    ground = Ground()
    async with ground.client() as page:
        assert (await page.get("/api/session")).status_code == 401
        assert (await page.get("/api/catalog")).status_code == 401
        assert (await page.get("/api/session", headers={"authorization": "Bearer noetl_x"})).status_code == 401

    rows = await ground.store.audit.onward(after=0)
    assert [row.action for row in rows] == ["GET /api/catalog", "GET /api/session"]


async def test_a_new_token_is_recorded_with_its_subject_and_without_its_text() -> None:
    ground = Ground()
    async with ground.client(authorization=f"Bearer {await ground.token(Role.ADMIN)}") as admin:
        answer = await admin.post("/api/tokens", json={"subject": "tim", "role": "operator", "expires_in_s": 60})

    made = answer.json()
    (row,) = await ground.store.audit.onward(after=0)
    assert row.object == (
        f"/api/tokens?subject=tim&role=operator&expires_at={made['expires_at']}&token_id={made['token_id']}"
    )
    assert made["token"] not in str(row)
