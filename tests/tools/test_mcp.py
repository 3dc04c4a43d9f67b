"""`mcp` against the protocol's own SDK: a server over HTTP, and one that is a program."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
import pytest_asyncio

from noetl.base.addresses.policy import CLOSED, AddressGuard
from noetl.base.redaction import Redactor
from noetl.events.outcomes import Outcome
from tests.process_liveness import is_alive
from tests.servers.http import HttpServer, Reply, Request, reply
from tests.servers.ports import free_port
from tests.servers.proxy import Proxy
from tests.tools.sql_tasks import context, error, outcome_of

if find_spec("mcp") is None:  # looked for, not imported: that takes a second in each process that collects tests
    pytest.skip("NO MCP: the extra mcp is not installed, and its tool was not tested", allow_module_level=True)

from noetl.tools.mcp import McpTool

pytestmark = pytest.mark.asyncio(loop_scope="module")  # one child process for all tests
PROGRAM = str(Path(__file__).with_name("standin_server.py"))
COMMAND = [sys.executable, PROGRAM, "stdio"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen([sys.executable, PROGRAM, "http", str(port)], stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}/mcp"
    try:
        while True:
            try:
                httpx2.get(address, trust_env=False, timeout=60)
                break
            except httpx2.TransportError:
                assert process.poll() is None
        yield address
    finally:
        process.kill()
        process.wait()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tool() -> AsyncIterator[McpTool]:
    tool = McpTool()
    yield tool
    await tool.close()


async def called(tool: McpTool, spec: dict[str, Any] | None = None, /, **inputs: Any) -> Outcome:
    more = inputs.pop("more", {})
    return await outcome_of(tool, inputs, spec, **{"kinds": frozenset({"mcp"}), **more})


async def test_a_tool_is_called_over_http(tool: McpTool, url: str) -> None:
    outcome = await called(tool, server=url, tool="add", args={"a": 2, "b": 3})

    assert outcome.error is None, outcome.error
    assert outcome.result["text"] == "5"
    assert outcome.result["data"] == {"result": 5}


async def test_a_tool_of_a_local_program_is_called(tool: McpTool) -> None:
    outcome = await called(tool, command=COMMAND, tool="variable", args={"name": "GREETING"}, env={"GREETING": "hi"})

    assert outcome.error is None, outcome.error
    assert outcome.result["text"] == "hi"


async def test_a_local_program_receives_nothing_of_the_worker_environment(
    tool: McpTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_MASTER_KEY", "do-not-tell")

    outcome = await called(tool, command=COMMAND, tool="variable", args={"name": "NOETL_MASTER_KEY"})

    assert outcome.result["text"] == ""


async def test_tools_and_resources_are_listed_and_read(tool: McpTool, url: str) -> None:
    tools = await called(tool, server=url, method="tools/list")
    resources = await called(tool, server=url, method="resources/list")
    read = await called(tool, server=url, method="resources/read", uri="notes://today")

    assert {one["name"] for one in tools.result["tools"]} >= {"add", "fail"}
    assert resources.result["resources"][0]["uri"] == "notes://today"
    assert read.result["contents"][0]["text"] == "buy milk"


async def test_a_failing_tool_and_an_unknown_tool_are_errors(tool: McpTool, url: str) -> None:
    failed = error(await called(tool, server=url, tool="fail", args={"text": "no paper"}))
    missing = error(await called(tool, server=url, tool="nothing"))

    assert failed.kind == "mcp.tool"
    assert "no paper" in failed.message
    assert missing.kind in ("mcp.tool", "mcp.error")
    assert "nothing" in missing.message


@pytest.mark.parametrize(("status", "kind", "retryable"), [(401, "mcp.denied", False), (503, "mcp.error", True)])
async def test_a_refusal_has_its_status(tool: McpTool, status: int, kind: str, retryable: bool) -> None:
    async with HttpServer({"*": reply(status)}) as server:
        found = error(await called(tool, server=f"{server.url}/mcp", tool="add", auth={"token": "wrong-token"}))

    assert server.requests[0].headers["authorization"] == "Bearer wrong-token"
    assert (found.kind, found.code, found.retryable) == (kind, str(status), retryable)


@pytest.mark.parametrize(
    "answer",
    [
        reply(body=b"<html>", headers={"content-type": "text/html"}),
        reply(body=b"{", headers={"content-type": "application/json"}),
        reply(body=b'{"jsonrpc":"2.0","id":99,"result":5}', headers={"content-type": "application/json"}),
        reply(body=b"data: [\n\n", headers={"content-type": "text/event-stream"}),
    ],
    ids=["html", "no JSON", "another id", "a broken stream"],
)
async def test_a_hostile_response_is_an_error(tool: McpTool, answer: Any) -> None:
    async with HttpServer({"*": answer}) as server:
        found = error(await called(tool, {"timeout": 5}, server=f"{server.url}/mcp", tool="add"))

    assert found.kind in ("mcp.error", "timeout")


async def test_a_program_that_does_not_speak_mcp_is_an_error(tool: McpTool) -> None:
    spoken = "print('hello'); print('{}'); import sys; sys.exit(3)"
    found = error(await called(tool, {"timeout": 20}, command=[sys.executable, "-c", spoken], tool="add"))

    assert found.kind in ("mcp.error", "timeout")


async def test_an_unreachable_mcp_server_is_retryable(tool: McpTool) -> None:
    found = error(await called(tool, server=f"http://127.0.0.1:{free_port()}/mcp", tool="add"))

    assert (found.kind, found.code, found.retryable) == ("mcp.error", "connection", True)


@pytest.mark.parametrize("way", ["http", "program"])
async def test_a_connection_lost_in_the_middle_of_a_call_is_retryable(
    tool: McpTool, url: str, tmp_path: Path, way: str
) -> None:
    begun = tmp_path / "pid"
    with Proxy("127.0.0.1", int(url.rpartition(":")[2].partition("/")[0])) as line:
        where = {"server": f"http://127.0.0.1:{line.port}/mcp"} if way == "http" else {"command": COMMAND}
        calling = asyncio.create_task(called(tool, **where, tool="wait", args={"file": str(begun)}))
        while not (begun.exists() and begun.read_text()):
            assert not calling.done(), await calling
            await asyncio.sleep(0.05)
        if way == "program":
            os.kill(int(begun.read_text()), signal.SIGKILL)
        with line.down():
            lost = error(await calling)
    (tmp_path / "pid.end").touch()

    assert (lost.kind, lost.retryable) == ("mcp.error", True), lost


async def test_a_cancelled_call_ends_the_program(tool: McpTool, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    calling = asyncio.create_task(called(tool, command=COMMAND, tool="sleep", args={"file": str(file)}))
    while not (file.exists() and file.read_text()):
        assert not calling.done(), await calling
        await asyncio.sleep(0.05)

    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)

    while is_alive(int(file.read_text())):
        await asyncio.sleep(0.05)


@pytest.mark.req("KEY-06")
async def test_a_secret_as_a_program_argument_is_refused_and_in_env_accepted(tool: McpTool) -> None:
    mask = {"mask": Redactor(["correct-horse-battery"]).text}
    where = {"tool": "variable", "args": {"name": "KEY"}, "env": {"KEY": "correct-horse-battery"}}
    refused = error(await called(tool, command=[*COMMAND, "--key=correct-horse-battery"], more=mask, **where))
    passed = await called(tool, command=COMMAND, more=mask, **where)

    assert refused.kind == "mcp.input"
    assert "argument 3 holds a secret" in refused.message
    assert "pass it in env" in refused.message
    assert "correct-horse-battery" not in repr(refused)
    assert passed.error is None, passed.error
    assert passed.result["text"] == "correct-horse-battery"  # the worker masks it; here there is none


async def test_programs_need_permission_and_addresses_obey_the_policy(tool: McpTool, url: str) -> None:
    program = error(await called(tool, command=COMMAND, tool="add", more={"kinds": frozenset()}))
    address = error(await called(tool, server=url, tool="add", more={"addresses": AddressGuard(CLOSED)}))

    assert (program.kind, address.kind) == ("tool.not_allowed", "tool.not_allowed")
    assert "--allow mcp" in program.message


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"tool": "add"}, "write either"),
        ({"server": "http://h/mcp", "command": ["x"], "tool": "add"}, "write either"),
        ({"server": "http://h/mcp"}, '"tool"'),
        ({"server": "http://h/mcp", "method": "resources/read"}, '"uri"'),
        ({"server": "http://h/mcp", "method": "tools/sing"}, "is not known"),
        ({"server": "ftp://h", "tool": "add"}, "https://"),
        ({"server": "http://h/mcp", "tool": "add", "args": [1]}, "mapping"),
        ({"command": "rm -rf", "tool": "add"}, "is a list"),
    ],
)
async def test_impossible_inputs_are_refused(tool: McpTool, inputs: dict[str, Any], said: str) -> None:
    found = error(await called(tool, **inputs))

    assert found.kind == "mcp.input"
    assert said in found.message


async def test_no_token_appears_in_an_error(tool: McpTool) -> None:
    tokens = [secrets.token_hex(16) for _ in range(50)]

    def repeat(request: Request) -> Reply:
        """An error of the protocol that repeats the token."""
        said = "x" * 1_900 + request.headers["authorization"]
        number = request.json.get("id") if request.body else None
        return reply(json={"jsonrpc": "2.0", "id": number, "error": {"code": -32000, "message": said}})

    told = []
    async with HttpServer({"*": repeat}) as server:
        for token in tokens:
            mask = {"mask": Redactor([token]).text}
            outcome = await called(tool, server=f"{server.url}/mcp", tool="add", auth={"token": token}, more=mask)
            assert "xxx" in error(outcome).message, "it did repeat something"
            told.append(msgspec.json.encode(outcome).decode())

    assert [token for token, text in zip(tokens, told, strict=True) if token[:8] in text] == []


async def test_a_credential_can_be_tested(tool: McpTool, url: str) -> None:
    assert "connected to" in await tool.check({"server": url}, context())
