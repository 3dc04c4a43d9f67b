"""A real server on a free port: fixtures run over HTTP, restarts lose nothing, stopping is orderly."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from noetl.base.errors import RefusedError
from noetl.operations.administration_shapes import Role
from noetl.operations.tokens import TokenRequest
from noetl.server.configuration import ServerSettings
from noetl.server.server_process import Served, bound, serve, serving, url_of
from noetl.store.open_store import open_store
from noetl.tools.registry import Registry
from noetl.worker.remote_worker import RemoteWorker, WorkerSpec
from tests.fixtures.running import PASSWORD, Tables, fixture
from tests.fixtures.v2_eval_surroundings import ELIDED, ROWS, TABLES, A, B
from tests.server.held_executions import until_status
from tests.server.live import live
from tests.server.logging_kept import logging_kept
from tests.servers.certificates import certificate  # noqa: F401  a fixture
from tests.servers.http import HttpServer
from tests.servers.postgres import pg_auth  # noqa: F401  a fixture

HELD = """
workflow:
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: work}]}
  - step: work
    tool: [{name: work, kind: python, code: "result = 1 + 1"}]
"""


@pytest.mark.req("SRV-09", "WRK-08")
async def test_a_server_fetches_and_stores_pages(
    pg_auth: dict[str, Any],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """F-000-E, registered, started and read over HTTP; http, postgres and its secret are real."""
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    tables = Tables(pg_auth, TABLES)
    async with live(workers=4) as (_, client, talk), HttpServer({"/a": list(A), "/b": B}) as endpoint:
        stored = await client.put("/api/credentials/pg_k8s", json={"type": "postgres", "value": tables.auth})
        assert stored.status_code == 200, stored.text
        registered = await client.post("/api/catalog", json={"source": fixture("F-000-E", ELIDED["F-000-E"])})
        assert registered.status_code == 201, registered.text
        told = await talk.start(registered.json()["path"], {"api_url": endpoint.url}, wait=60)
        events = await client.get(f"/api/executions/{told['execution_id']}/events", params={"limit": 1000})

        assert told["status"] == "completed", told
        assert tables.rows("pages") == ROWS
        assert PASSWORD not in events.text
        assert [one["name"] for one in events.json()["events"]].count("loop.iteration.done") == 2


@pytest.mark.req("SRV-12", "SRV-01")
async def test_the_next_server_completes_what_the_previous_accepted(tmp_path: Path) -> None:
    db = str(tmp_path / "store.db")
    async with live(workers=0, db=db) as (first, client, talk):
        await talk.register(HELD)
        execution_id = (await talk.start())["execution_id"]
        token = first.first_token
    async with serving(ServerSettings(db=db, port=0, workers=2, local=True, poll_s=0.1)) as second:
        assert second.first_token is None
        headers = {"authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(base_url=second.url, headers=headers, timeout=60, trust_env=False) as client:
            async with asyncio.timeout(60):
                while (await client.get(f"/api/executions/{execution_id}")).json()["status"] != "completed":
                    await asyncio.sleep(0.05)
            result = (await client.get(f"/api/executions/{execution_id}/result")).json()
            events = (await client.get(f"/api/executions/{execution_id}/events")).json()["events"]

    assert result["result"] == 2
    assert [one["name"] for one in events[:3]] == [
        "playbook.execution_requested",
        "playbook.request_evaluated",
        "workflow.started",
    ]


async def test_two_servers_on_one_file_share_the_work(tmp_path: Path) -> None:
    """One takes requests, the other has the worker."""
    db = str(tmp_path / "store.db")
    async with (
        live(workers=0, db=db) as (_, _, talk),
        serving(ServerSettings(db=db, port=0, workers=2, local=True, poll_s=0.1)),
    ):
        await talk.register(HELD)
        ids = [(await talk.start())["execution_id"] for _ in range(5)]
        for execution_id in ids:
            await until_status(talk, execution_id, "completed")


async def test_open_streams_and_polls_do_not_delay_the_stop_of_a_server() -> None:
    """It would wait for an hour for who is being answered."""
    async with asyncio.timeout(110), live(workers=0, drain_s=3_600) as (_, client, talk):
        await talk.register(HELD)
        execution_id = (await talk.start())["execution_id"]
        reading = asyncio.create_task(_read(client, f"/api/executions/{execution_id}/stream"))
        watching = asyncio.create_task(_read(client, "/api/stream"))
        while "noetl_streams 2.0" not in (await client.get("/metrics")).text:
            await asyncio.sleep(0.02)
        client_held = talk._clients
        talk._clients = []  # closed below, once the server has stopped
    await asyncio.gather(reading, watching, return_exceptions=True)
    for one in client_held:
        await one.aclose()


async def _read(client: httpx2.AsyncClient, url: str) -> None:
    async with client.stream("GET", url) as answer:
        async for _ in answer.aiter_bytes():
            pass


async def test_serve_reports_its_address_and_ends_on_request(tmp_path: Path) -> None:
    stop, told = asyncio.Event(), asyncio.get_running_loop().create_future()
    settings = ServerSettings(db=str(tmp_path / "store.db"), port=0, local=True)

    async def ready(served: Served) -> None:
        told.set_result(served)

    with logging_kept():
        serving_task = asyncio.create_task(serve(settings, ready=ready, stop=stop))
        served: Served = await told
        async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
            assert (await client.get(f"{served.url}/api/health/live")).status_code == 200
        stop.set()
        async with asyncio.timeout(60):
            await serving_task
    assert served.port > 0


async def test_a_port_in_use_is_refused_in_plain_words() -> None:
    with (
        bound("127.0.0.1", 0) as taken,
        pytest.raises(RefusedError, match="choose another --port"),
        bound("127.0.0.1", taken.getsockname()[1]),
    ):
        pass


async def test_a_start_that_cannot_listen_leaves_the_first_token_to_the_next(tmp_path: Path) -> None:
    """It is shown once: one that nobody has seen would lock everybody out."""
    settings = ServerSettings(db=str(tmp_path / "store.db"), port=0)
    with bound("127.0.0.1", 0) as taken, pytest.raises(RefusedError, match="choose another --port"):
        async with serving(msgspec.structs.replace(settings, port=taken.getsockname()[1])):
            pass
    missing = msgspec.structs.replace(settings, tls_cert=str(tmp_path / "cert.pem"), tls_key=str(tmp_path / "key.pem"))
    with pytest.raises(RefusedError, match=r"the certificate .*cert\.pem .*cannot be used: "):
        async with serving(missing):
            pass

    async with serving(settings) as served:
        assert served.first_token is not None


async def test_listening_publicly_without_tls_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"0\.0\.0\.0"):
        async with serving(ServerSettings(db=str(tmp_path / "s.db"), host="0.0.0.0", port=0)):
            pass


@pytest.mark.parametrize(
    ("host", "tls", "url"),
    [
        ("127.0.0.1", False, "http://127.0.0.1:1"),
        ("0.0.0.0", True, "https://127.0.0.1:1"),
        ("::1", False, "http://[::1]:1"),
        ("noetl.example", True, "https://noetl.example:1"),
    ],
)
def test_the_printed_address_is_reachable(host: str, tls: bool, url: str) -> None:
    assert url_of(host, 1, tls=tls) == url


NESTING = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: parent, path: tests/parent}
workflow:
  - step: start
    tool: [{name: nested, kind: playbook, path: tests/child, args: {n: 3000}}]
    next: {arcs: [{step: end}]}
  - step: end
    tool: [{name: count, kind: python, args: {rows: "{{ start.data }}"}, code: "result = len(rows)"}]
"""
CHILD = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: child, path: tests/child}
workload: {n: 1}
workflow:
  - step: start
    tool: [{name: make, kind: python, args: {n: "{{ workload.n }}"}, code: "result = ['x' * 100] * n"}]
"""


@pytest.mark.req("WRK-01", "WRK-06", "TOOL-11", "RES-01")
async def test_a_remote_worker_runs_nested_playbooks_with_large_results() -> None:
    """Everything it needs comes over HTTP: orders, nets, stored values, the child's end."""
    async with live(workers=0) as (served, client, talk):
        for text in (NESTING, CHILD):
            assert (await client.post("/api/catalog", json={"source": text})).status_code == 201
        wanted = TokenRequest(subject="worker", role=Role.WORKER, pools=("default",))
        token, _ = await served.services.access.tokens.create(wanted)
        station = RemoteWorker(WorkerSpec(url=served.url, name="far", token=token), Registry())
        working = asyncio.create_task(station.serve())
        told = await talk.start("tests/parent", wait=60)
        listed = (await talk.get("/api/workers"))["workers"]
        station.drain()
        async with asyncio.timeout(60):
            assert await working == 0
        gone = (await talk.get("/api/workers"))["workers"]

    assert (told["status"], told["result"]) == ("completed", 3000)
    assert [row["worker_id"].partition(":")[0] for row in listed] == ["far"]
    assert gone == []


async def test_https_uses_the_certificate_of_the_operator(certificate: Path) -> None:  # noqa: F811
    async with (
        live(workers=0, tls_cert=str(certificate), tls_key=str(certificate)) as (served, _, _),
        httpx2.AsyncClient(verify=False, timeout=60, trust_env=False) as client,
    ):
        answer = await client.get(f"{served.url}/api/health/live")

    assert served.url.startswith("https://127.0.0.1:")
    assert answer.status_code == 200
    assert "strict-transport-security" in answer.headers


async def test_responses_are_not_delayed_by_nagle() -> None:
    """A listening socket that is not named as TCP costs 40 ms an answer: Nagle and delayed acknowledgement."""
    with bound("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


async def test_a_stopping_server_lets_its_own_worker_finish(tmp_path: Path) -> None:
    db, begun, gate = str(tmp_path / "store.db"), tmp_path / "begun", tmp_path / "gate"
    code = f"import os, time; open('{begun}', 'w')\nwhile not os.path.exists('{gate}'): time.sleep(0.01)"

    async def open_once_it_stops(served: Served) -> None:
        with suppress(OSError):
            while True:
                _, writer = await asyncio.open_connection(served.host, served.port)
                writer.close()
                await asyncio.sleep(0.01)
        gate.touch()

    async with live(workers=1, db=db, drain_s=60) as (served, _, talk):
        await talk.register(HELD.replace('"result = 1 + 1"', json.dumps(code)))
        execution_id = (await talk.start())["execution_id"]
        async with asyncio.timeout(60):
            while not begun.exists():
                await asyncio.sleep(0.01)
        opening = asyncio.create_task(open_once_it_stops(served))
    await opening
    store, _ = await open_store(db)
    try:
        row = await store.execution(execution_id)
        assert row is not None
        assert row.status == "completed"
    finally:
        await store.close()
