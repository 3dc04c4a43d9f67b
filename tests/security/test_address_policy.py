"""One address policy for everything that opens a connection: decided on the resolved address, before anything is sent.

Hosts are looked up in a made-up table; no test here opens a connection beyond loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from ipaddress import ip_address
from typing import Any

import pytest

from noetl.base.addresses.policy import CLOSED, OPEN, Address, AddressGuard, AddressPolicy, BlockedError
from noetl.base.addresses.proxies import DIRECT
from noetl.base.errors import RefusedError, ToolError
from noetl.events.outcomes import Outcome
from noetl.secrets.token_requests import MAX_ANSWER_BYTES, TokenRequests
from noetl.server.configuration import ServerSettings
from noetl.server.services import tools_of
from noetl.templates.sql.binding import read
from noetl.tools.contract import Tool, ToolContext, ToolResult
from noetl.tools.duckdb.tool import DuckdbTool
from noetl.tools.nats import NatsTool
from noetl.tools.postgres.targets import target_of as postgres_target
from noetl.tools.postgres.tool import PostgresTool
from noetl.tools.registry import Registry
from noetl.tools.transfer.tool import TransferTool
from tests.security.listeners import listening, serving
from tests.tools.sql_tasks import context, outcome_of

HOSTS = {
    "metadata.evil": "169.254.169.254",
    "private.evil": "10.0.0.5",
    "loop.evil": "127.0.0.1",
    "six.evil": "::1",
    "mapped.evil": "::ffff:10.0.0.5",
    "shared.evil": "100.100.100.200",
}


class Resolver:
    """Answers from the table, and remembers who was asked for."""

    def __init__(self, hosts: dict[str, str] = HOSTS) -> None:
        self._hosts = hosts
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        self.asked.append(host)
        return [ip_address(self._hosts[host])]


def guard(policy: AddressPolicy = CLOSED) -> AddressGuard:
    return AddressGuard(policy, resolve=Resolver())


def inputs_of(kind: str, host: str, port: int = 5432) -> dict[str, Any]:
    postgres = {"host": host, "port": port, "user": "u", "password": "pw-canary", "database": "d"}
    match kind:
        case "postgres" | "duckdb":
            return {"command": read("SELECT 1"), "auth": postgres}
        case "nats":
            return {"op": "publish", "subject": "s", "payload": "x", "auth": f"nats://u:pw-canary@{host}:{port}"}
        case _:
            end = {"kind": "postgres", "auth": postgres}
            return {"source": {**end, "query": read("SELECT 1")}, "target": {**end, "table": "t"}}


TOOLS: dict[str, type[Tool]] = {
    "postgres": PostgresTool,
    "duckdb": DuckdbTool,
    "nats": NatsTool,
    "transfer": TransferTool,
}


async def run(kind: str, inputs: dict[str, Any], addresses: AddressGuard) -> Outcome:
    tool, inner = TOOLS[kind](), PostgresTool()
    try:
        return await outcome_of(tool, inputs, addresses=addresses, tool=lambda _: inner)
    finally:
        await tool.close()
        await inner.close()


@pytest.mark.req("TOOL-01")
@pytest.mark.parametrize("kind", list(TOOLS))
@pytest.mark.parametrize("host", [*HOSTS, "10.1.2.3", "127.0.0.1", "[::1]"])
async def test_a_server_tool_connects_to_no_private_address(kind: str, host: str) -> None:
    if host == "[::1]" and kind != "nats":
        host = "::1"

    outcome = await run(kind, inputs_of(kind, host), guard())

    assert outcome.error is not None
    assert outcome.error.kind == "tool.not_allowed"
    assert "is blocked" in outcome.error.message
    assert "pw-canary" not in str(outcome.error)
    if host not in ("metadata.evil", "shared.evil"):
        assert "--allow-address" in outcome.error.message


@pytest.mark.parametrize("kind", ["postgres", "nats", "transfer"])
async def test_nothing_is_sent_to_a_blocked_address(kind: str) -> None:
    async with listening() as (port, heard):
        await run(kind, inputs_of(kind, "loop.evil", port), guard())

        assert heard == []


@pytest.mark.parametrize("kind", ["postgres", "nats"])
async def test_a_connection_uses_the_address_that_was_checked(kind: str) -> None:
    """The name is looked up once: a resolver that answers otherwise the second time changes nothing."""
    answers = iter(["127.0.0.1", "10.0.0.5", "10.0.0.5"])
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[Address]:
        asked.append(host)
        return [ip_address(next(answers))]

    judge = AddressGuard(AddressPolicy(allow=("127.0.0.0/8",)), resolve=rebinding)
    async with listening() as (port, heard):
        await run(kind, inputs_of(kind, "rebind.evil", port), judge)

        assert asked[0] == "rebind.evil"
        if kind == "postgres":
            assert heard[0]


@pytest.mark.parametrize("kind", ["postgres", "duckdb", "transfer"])
async def test_a_unix_socket_is_refused_unless_allowed(kind: str) -> None:
    refused = await run(kind, inputs_of(kind, "/run/nowhere"), guard())
    allowed = await run(kind, inputs_of(kind, "/run/nowhere"), guard(AddressPolicy(allow=("unix:/run/nowhere",))))

    assert refused.error is not None
    assert (refused.error.kind, "--allow-address unix:/run/nowhere" in refused.error.message) == (
        "tool.not_allowed",
        True,
    )
    assert allowed.error is not None
    assert allowed.error.kind != "tool.not_allowed"


@pytest.mark.parametrize(
    ("allowed", "path", "reached"),
    [
        ("unix:/run/pg", "/run/pg", True),
        ("unix:/run/pg", "/run/pg/.s.PGSQL.5432", True),
        ("unix:/run/pg/", "/run/pg", True),
        ("unix:/run/pg", "/run/pgother", False),
        ("unix:/run/pg", "/run/pg/../docker.sock", False),
        ("unix:/run/pg", "/run", False),
        ("10.0.0.0/8", "/run/pg", False),
    ],
)
def test_a_socket_is_allowed_by_its_folder(allowed: str, path: str, reached: bool) -> None:
    assert (AddressPolicy(allow=(allowed,)).socket_refusal(path) is None) is reached


async def test_allowed_private_addresses_are_reachable_and_metadata_services_never() -> None:
    private = AddressPolicy(allow=("10.0.0.0/8", "169.254.0.0/16", "metadata.evil"))

    assert [str(one) for one in await guard(private).addresses("private.evil", 5432)] == ["10.0.0.5"]
    assert await guard(OPEN).addresses("loop.evil", 1)
    for policy in (private, OPEN, AddressPolicy(allow_private=True, allow=("*",))):
        with pytest.raises(BlockedError, match="metadata"):
            await guard(policy).addresses("metadata.evil", 80)


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
        *("fd00:ec2::254", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fe80::a9fe:a9fe"),
    ],
)
def test_no_setting_allows_the_metadata_service_of_a_cloud(address: str) -> None:
    policy = AddressPolicy(allow_private=True, allow=(address, "metadata.internal"))

    assert policy.refusal("metadata.internal", ip_address(address)) == "a metadata address, which is never reached"


@pytest.mark.parametrize("kind", ["postgres", "duckdb", "ducklake", "iceberg"])
def test_a_socket_that_is_allowed_brings_no_second_host_with_it(kind: str) -> None:
    auth = {"host": "/run/postgresql/x,10.0.0.1", "user": "u", "password": "p", "database": "d"}

    with pytest.raises(ToolError, match="has several hosts: name one"):
        postgres_target(auth, context(), kind=kind)


class Dialer:
    """A plug-in that opens connections as the contract asks."""

    async def run(self, inputs: Any, context: ToolContext) -> ToolResult:
        return ToolResult(result=await context.addresses.address("the dialled host", inputs["host"], 1))

    async def close(self) -> None:
        """Nothing is open."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


async def test_a_plug_in_receives_the_policy_in_its_context() -> None:
    refused = await outcome_of(Dialer(), {"host": "private.evil"}, addresses=guard())
    allowed = await outcome_of(Dialer(), {"host": "private.evil"}, addresses=guard(AddressPolicy(allow=("10.0.0.5",))))

    assert refused.error is not None
    assert "the dialled host is blocked" in refused.error.message
    assert allowed.result == "10.0.0.5"


def test_server_tools_are_restricted_and_embedded_tools_are_not() -> None:
    closed = tools_of(ServerSettings(local=False, allow_addresses=("10.0.0.0/8",)))

    assert closed.addresses.policy == AddressPolicy(allow=("10.0.0.0/8",), proxies=DIRECT)
    assert tools_of(ServerSettings(local=True)).addresses.policy == AddressPolicy(allow_private=True, proxies=DIRECT)
    assert Registry().addresses.policy == OPEN
    assert context().addresses.policy == OPEN


# --- token requests ------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def endpoint(answer: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A token endpoint that gives this answer, and the heads of the requests it got."""
    heard: list[bytes] = []

    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()

    async with serving(answering) as port:
        yield port, heard


def http_answer(body: bytes, status: str = "200 OK", more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{more}\r\n".encode() + body


LOGIN = ("id", "secret-canary")


@pytest.mark.req("KEY-04")
@pytest.mark.parametrize("host", ["metadata.evil", "private.evil", "loop.evil", "six.evil"])
async def test_a_server_requests_no_token_from_a_private_address(host: str) -> None:
    with pytest.raises(RefusedError) as caught:
        await TokenRequests(guard())(f"https://{host}/token", {}, LOGIN)

    assert "it is at" in str(caught.value)
    assert "secret-canary" not in str(caught.value)


async def test_a_client_secret_is_sent_over_https_except_on_loopback() -> None:
    public = AddressGuard(OPEN, resolve=Resolver({"public.example": "93.184.216.34"}))
    async with endpoint(http_answer(json.dumps({"access_token": "t"}).encode())) as (port, heard):
        here = await TokenRequests(guard(OPEN))(f"http://loop.evil:{port}/token", {"a": "b"}, LOGIN)

        assert here == (200, {"access_token": "t"})
        assert b"authorization: Basic" in heard[0].replace(b"Authorization", b"authorization")
    for url in ("http://public.example/token", "http://private.evil/token"):
        with pytest.raises(RefusedError, match="unencrypted: write https://"):
            await TokenRequests(public if "public" in url else guard(OPEN))(url, {}, LOGIN)


async def test_the_response_of_a_token_endpoint_is_bounded() -> None:
    async with endpoint(http_answer(b"x" * (MAX_ANSWER_BYTES + 1))) as (port, _):
        with pytest.raises(RefusedError, match="more than 256 KiB"):
            await TokenRequests(guard(OPEN))(f"http://127.0.0.1:{port}/", {}, LOGIN)


async def test_a_redirect_of_a_token_endpoint_is_not_followed() -> None:
    async with endpoint(http_answer(b"", "302 Found", "location: http://169.254.169.254/\r\n")) as (port, heard):
        status, _ = await TokenRequests(guard(OPEN))(f"http://127.0.0.1:{port}/", {}, LOGIN)

        assert (status, len(heard)) == (302, 1)


@pytest.mark.parametrize("url", ["ftp://x/", "file:///etc/passwd", "token", "https://"])
async def test_a_token_endpoint_must_be_an_http_address(url: str) -> None:
    with pytest.raises(RefusedError, match="begins with https://"):
        await TokenRequests(guard(OPEN))(url, {}, LOGIN)
