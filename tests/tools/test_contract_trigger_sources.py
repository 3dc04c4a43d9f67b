"""Tools as sources of triggers, each against the real thing: what is new is told once, in order, from a cursor."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import nats
import nats.errors
import pytest
import pytest_asyncio
from nats.aio.client import Client
from nats.js import JetStreamContext

from noetl.base import nats_connections
from noetl.base.errors import ToolError
from noetl.tools.contract import TriggerBatch, TriggerPoll
from noetl.tools.kinds import KINDS
from noetl.tools.messaging.tool import RedisTool
from noetl.tools.nats import NatsTool
from noetl.tools.postgres.tool import PostgresTool
from noetl.tools.registry import BUILT_IN, Registry
from noetl.tools.sql.tool import SqlTool
from noetl.tools.storage.tool import StorageTool
from tests.servers.brokers import PASSWORD, redis_server
from tests.servers.nats import server
from tests.servers.postgres import pg_auth  # noqa: F401  a fixture
from tests.tools.sql_tasks import context


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_connections, "CONNECT_S", 60)


def poll(cursor: Any = None, *, limit: int = 100, trigger_id: str = "t") -> TriggerPoll:
    return TriggerPoll(trigger_id=trigger_id, cursor=cursor, limit=limit)


def values(batch: TriggerBatch) -> list[Any]:
    return [item.value for item in batch.items]


async def test_every_kind_that_declares_a_trigger_can_be_polled() -> None:
    registry = Registry()
    declared = {name for name, kind in KINDS.items() if kind.trigger is not None}

    assert declared <= set(BUILT_IN)
    assert [name for name in sorted(declared) if not hasattr(registry.tool(name), "poll")] == []
    await registry.close()


async def test_files_dropped_into_a_folder_become_items(tmp_path: Path) -> None:
    tool, inputs = StorageTool(), {"url": f"file://{tmp_path}", "pattern": "*.csv"}
    here = context(data_folders=(str(tmp_path),))
    (tmp_path / "a.csv").write_text("1")
    (tmp_path / "ignored.txt").write_text("1")

    first = await tool.poll(inputs, poll(), here)
    (tmp_path / "b.csv.part").write_text("2")
    os.replace(tmp_path / "b.csv.part", tmp_path / "b.csv")
    second = await tool.poll(inputs, poll(first.cursor), here)
    third = await tool.poll(inputs, poll(second.cursor), here)

    assert [one["key"].rpartition("/")[2] for one in values(first) + values(second)] == ["a.csv", "b.csv"]
    assert third.items == ()
    assert (await tool.poll(inputs, poll(), here)).items[0].item_id == first.items[0].item_id
    await tool.close()


class TestRows:
    @pytest.fixture
    def database(self, tmp_path: Path) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as database:
            database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, price INTEGER)")
            yield database

    @pytest_asyncio.fixture
    async def tool(self) -> AsyncIterator[SqlTool]:
        tool = SqlTool()
        yield tool
        await tool.close()

    def inputs(self, query: str = "", cursor: str = "id") -> dict[str, Any]:
        query = query or "SELECT id, item FROM orders WHERE id > :cursor ORDER BY id LIMIT :limit"
        return {"url": "sqlite:///shop.db", "query": query, "cursor": cursor, "start": 1}

    async def test_rows_after_the_cursor_become_items(
        self, tool: SqlTool, database: sqlite3.Connection, tmp_path: Path
    ) -> None:
        here = context(data_folders=(str(tmp_path),))
        database.executemany("INSERT INTO orders (item, price) VALUES (?, 5)", [(f"i{n}",) for n in range(1, 6)])

        first = await tool.poll(self.inputs(), poll(limit=2), here)
        second = await tool.poll(self.inputs(), poll(first.cursor), here)
        third = await tool.poll(self.inputs(), poll(second.cursor), here)

        assert [row["id"] for row in values(first)] == [2, 3], "after the start, at most the limit"
        assert [row["id"] for row in values(second)] == [4, 5]
        assert third.cursor == 5
        assert first.items[0].item_id == "id=2"

    @pytest.mark.parametrize(
        ("query", "cursor", "said"),
        [
            ("SELECT id, price FROM orders WHERE price > :cursor LIMIT :limit", "price", "in two rows"),
            ("SELECT id FROM orders WHERE id > :cursor ORDER BY id DESC LIMIT :limit", "id", "ORDER BY"),
            ("SELECT id FROM orders WHERE id > :cursor ORDER BY id LIMIT :limit", "nr", 'no column "nr"'),
            ("SELECT id, NULL AS nr FROM orders WHERE id > :cursor", "nr", "is null"),
        ],
    )
    async def test_a_cursor_that_would_lose_rows_is_refused(
        self, tool: SqlTool, database: sqlite3.Connection, tmp_path: Path, query: str, cursor: str, said: str
    ) -> None:
        database.executemany("INSERT INTO orders (item, price) VALUES (?, 5)", [(f"i{n}",) for n in range(1, 6)])

        with pytest.raises(ToolError, match=said):
            await tool.poll(self.inputs(query, cursor), poll(), context(data_folders=(str(tmp_path),)))


async def test_rows_of_postgresql_after_a_time_become_items(pg_auth: dict[str, Any]) -> None:  # noqa: F811
    tool, table = PostgresTool(), f"t_{uuid4().hex[:10]}"
    here = context()
    made = f"CREATE TABLE {table} (at timestamptz PRIMARY KEY); INSERT INTO {table} SELECT"
    await tool.run(
        {"command": f"{made} '2026-01-01Z'::timestamptz + n * interval '1 day' FROM generate_series(1, 3) n"}
        | {"auth": pg_auth},
        here,
    )
    inputs = {
        "auth": pg_auth,
        "query": f"SELECT at FROM {table} WHERE at > :cursor ORDER BY at LIMIT :limit",
        "cursor": "at",
        "start": "2026-01-02T00:00:00Z",
    }

    first = await tool.poll(inputs, poll(limit=1), here)
    second = await tool.poll(inputs, poll(first.cursor), here)

    assert [row["at"][:10] for row in values(first) + values(second)] == ["2026-01-03", "2026-01-04"]
    await tool.run({"command": f"DROP TABLE {table}", "auth": pg_auth}, here)
    await tool.close()


@pytest.mark.timeout(600)
async def test_messages_of_a_redis_stream_become_items() -> None:
    tool, key = RedisTool(), f"s:{uuid4().hex[:10]}"
    auth = {"host": "127.0.0.1", "port": redis_server().port, "password": PASSWORD}
    for number in range(3):
        await tool.run({"op": "stream_add", "key": key, "auth": auth, "data": {"n": number}}, context())

    first = await tool.poll({"key": key, "auth": auth}, poll(limit=2), context())
    second = await tool.poll({"key": key, "auth": auth}, poll(first.cursor), context())

    assert [one["value"]["n"] for one in values(first) + values(second)] == [0, 1, 2]
    assert len({item.item_id for item in first.items + second.items}) == 3
    await tool.close()


class TestNats:
    @pytest_asyncio.fixture
    async def client(self) -> AsyncIterator[Client]:
        client = await nats.connect(server().url, connect_timeout=60)
        yield client
        await client.close()

    async def test_messages_are_redelivered_until_they_are_settled(self, client: Client) -> None:
        tool, name = NatsTool(), f"S_{uuid4().hex[:10]}"
        await client.jetstream().add_stream(name=name, subjects=[f"{name}.>"])
        for number in range(3):
            await client.jetstream().publish(f"{name}.orders", b'{"n": %d}' % number)
        await client.jetstream().publish(f"{name}.other", b"x")
        inputs = {"stream": name, "subject": f"{name}.orders", "auth": server().auth}

        first = await tool.poll(inputs, poll(trigger_id="a"), context())
        await tool.settle(inputs, first.items[:1], first.items[1:], context())
        again = await tool.poll(inputs, poll(trigger_id="a"), context())
        await tool.settle(inputs, again.items, (), context())
        other = await tool.poll(inputs, poll(trigger_id="b", limit=1), context())

        assert [one["value"]["n"] for one in values(first)] == [0, 1, 2]
        assert [item.item_id for item in again.items] == [item.item_id for item in first.items[1:]]
        assert (await tool.poll(inputs, poll(trigger_id="a"), context())).items == ()
        assert values(other)[0]["sequence"] == 1, "another trigger has a position of its own"
        await tool.close()

    @pytest.mark.parametrize("told", [TimeoutError, nats.errors.TimeoutError])
    async def test_an_empty_stream_is_recognised_in_both_forms(
        self, client: Client, monkeypatch: pytest.MonkeyPatch, told: type[Exception]
    ) -> None:
        tool, name = NatsTool(), f"S_{uuid4().hex[:10]}"
        await client.jetstream().add_stream(name=name, subjects=[f"{name}.>"])

        # Which of the two the client raises depends on whether the server's own answer comes before its time is up.
        async def fetch(*_: Any, **__: Any) -> None:
            raise told

        monkeypatch.setattr(JetStreamContext.PullSubscription, "fetch", fetch)

        found = await tool.poll({"stream": name, "auth": server().auth}, poll(trigger_id="a"), context())

        assert found.items == ()
        await tool.close()

    async def test_an_unknown_stream_is_an_error(self) -> None:
        tool = NatsTool()

        with pytest.raises(ToolError, match='there is no stream "nowhere"'):
            await tool.poll({"stream": "nowhere", "auth": server().auth}, poll(), context())
        await tool.close()

    async def test_a_credential_can_be_tested(self) -> None:
        tool = NatsTool()

        assert "connected to NATS" in await tool.check({"auth": server().auth}, context())
        await tool.close()
