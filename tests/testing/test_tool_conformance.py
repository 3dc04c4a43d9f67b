"""The conformance suite over kinds of our own, and over tools that break its promises."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from noetl.net.kinds import Input, ToolKind
from noetl.templates.sql.binding import read
from noetl.testing.tool_conformance import ToolConformance
from noetl.tools.amqp import AmqpTool
from noetl.tools.container.tool import ContainerTool
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.email import EmailTool
from noetl.tools.frameworks.clusters import DaskTool, RayTool
from noetl.tools.frameworks.dbt import DbtTool
from noetl.tools.frameworks.dlt import DltTool
from noetl.tools.kinds import KINDS
from noetl.tools.messaging.tool import KafkaTool, MqttTool, RedisTool
from noetl.tools.nats import NatsTool
from noetl.tools.postgres.tool import PostgresTool
from noetl.tools.sftp import SftpTool
from noetl.tools.sql.tool import SqlTool
from noetl.tools.ssh import SshTool
from noetl.tools.storage.tool import StorageTool

pytestmark = [pytest.mark.timeout(600)]
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"  # of no machine


def login(port: int, password: str = "a password") -> dict[str, Any]:
    return {"host": "localhost", "port": port, "user": "u", "password": password, "tls": False}


class TestAmqp(ToolConformance):
    tool, kind = AmqpTool, KINDS["amqp"]

    def wrong(self) -> list[dict[str, Any]]:
        return [{"op": "shout"}, {"op": "get", "auth": login(1)}, {"op": "count", "queue": "q"}]

    def connecting(self, port: int) -> dict[str, Any]:
        return {"op": "count", "queue": "q", "auth": login(port)}

    def with_secret(self, secret: str, port: int) -> dict[str, Any]:
        return {"op": "count", "queue": "q", "auth": login(port, secret)}


class TestContainer(ToolConformance):
    tool, kind = ContainerTool, KINDS["container"]

    def wrong(self) -> list[dict[str, Any]]:
        return [{"image": ""}, {"image": "busy:1", "auth": "nowhere"}, {"image": "busy:1", "volumes": "all"}]

    def connecting(self, port: int) -> dict[str, Any]:
        return {"image": "busy:1", "auth": f"tcp://localhost:{port}"}

    def with_secret(self, secret: str, port: int) -> dict[str, Any]:
        return {"image": "busy:1", "auth": {"server": f"http://localhost:{port}", "token": secret}}


class TestDask(ToolConformance):
    tool, kind, drivers = DaskTool, KINDS["dask"], ("distributed",)

    def wrong(self) -> list[dict[str, Any]]:
        return [{"code": ""}, {"code": "result = 1", "auth": "nowhere"}, {"code": "result = 1", "args": [1]}]


class TestRay(ToolConformance):
    tool, kind, drivers = RayTool, KINDS["ray"], ("ray",)

    def wrong(self) -> list[dict[str, Any]]:
        return [{"code": ""}, {"code": "result = 1", "auth": "nowhere"}, {"code": "result = 1", "needs": "all"}]


class TestDbt(ToolConformance):
    tool, kind, drivers = DbtTool, KINDS["dbt"], ("dbt",)

    def wrong(self) -> list[dict[str, Any]]:
        return [{"project": ""}, {"project": "/etc"}, {"op": "destroy"}]


class TestDlt(ToolConformance):
    tool, kind, drivers = DltTool, KINDS["dlt"], ("dlt",)

    def wrong(self) -> list[dict[str, Any]]:
        return [{"destination": "duckdb"}, {"destination": "..", "data": [], "table": "t"}]


class TestKafka(ToolConformance):
    tool, kind, drivers = KafkaTool, KINDS["kafka"], ("aiokafka",)

    def wrong(self) -> list[dict[str, Any]]:
        return [{"op": "consume", "topic": "t"}, {"op": "consume", "topic": "t", "limit": 0, "auth": login(1)}]

    def connecting(self, port: int) -> dict[str, Any]:
        return {"op": "consume", "topic": "t", "auth": login(port)}

    def with_secret(self, secret: str, port: int) -> dict[str, Any]:
        return {"op": "consume", "topic": "t", "auth": login(port, secret)}


class TestRedis(ToolConformance):
    tool, kind, drivers = RedisTool, KINDS["redis"], ("redis",)

    def wrong(self) -> list[dict[str, Any]]:
        return [{"op": "shout", "auth": login(1)}, {"op": "get", "key": "k"}]

    def connecting(self, port: int) -> dict[str, Any]:
        return {"op": "get", "key": "k", "auth": login(port)}

    def with_secret(self, secret: str, port: int) -> dict[str, Any]:
        return {"op": "get", "key": "k", "auth": f"redis://u:{secret}@localhost:{port}/0"}


class TestEmail(ToolConformance):
    tool, kind = EmailTool, KINDS["email"]

    def connecting(self, port: int) -> dict[str, Any]:
        return {"from": "a@example.org", "to": "b@example.org", "text": "x", "auth": login(port)}

    def with_secret(self, secret: str, port: int) -> dict[str, Any]:
        return {"from": "a@example.org", "to": "b@example.org", "text": "x", "auth": login(port, secret)}


class TestNats(ToolConformance):
    tool, kind = NatsTool, KINDS["nats"]

    def wrong(self) -> list[dict[str, Any]]:
        return [{"op": "shout"}]

    def connecting(self, port: int) -> dict[str, Any]:
        return {"op": "publish", "subject": "s", "data": "x", "auth": f"nats://localhost:{port}"}

    def with_secret(self, secret: str, port: int) -> dict[str, Any]:
        return {"op": "publish", "subject": "s", "data": "x", "auth": f"nats://u:{secret}@localhost:{port}"}


class TestPostgres(ToolConformance):
    tool, kind = PostgresTool, KINDS["postgres"]

    def connecting(self, port: int) -> dict[str, Any]:
        return {"command": "SELECT 1", "auth": login(port)}

    def with_secret(self, secret: str, port: int) -> dict[str, Any]:
        return {"command": "SELECT 1", "auth": f"postgresql://u:{secret}@localhost:{port}/d"}


class TestSql(ToolConformance):
    tool, kind, drivers = SqlTool, KINDS["sql"], ("sqlalchemy", "pymysql")

    def connecting(self, port: int) -> dict[str, Any]:
        return {"dialect": "mysql", "command": read("SELECT 1"), "auth": login(port)}


class TestStorage(ToolConformance):
    tool, kind, drivers = StorageTool, KINDS["storage"], ("obstore",)

    def connecting(self, port: int) -> dict[str, Any]:
        return self.with_secret("a key", port)

    def with_secret(self, secret: str, port: int) -> dict[str, Any]:
        auth = {"endpoint": f"http://localhost:{port}", "access_key_id": "k", "secret_access_key": secret}
        return {"op": "list", "url": "s3://bucket", "auth": auth}


class TestMqtt(ToolConformance):
    tool, kind, drivers = MqttTool, KINDS["mqtt"], ("aiomqtt",)

    def connecting(self, port: int) -> dict[str, Any]:
        return {"op": "publish", "topic": "t", "data": "x", "auth": login(port)}


class TestSsh(ToolConformance):
    tool, kind = SshTool, KINDS["ssh"]

    def connecting(self, port: int) -> dict[str, Any]:
        return {"command": "true", "auth": {**login(port), "host_key": HOST_KEY}}


class TestSftp(ToolConformance):
    tool, kind = SftpTool, KINDS["sftp"]

    def connecting(self, port: int) -> dict[str, Any]:
        return {"op": "list", "path": "/", "auth": {**login(port), "host_key": HOST_KEY}}

    def with_secret(self, secret: str, port: int) -> dict[str, Any]:
        return {"op": "list", "path": "/", "auth": {**login(port, secret), "host_key": HOST_KEY}}


class Careless:
    """Breaks every promise that a tool makes."""

    kind = ToolKind(name="careless", inputs=(Input(name="port"), Input(name="port2", aliases=("port",))))

    open: ClassVar[list[socket.socket]] = []

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if "port" not in inputs:
            raise ValueError("what port?")
        loop, own = asyncio.get_running_loop(), socket.socket()
        self.open.append(own)
        own.setblocking(False)
        await loop.sock_connect(own, ("127.0.0.1", inputs["port"]))
        said = await loop.sock_recv(own, 100)
        raise ValueError(f"{inputs.get('secret')} {said!r}")

    async def close(self) -> None: ...

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


@pytest.fixture(autouse=True)
def hung_up() -> Iterator[None]:
    yield
    while Careless.open:
        Careless.open.pop().close()


class OfCareless(ToolConformance):
    tool = Careless

    def working(self, folder: Path) -> dict[str, Any]:
        return {}

    def wrong(self) -> list[dict[str, Any]]:
        return [{}]

    def connecting(self, port: int) -> dict[str, Any]:
        return {"port": port}

    def with_secret(self, secret: str, port: int) -> dict[str, Any]:
        return {"port": port, "secret": secret}


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("test_its_declaration_is_whole", "no doc"),
        ("test_wrong_inputs_are_errors_of_its_own", "an exception escaped"),
        ("test_nonsense_from_the_other_side_is_an_error_of_its_own", "an exception escaped"),
        ("test_what_the_address_policy_refuses_is_not_reached", "tool.exception|connected"),
        ("test_no_secret_is_told", "contains a secret"),
    ],
)
def test_the_conformance_tests_detect_a_tool_that_breaks_a_promise(test: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        getattr(OfCareless(), test)()


def test_the_conformance_tests_detect_a_connection_that_outlives_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    from noetl.testing import tool_conformance

    monkeypatch.setattr(tool_conformance, "_PATIENCE_S", 1)

    with pytest.raises(TimeoutError):
        OfCareless().test_a_cancelled_task_leaves_nothing_running()


def test_the_conformance_tests_detect_a_task_that_always_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="what port"):
        OfCareless().test_a_task_that_can_be_done_gives_plain_data(tmp_path)


def test_the_documented_conformance_tests_are_collected() -> None:
    page = (Path(__file__).parents[2] / "docs" / "spec" / "tools.md").read_text("utf-8")
    named = set(re.findall(r"`tests/testing/test_tool_conformance\.py::(Test\w+)::(test_\w+)`", page))

    # A test of the suite is None in a subclass that gives no inputs for it.
    absent = {f"{suite}::{test}" for suite, test in named if not callable(getattr(globals().get(suite), test, None))}

    assert len(named) > 10
    assert absent == set()


def test_conformance_tests_without_a_subclass_declaration_are_not_collected() -> None:
    collected = [name for name in dir(TestEmail) if name.startswith("test_") and callable(getattr(TestEmail, name))]

    assert "test_no_secret_is_told" in collected
    assert "test_wrong_inputs_are_errors_of_its_own" not in collected
