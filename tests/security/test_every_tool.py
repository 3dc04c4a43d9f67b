"""Every kind of a server's registry, pointed at a service of the machine itself: it refuses before it connects.

A kind that is new here fails until somebody has said whether it opens connections, and to where.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest

from noetl.server.configuration import ServerSettings
from noetl.server.services import tools_of
from noetl.templates.sql.binding import read
from noetl.tools.child_process import Program
from noetl.tools.registry import BUILT_IN, EXTRAS, OF_INTERPRETERS, is_installed
from noetl.tools.sql.tool import SqlTool
from tests.security.listeners import listening
from tests.servers.snowflake import drivers_program
from tests.tools.quantum_tasks import BELL
from tests.tools.sql_tasks import outcome_of

PASSWORD = "pw-canary-42"


def _login(port: int, **more: Any) -> dict[str, Any]:
    return {"host": "localhost", "port": port, "user": "u", "password": PASSWORD, **more}


def _postgres(port: int) -> dict[str, Any]:
    return {"auth": _login(port, database="d")}


def _transfer(port: int) -> dict[str, Any]:
    end = {"kind": "postgres", **_postgres(port)}
    return {"source": {**end, "query": read("SELECT 1")}, "target": {**end, "table": "t"}}


def _bucket(port: int) -> dict[str, Any]:
    return {"endpoint": f"http://localhost:{port}", "access_key_id": "k", "secret_access_key": PASSWORD}


CONNECTING: dict[str, Callable[[int], dict[str, Any]]] = {
    "amqp": lambda port: {"op": "count", "queue": "q", "auth": _login(port)},
    "archive": lambda port: {"op": "list", "source": "s3://bucket/a.zip", "auth": _bucket(port)},
    "container": lambda port: {"image": "busybox", "auth": {"url": f"tcp://localhost:{port}"}},
    "convert": lambda port: {"source": "s3://bucket/a.csv", "auth": _bucket(port)},
    "dask": lambda port: {"code": "result = 1", "auth": {"url": f"tcp://localhost:{port}"}},
    "delta": lambda port: {"path": "s3://bucket/table", "storage_auth": _bucket(port)},
    "duckdb": lambda port: {"command": read("SELECT 1"), **_postgres(port)},
    "ducklake": lambda port: {"command": read("SELECT 1"), **_postgres(port)},
    "email": lambda port: {"from": "a@example.org", "to": "b@example.org", "text": "x", "auth": _login(port)},
    "gcs": lambda port: {"op": "list", "bucket": "b", "auth": {"endpoint": f"http://localhost:{port}"}},
    "http": lambda port: {"method": "GET", "url": f"http://localhost:{port}/"},
    "iceberg": lambda port: {"table": "shop.orders", **_postgres(port)},
    "kafka": lambda port: {"op": "consume", "topic": "t", "auth": {"host": "localhost", "port": port}},
    "llm": lambda port: {"url": f"http://localhost:{port}/v1", "model": "m", "prompt": "?"},
    "mcp": lambda port: {"server": f"http://localhost:{port}/mcp", "tool": "t"},
    "mqtt": lambda port: {"op": "publish", "topic": "t", "data": "x", "auth": _login(port, tls=False)},
    "nats": lambda port: {"op": "publish", "subject": "s", "payload": "x", "auth": f"nats://localhost:{port}"},
    "pgp": lambda port: {
        "op": "decrypt",
        "source": {"url": "s3://bucket/a.pgp", "auth": _bucket(port)},
        "target": "s3://bucket/a",
        "auth": {"password": PASSWORD},
    },
    "postgres": lambda port: {"command": read("SELECT 1"), **_postgres(port)},
    "quantum": lambda port: {
        "op": "submit",
        "provider": "ibm",
        "circuit": BELL,
        "auth": {"token": PASSWORD, "url": f"https://localhost:{port}", "channel": "ibm_quantum_platform"},
    },
    "ray": lambda port: {"code": "result = 1", "auth": {"url": f"ray://localhost:{port}"}},
    "redis": lambda port: {"op": "get", "key": "k", "auth": _login(port, tls=False)},
    "sftp": lambda port: {"op": "list", "path": "/", "auth": _login(port, host_key="*")},
    "slack": lambda port: {"text": "x", "auth": {"url": f"http://localhost:{port}/hook"}},
    "snowflake": lambda port: {
        "command": read("SELECT 1"),
        "dialect": "snowflake",
        "auth": {"account": "a", "host": "localhost", "port": port, "protocol": "http", "user": "u", "password": "p"},
    },
    "sql": lambda port: {"dialect": "mysql", "command": read("SELECT 1"), "auth": _login(port, database="d")},
    "ssh": lambda port: {"command": "true", "auth": _login(port, host_key="*")},
    "storage": lambda port: {"op": "list", "url": "s3://bucket", "auth": _bucket(port)},
    "teams": lambda port: {"text": "x", "auth": {"url": f"http://localhost:{port}/hook"}},
    "transfer": _transfer,
}


def _can_run(kind: str) -> bool:
    if kind == "quantum":  # its simulator is always there; the provider that connects is not
        return find_spec("qiskit_ibm_runtime") is not None
    if kind in OF_INTERPRETERS or kind == "snowflake":  # what they need is elsewhere, and here as little as possible
        return True
    return kind not in EXTRAS or is_installed(EXTRAS[kind])


@pytest.fixture
def elsewhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Program | None:
    """Where the packages of a kind are that this environment does not have. Most judge the address before they start
    anything, so an interpreter that is not there will do: one that did start it would end with another error."""
    kind = request.getfixturevalue("kind")
    if kind in OF_INTERPRETERS and not is_installed(kind):
        monkeypatch.setenv("NOETL_INTERPRETERS", f"{kind}=/nowhere/python")
    # The driver of Snowflake connects itself, and its child process judges the address.
    return drivers_program() if kind == "snowflake" and not is_installed(kind) else None


# They open no connection, or are programs that the policy does not hold (docs/security.md).
OTHERS = {"artifact", "dbt", "dlt", "log", "noop", "playbook", "python", "script", "secrets", "shell"}


def test_every_kind_is_listed_as_connecting_or_not() -> None:
    assert set(BUILT_IN) == {*CONNECTING, *OTHERS}


@pytest.mark.req("TOOL-01")
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            kind,
            marks=pytest.mark.skipif(
                not _can_run(kind),
                reason=f"NO {kind.upper()}: its extra is not installed, and its connections were not tested",
            ),
        )
        for kind in CONNECTING
    ],
)
async def test_a_server_opens_no_connection_to_its_own_machine_for_a_playbook(
    kind: str, elsewhere: Program | None
) -> None:
    tools = tools_of(ServerSettings(allow=("container",)))
    tool = SqlTool(elsewhere) if elsewhere is not None else tools.tool(kind)
    try:
        async with listening() as (port, heard):
            outcome = await outcome_of(tool, CONNECTING[kind](port), addresses=tools.addresses, tool=tools.tool)
    finally:
        await tool.close()
        await tools.close()

    assert heard == []
    assert outcome.error is not None
    assert "blocked" in outcome.error.message, outcome.error
    assert "--allow-address" in outcome.error.message
    assert PASSWORD not in repr(outcome.error)
