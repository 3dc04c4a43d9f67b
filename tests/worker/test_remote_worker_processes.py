"""Workers as processes of their own: no port, no store, and the same log as a run in one process (WRK-01, 06, 08)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.client import Client
from noetl.events.envelope import Event
from noetl.events.tokens import TokenClaimed
from tests.cli.processes_here import Here, here
from tests.fixtures.running import PASSWORD, Tables, fixture
from tests.fixtures.v2_eval_surroundings import ELIDED, ROWS, TABLES, A, B
from tests.narrowing import payloads
from tests.servers import postgres
from tests.servers.http import HttpServer, reply
from tests.servers.postgres import pg_auth  # noqa: F401  a fixture

# Those that end by themselves and need neither endpoints nor databases; the others run above and in tests/fixtures.
PLAIN = (
    *("F-000-A", "F-000-B", "F-000-C", "F-000-D", "F-001-A", "F-002-E", "F-002-G1", "F-002-G2", "F-002-H", "F-002-I"),
    *("F-004-B", "F-004-C", "F-004-D", "F-R-JOIN", "F-R-SAGA"),
)
# What others wait for in real time is waited for here as well, but not as long.
SHORTER = {"F-002-H": {"delay: 5s": "delay: 100ms"}, "F-004-C": {"delay: 1.0": "delay: 0.05"}}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    folder = tmp_path_factory.mktemp("distributed")
    with here(folder) as place:
        place.server("--allow-address", "127.0.0.1", NOETL_MASTER_KEY_FILE=str(_key(folder)))
        place.worker("--allow-address", "127.0.0.1", *postgres.server().allowed(), "--name", "far")
        yield place


def _key(folder: Path) -> Path:
    from noetl.secrets.encryption import load_master_keys

    file = folder / "master.key"
    load_master_keys({"NOETL_MASTER_KEY_FILE": str(file)}, create=True)
    return file


def _run(place: Here, text: str, payload: dict[str, Any] | None = None) -> tuple[Any, list[Event]]:
    with place.client() as client:
        version = client.register(text)
        started = client.start(version.path, payload, version=version.version, wait=60.0)
        assert started.status in ("completed", "failed"), place.logs()
        return started, list(client.events(started.execution_id))


@pytest.mark.req("WRK-01", "WRK-06")
def test_a_worker_without_a_listening_socket_and_store_completes_f_000_e(
    place: Here,
    pg_auth: dict[str, Any],  # noqa: F811
) -> None:
    tables = Tables(pg_auth, TABLES)
    with HttpServer({"/a": list(A), "/b": B}) as pages, place.client() as client:
        client.set_credential("pg_k8s", {**tables.auth, "password": PASSWORD}, kind="postgres")
        text = fixture("F-000-E", ELIDED["F-000-E"]).replace("http://127.0.0.1:8099", pages.url)
        started, events = _run(place, text)

    assert started.status == "completed", started.error
    assert tables.rows("pages") == ROWS
    worker = place.children[1]
    assert _listening(worker.pid) == []
    assert _open_stores(worker.pid) == []
    workers = {one.worker_id for one in payloads(events, TokenClaimed)}
    assert {str(one).partition(":")[0] for one in workers} <= {"far", "server"}, "steps without tools are the server's"


@pytest.mark.req("WRK-06")
def test_a_worker_connects_to_allowed_sockets_only(place: Here) -> None:
    """Tools of an embedded run reach every socket; those of a worker process reach what its operator named."""
    text = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: closed, path: tests/closed }
keychain: [{ name: closed_pg, kind: credential }]
workflow:
  - step: start
    tool: [{ name: ask, kind: postgres, auth: closed_pg, command: "SELECT 1" }]
"""
    with place.client() as client:
        client.set_credential("closed_pg", {"host": "/run/closed", "user": "u", "database": "d"}, kind="postgres")
    started, _ = _run(place, text)

    assert started.status == "failed"
    assert started.error["kind"] == "tool.not_allowed"
    assert "--allow-address unix:/run/closed" in started.error["message"]


def _open_files(pid: int) -> list[str]:
    """What a process has open; it may close any of it while it is looked at."""
    targets = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            targets.append(os.readlink(descriptor))
    return targets


def _listening(pid: int) -> list[str]:
    """The sockets of a process that wait for others, as the system tells."""
    inodes = {target[8:-1] for target in _open_files(pid) if target.startswith("socket:[")}
    rows = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()
    ]
    return [row[1] for row in rows if row[3] == "0A" and row[9] in inodes]


def _open_stores(pid: int) -> list[str]:
    return [target for target in _open_files(pid) if target.endswith((".db", ".db-wal"))]


@pytest.mark.req("WRK-06")
@pytest.mark.parametrize("name", PLAIN)
def test_a_worker_without_store_settings_runs_the_fixtures(place: Here, name: str) -> None:
    started, events = _run(place, fixture(name, SHORTER.get(name)))

    assert started.status == "completed", started.error
    assert not [event for event in events if event.event_type == "report.refused"]


@pytest.mark.req("WRK-08")
def test_local_and_remote_runs_have_the_same_events(place: Here, tmp_path: Path, pg_auth: dict[str, Any]) -> None:  # noqa: F811
    """F-004-H, run by one process and by a worker elsewhere."""
    sql = "CREATE TABLE pages (path text, page int, items jsonb);"
    logs = []
    for far in (False, True):
        tables = Tables(pg_auth, sql)
        text = _without_sql(fixture("F-004-H"))
        with HttpServer({"/a": list(A), "/missing": reply(404, json={})}) as pages:
            text = text.replace("http://127.0.0.1:8099", pages.url)
            if far:
                with place.client() as client:
                    client.set_credential("pg_k8s", {**tables.auth, "password": PASSWORD}, kind="postgres")
                logs.append(_names(_run(place, text)[1]))
            else:
                logs.append(_names(_local(text, tables, tmp_path)))

    assert logs[0] == logs[1]


def _without_sql(text: str) -> str:
    """Elided SQL is replaced by statements that do nothing (O-23)."""
    import re

    return re.sub(r'command: ".*?\.\.\..*?"', 'command: "SELECT 1"', text)


def _local(text: str, tables: Tables, folder: Path) -> list[Event]:
    import asyncio

    from noetl.base.clock import SystemClock
    from noetl.operations.embedded import compiled, run_net
    from tests.secrets.vaults import new_keychain, new_vault

    events: list[Event] = []

    async def run() -> None:
        vault = new_vault(SystemClock())
        await vault.set("pg_k8s", {**tables.auth, "password": PASSWORD}, kind="postgres")
        keychain = new_keychain(vault=vault, clock=SystemClock())
        await run_net(compiled(text), payload={}, db=folder / "local.db", watch=events.extend, keychain=keychain)

    asyncio.run(run())
    return events


def _names(events: list[Event]) -> dict[tuple[int, ...], list[str]]:
    """The names of events in order, apart for each iteration and for what is around them. Claims of orders may come
    in any order among themselves: how a loop is cut into ranges is no part of what it means."""
    told: dict[tuple[int, ...], list[str]] = {}
    for event in events:
        path = tuple(getattr(event.payload, "path", None) or ()) if event.step_run_id else ()
        if event.event_type not in ("token.claimed", "loop.range.claimed"):
            told.setdefault(path, []).append(event.event_type)
    return told


@pytest.mark.req("WRK-06")
def test_large_results_are_passed_through_the_server(place: Here) -> None:
    text = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: large, path: tests/large }
workflow:
  - step: start
    tool: [{ name: make, kind: python, code: "result = 'x' * 300000" }]
    next: { arcs: [{ step: measure }] }
  - step: measure
    tool: [{ name: length, kind: python, args: { text: "{{ start }}" }, code: "result = len(text)" }]
"""
    started, _ = _run(place, text)

    assert started.result == 300_000


@pytest.mark.req("TOOL-11")
def test_a_nested_playbook_is_started_and_awaited_through_the_server(place: Here) -> None:
    child = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: child, path: tests/child }
workload: { n: 0 }
workflow:
  - step: start
    tool: [{ name: add, kind: python, args: { n: "{{ workload.n }}" }, code: "result = n + 1" }]
"""
    parent = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: parent, path: tests/parent }
workflow:
  - step: start
    tool: [{ name: call, kind: playbook, path: tests/child, args: { n: 41 } }]
"""
    with place.client() as client:
        client.register(child)
    started, _ = _run(place, parent)

    assert (started.status, started.result) == ("completed", 42), started.error


def test_a_caller_with_an_unknown_token_gets_advice(place: Here) -> None:
    from noetl.client import ApiError

    with Client(place.url, "noetl_nobody_x") as client, pytest.raises(ApiError, match="noetl login"):
        client.list()


TABLES_PLAYBOOK = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: tables, path: tests/tables }
keychain: [{ name: tables_pg, kind: credential }]
workflow:
  - step: start
    tool:
      - name: load
        kind: postgres
        auth: tables_pg
        query: SELECT n AS id, repeat('x', 100) || n AS name FROM generate_series(1, 200000) AS n
        spec: { rows: parquet }
    next: { arcs: [{ step: add }] }
  - step: add
    tool:
      - name: add
        kind: duckdb
        tables: { numbers: "{{ start.ref }}" }
        query: SELECT count(*) AS n, sum(id)::BIGINT AS total, max(length(name)) AS longest FROM numbers
"""


@pytest.mark.req("RES-01", "RES-05", "WRK-06")
def test_a_table_is_passed_between_workers_as_a_file(
    place: Here,
    pg_auth: dict[str, Any],  # noqa: F811
) -> None:
    with place.client() as client:
        client.set_credential("tables_pg", {**pg_auth, "password": PASSWORD}, kind="postgres")
    started, events = _run(place, TABLES_PLAYBOOK)

    assert started.status == "completed", started.error
    with place.client() as client:
        assert client.result(started.execution_id).result == [{"n": 200_000, "total": 20000100000, "longest": 106}]
    assert sum(len(msgspec.json.encode(event)) for event in events) < 20_000, "no row is in the log"
    assert PASSWORD not in str(events)
    page = ("--step", "start", "--rows", "2", "--offset", "1", "--server", place.url)
    shown = place.call("result", started.execution_id, *page, NOETL_TOKEN=place.token)
    assert [line.split()[0] for line in shown.stdout.splitlines()] == ["id", "2", "3"], shown.stderr
    assert "rows 2 to 3 of 200000" in shown.stderr
