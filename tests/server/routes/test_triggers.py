"""Triggers on a real server: files and messages start playbooks, exactly once, also across servers and restarts."""

from __future__ import annotations

import asyncio
import os
import secrets
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client

from noetl.base import nats_connections
from noetl.control import triggers as module
from noetl.tools.storage.tool import StorageTool
from tests.engine_script import HEAD
from tests.server.live import live
from tests.servers.nats import server
from tests.servers.object_stores import s3_bucket
from tests.tools.sql_tasks import outcome_of

PLAYBOOK = HEAD + "workload: {item: {}}\nworkflow: [{step: start, tool: {kind: noop}}]\n"
PATH = "tests/test"
ROWS_AFTER = "SELECT id FROM orders WHERE id > :cursor ORDER BY id LIMIT :limit"
LIST = f"/api/executions?path={PATH}&limit=200"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.1)
    monkeypatch.setattr(nats_connections, "CONNECT_S", 60)


async def registered(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/api/catalog", content=PLAYBOOK, headers={"content-type": "text/yaml"})
    assert answer.status_code == 201, answer.text


async def made(client: httpx2.AsyncClient, **wanted: Any) -> dict[str, Any]:
    body = {"name": "drop", "path": PATH, "interval": 0.1, **wanted}
    answer = await client.post("/api/triggers", json=body)
    assert answer.status_code == 201, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def until(holds: Callable[[], Awaitable[Any]]) -> Any:
    """Wait for it; the test's own timeout says when that was too long."""
    while not (found := await holds()):
        await asyncio.sleep(0.05)
    return found


async def items(client: httpx2.AsyncClient) -> list[Any]:
    """What the executions of the playbook were started with."""
    rows = (await client.get(LIST)).json()["executions"]
    details = [(await client.get(f"/api/executions/{one['execution_id']}")).json() for one in rows]
    return [one["payload"]["item"] for one in details]


async def seen(client: httpx2.AsyncClient, count: int) -> list[Any]:
    async def enough() -> list[Any]:
        found = await items(client)
        return found if len(found) >= count else []

    return list(await until(enough))


def dropped(folder: Path, name: str, text: str = "x") -> None:
    (folder / f".{name}").write_text(text)
    os.replace(folder / f".{name}", folder / name)


async def test_a_file_trigger_starts_a_playbook_and_can_be_paused(tmp_path: Path) -> None:
    async with live(data_folders=(str(tmp_path),)) as (_, client, _talk):
        await registered(client)
        await made(client, kind="storage", inputs={"url": f"file://{tmp_path}", "pattern": "*.csv"})

        dropped(tmp_path, "a.csv")
        [item] = await seen(client, 1)
        assert item["key"].endswith("a.csv")

        assert (await client.post("/api/triggers/drop/pause")).json()["paused"] is True
        await asyncio.sleep(0.3)  # a look that was under way may still find the next file
        dropped(tmp_path, "b.csv")
        await asyncio.sleep(0.3)
        assert len(await items(client)) == 1
        await client.post("/api/triggers/drop/resume")
        assert len(await seen(client, 2)) == 2

        told = (await client.get("/api/triggers/drop")).json()
        assert (told["started"], told["dead_letters"], told["error"]) == (2, 0, None)
        assert (await client.delete("/api/triggers/drop")).status_code == 204
        assert (await client.get("/api/triggers/drop")).status_code == 404


@pytest.mark.parametrize("source", ["rows", "objects"])
async def test_each_row_and_object_starts_one_execution_across_a_restart(tmp_path: Path, source: str) -> None:
    database, bucket = tmp_path / "shop.sqlite", s3_bucket() if source == "objects" else None
    with closing(sqlite3.connect(database)) as rows, rows:
        rows.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")

    async def appear(numbers: range) -> None:
        if bucket is None:
            with closing(sqlite3.connect(database)) as rows, rows:
                rows.executemany("INSERT INTO orders VALUES (?)", [(number,) for number in numbers])
            return
        tool = StorageTool()
        for number in numbers:
            inputs = {"op": "put", "url": f"{bucket.url}/in/{number:03}", "data": "x", "auth": bucket.auth}
            assert (await outcome_of(tool, inputs)).error is None
        await tool.close()

    def number_of(item: Any) -> int:
        return int(item["id"] if bucket is None else item["key"].rpartition("/")[2])

    wanted: dict[str, Any] = {
        "kind": "sql",
        "inputs": {"url": f"sqlite:///{database.name}", "query": ROWS_AFTER, "cursor": "id", "start": 0},
    }
    if bucket is not None:
        wanted = {"kind": "storage", "inputs": {"url": f"{bucket.url}/in/", "auth": "lake"}}
    kept = {"db": str(tmp_path / "kept.db"), "data_folders": (str(tmp_path),)}
    async with live(**kept) as (served, client, _talk):
        await registered(client)
        if bucket is not None:
            put = await client.put("/api/credentials/lake", json={"value": bucket.auth, "type": "s3"})
            assert put.status_code == 200, put.text
        await made(client, **wanted, max_running=50)
        await appear(range(1, 11))
        await seen(client, 3)  # and away in the middle
        token = served.first_token
    await appear(range(11, 16))
    async with live_again(kept) as url:
        known = {"authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(base_url=url, headers=known, timeout=500, trust_env=False) as again:
            await seen(again, 15)
            await asyncio.sleep(0.5)  # whatever would come twice
            assert sorted(map(number_of, await items(again))) == list(range(1, 16))


class TestMessages:
    @pytest_asyncio.fixture
    async def stream(self) -> AsyncIterator[tuple[str, Client]]:
        client, name = await nats.connect(server().url, connect_timeout=60), f"S_{uuid4().hex[:10]}"
        await client.jetstream().add_stream(name=name, subjects=[name])
        yield name, client
        await client.jetstream().delete_stream(name)
        await client.close()

    async def sent(self, stream: tuple[str, Client], numbers: range) -> None:
        for number in numbers:
            await stream[1].jetstream().publish(stream[0], b'{"n": %d}' % number)

    async def credential(self, client: httpx2.AsyncClient) -> None:
        put = await client.put("/api/credentials/bus", json={"value": {"url": server().url}, "type": "nats"})
        assert put.status_code == 200, put.text

    async def test_each_message_starts_one_execution_across_a_restart(
        self, stream: tuple[str, Client], tmp_path: Path
    ) -> None:
        kept = {"db": str(tmp_path / "kept.db")}
        async with live(**kept) as (served, client, _talk):
            await registered(client)
            await self.credential(client)
            wanted = {"kind": "nats", "inputs": {"stream": stream[0], "auth": "bus"}, "max_running": 50}
            await made(client, **wanted)
            await self.sent(stream, range(10))
            await seen(client, 3)  # and away in the middle
            token = served.first_token
        await self.sent(stream, range(10, 15))
        async with live_again(kept) as url:
            known = {"authorization": f"Bearer {token}"}
            async with httpx2.AsyncClient(base_url=url, headers=known, timeout=500, trust_env=False) as again:
                await seen(again, 15)
                await asyncio.sleep(0.5)  # whatever would come twice
                assert sorted(item["value"]["n"] for item in await items(again)) == list(range(15))

    async def test_two_servers_share_the_messages(self, stream: tuple[str, Client], tmp_path: Path) -> None:
        kept = {"db": str(tmp_path / "kept.db")}
        async with live(**kept) as (_, client, _talk), live_again(kept):
            await registered(client)
            await self.credential(client)
            await made(client, kind="nats", inputs={"stream": stream[0], "auth": "bus"}, max_running=50)
            await self.sent(stream, range(20))

            await seen(client, 20)
            await asyncio.sleep(0.3)
            assert sorted(item["value"]["n"] for item in await items(client)) == list(range(20))

    async def test_a_lost_source_is_reported_and_nothing_is_lost(self, stream: tuple[str, Client]) -> None:
        async with live() as (_, client, _talk):
            await registered(client)
            await client.put("/api/credentials/bus", json={"value": {"url": "nats://127.0.0.1:1"}, "type": "nats"})
            await made(client, kind="nats", inputs={"stream": stream[0], "auth": "bus"})
            await self.sent(stream, range(1))

            async def error() -> Any:
                return (await client.get("/api/triggers/drop")).json()["error"]

            assert "cannot be reached" in await until(error)
            await self.credential(client)
            assert len(await seen(client, 1)) == 1
            await until(lambda: _is_well(client))


async def _is_well(client: httpx2.AsyncClient) -> bool:
    return (await client.get("/api/triggers/drop")).json()["error"] is None


def live_again(kept: dict[str, Any]) -> Any:
    """A second server on the same store, where the first has made the tokens."""
    from contextlib import asynccontextmanager

    from noetl.server.configuration import ServerSettings
    from noetl.server.server_process import serving

    @asynccontextmanager
    async def other() -> AsyncIterator[str]:
        async with serving(ServerSettings(**kept, port=0, local=True, poll_s=0.1, drain_s=2)) as served:
            yield served.url

    return other()


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"kind": "http", "inputs": {}}, "cannot be a trigger: choose one of"),
        ({"kind": "storage", "inputs": {"uri": "x"}}, 'has no input "uri"'),
        ({"kind": "storage", "inputs": {}}, 'needs the input "url"'),
        (
            {"kind": "storage", "inputs": {"url": "file:///x"}, "path": "no/where"},
            'no playbook "no/where" here: register it',
        ),
        ({"kind": "storage", "inputs": {"url": "file:///x"}, "path": f"{PATH}s"}, f'here: did you mean "{PATH}"?'),
        ({"kind": "storage", "inputs": {"url": "file:///x"}, "interval": "soon"}, "interval"),
        ({"kind": "storage", "inputs": {"url": "file:///x"}, "max_running": 0}, "max_running"),
        ({"kind": "storage", "inputs": {"url": "file:///x"}, "name": "a b"}, "letters, digits"),
        ({"kind": "nats", "inputs": {"stream": "s", "auth": {"password": "x"}}}, "the name of a stored credential"),
        ({"kind": "nats", "inputs": {"stream": "s", "auth": "nats://u:p@h"}}, "the name of a stored credential"),
    ],
)
async def test_an_unworkable_trigger_is_refused(wanted: dict[str, Any], said: str) -> None:
    async with live() as (_, client, _talk):
        await registered(client)

        answer = await client.post("/api/triggers", json={"name": "drop", "path": PATH, **wanted})

        assert answer.status_code == 409, answer.text
        assert said in answer.json()["detail"]
        assert (await client.get("/api/triggers")).json() == {"triggers": []}


async def test_the_list_of_kinds_shows_which_can_be_polled_and_their_inputs() -> None:
    async with live() as (_, client, _talk):
        await registered(client)
        kinds = (await client.get("/api/kinds")).json()["kinds"]
        refused = await client.post("/api/triggers", json={"name": "drop", "path": PATH, "kind": "mqtt"})

    forms = {kind["name"]: kind["trigger"] for kind in kinds if kind["trigger"]}
    assert refused.json()["detail"].endswith(f"choose one of {', '.join(sorted(forms))}")
    assert "mqtt" not in forms
    assert [(field["name"], field["control"], field["required"]) for field in forms["nats"]["inputs"]][:2] == [
        ("stream", "text", True),
        ("subject", "text", False),
    ]


async def test_a_trigger_of_a_kind_without_its_package_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("noetl.tools.registry.is_installed", lambda extra: extra != "storage")
    async with live() as (_, client, _talk):
        await registered(client)
        wanted = {"name": "drop", "path": PATH, "kind": "storage", "inputs": {"url": "file:///x"}}

        answer = await client.post("/api/triggers", json=wanted)

        assert answer.status_code == 409, answer.text
        assert 'pip install "noetl-engine[storage]"' in answer.json()["detail"]
        assert (await client.get("/api/triggers")).json() == {"triggers": []}


async def test_no_secret_of_a_trigger_credential_is_revealed(tmp_path: Path) -> None:
    """A broker that repeats what it was given, 50 times."""
    canaries = [secrets.token_hex(16) for _ in range(50)]
    db = tmp_path / "kept.db"

    async def repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.10.0","max_payload":1048576,"auth_required":true}\r\n')
        connect = await reader.readline()
        token = connect.decode().partition('"auth_token":"')[2].partition('"')[0] or connect.decode().strip()
        writer.write(f"-ERR 'Authorization Violation {token}'\r\n".encode())
        await writer.drain()
        writer.close()

    hostile = await asyncio.start_server(repeat, "127.0.0.1", 0)
    port = hostile.sockets[0].getsockname()[1]
    told = ""
    async with live(db=str(db)) as (_, client, _talk):
        await registered(client)
        for number, canary in enumerate(canaries):
            value = {"url": f"nats://127.0.0.1:{port}", "token": canary}
            await client.put(f"/api/credentials/c{number}", json={"value": value, "type": "nats"})
            inputs = {"stream": "s", "auth": f"c{number}"}
            await made(client, name=f"t{number}", kind="nats", inputs=inputs, interval=60)

        async def all_failed() -> bool:
            found = (await client.get("/api/triggers")).json()["triggers"]
            return all(one["error"] for one in found)

        await until(all_failed)
        told = (await client.get("/api/triggers")).text
    hostile.close()
    files = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert "nats" in told
    assert [one for one in canaries if one in told or one.encode() in files] == []
