"""`http`: results, errors, and the words beside the outcome (TOOL-02, TOOL-03, O-12)."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from noetl.base.clock import ManualClock
from noetl.events.outcomes import Outcome, Status
from noetl.tools.http.tool import HttpTool
from noetl.worker.attempt import attempt
from tests.servers.http import HttpServer, reply
from tests.servers.ports import free_port
from tests.tools.http_requesting import KEY, context, failing, get, http_tool


async def outcome(url: str, **spec: object) -> Outcome:
    """The outcome a policy would see."""

    async def sleep(_: float) -> None: ...

    tool = HttpTool()
    try:
        return await attempt(tool, {"url": url}, context(spec), clock=ManualClock(), sleep=sleep, trace_id="trace")
    finally:
        await tool.close()


@pytest.mark.req("TOOL-02", "O-22")
async def test_a_result_has_status_headers_data_and_url() -> None:
    async with HttpServer({"/a": reply(json={"data": [1], "paging": {"hasMore": True}})}) as server:
        found = await get(f"{server.url}/a?x=1", params={"page": 2})

    assert found.result == {
        "status": 200,
        "status_code": 200,
        "headers": {"content-type": "application/json", "content-length": "42"},
        "data": {"data": [1], "paging": {"hasMore": True}},
        "url": f"{server.url}/a?x=1&page=2",
    }
    assert type(found.result["headers"]) is dict, "a result is plain data"
    assert found.wrapped, "the payload is the body"


@pytest.mark.req("TOOL-02")
async def test_the_method_defaults_to_get_and_can_be_lower_case() -> None:
    async with HttpServer({"/a": reply()}) as server:
        await get(f"{server.url}/a")
        await get(f"{server.url}/a", method="put")

    assert [request.method for request in server.requests] == ["GET", "PUT"]


@pytest.mark.req("TOOL-03", "OUT-03", "O-12")
@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, False), (401, False), (404, False), (408, True), (425, True), (429, True), (500, True), (503, True)],
)
async def test_a_status_of_400_or_more_is_an_error_with_the_body_in_its_details(status: int, retryable: bool) -> None:
    async with HttpServer({"/a": reply(status, json={"why": "no"}, headers={"Retry-After": "7"})}) as server:
        error = await failing(f"{server.url}/a")

    assert (error.kind, error.details["status"], error.retryable) == ("http.status", status, retryable)
    assert error.details["data"] == {"why": "no"}
    assert error.message.startswith(f"GET {server.url}/a answered {status} ")


@pytest.mark.req("TOOL-03", "OUT-01", "OUT-02")
async def test_the_outcome_of_a_404_has_its_status_and_headers() -> None:
    async with HttpServer({"/a": reply(404, headers={"Retry-After": "7"})}) as server:
        found = await outcome(f"{server.url}/a")

    assert found.status is Status.ERROR
    assert found.result is None
    assert found.helpers["http"]["status"] == 404
    assert found.helpers["http"]["headers"]["retry-after"] == "7"
    assert found.error is not None
    assert found.error.readable()["status"] == 404


@pytest.mark.req("OUT-01")
async def test_an_outcome_has_the_four_keys_and_the_six_of_its_meta() -> None:
    async with HttpServer({"/a": reply(json=1)}) as server:
        found = await outcome(f"{server.url}/a")

    assert (found.status, found.error) == (Status.SUCCESS, None)
    assert found.result["data"] == 1
    assert found.meta.readable().keys() >= {
        *("attempt", "duration_ms", "started_at", "finished_at", "trace_id", "task_run_id")
    }


@pytest.mark.req("TOOL-03")
async def test_ok_statuses_widen_success() -> None:
    async with HttpServer({"/a": reply(404, json={"n": 0})}) as server:
        found = await get(f"{server.url}/a", spec={"ok_statuses": [404]})
        error = await failing(f"{server.url}/a", spec={"ok_statuses": [410]})

    assert found.result["data"] == {"n": 0}
    assert found.helpers["http"]["status"] == 404
    assert error.kind == "http.status"


@pytest.mark.req("TOOL-03", "OUT-02")
async def test_a_transport_failure_has_a_status_of_null() -> None:
    """Null, not undefined: `| default(200)` must not make a success of it (O-12)."""
    with socket.socket() as taken:  # nobody listens there, nor can anybody else while it is ours
        taken.bind(("127.0.0.1", 0))
        found = await outcome(f"http://127.0.0.1:{taken.getsockname()[1]}/x")

    assert found.error is not None
    assert (found.error.kind, found.error.code, found.error.retryable) == ("http.transport", "connect", True)
    assert "could not be sent: connection refused" in found.error.message
    assert found.helpers == {"http": {"status": None, "headers": None}}


@pytest.mark.req("TOOL-03")
async def test_a_broken_connection_is_a_transport_failure() -> None:
    cut = reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
    async with HttpServer({"/drop": reply(drop=True), "/cut": cut, "/junk": reply(raw=b"hello\r\n\r\n")}) as server:
        errors = [await failing(f"{server.url}{path}") for path in ("/drop", "/cut", "/junk")]

    assert {(error.kind, error.details["code"]) for error in errors} == {("http.transport", "disconnected")}


async def test_an_unknown_host_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")  # whatever resolver there is, or none

    monkeypatch.setattr(socket, "getaddrinfo", unknown)

    error = await failing("http://nobody.invalid/x")

    assert (error.kind, error.details["code"]) == ("http.transport", "dns")
    assert "GET http://nobody.invalid/x could not be sent: the host was not found" in error.message


@pytest.mark.req("TOOL-03")
async def test_header_names_are_case_insensitive() -> None:
    async with HttpServer({"/a": reply(headers={"X-Rate": "1", "Set-Cookie": ["a=1", "b=2"]})}) as server:
        headers = (await get(f"{server.url}/a")).helpers["http"]["headers"]

    assert headers["x-rate"] == headers.lookup("X-Rate") == headers.lookup("x-RATE") == "1"
    assert headers["set-cookie"] == "a=1, b=2"
    with pytest.raises(KeyError):
        headers.lookup("X-Other")


async def test_a_response_without_a_body_has_a_null_result() -> None:
    async with HttpServer({"/a": reply(204), "HEAD /b": reply(text="long")}) as server:
        empty = await get(f"{server.url}/a")
        head = await get(f"{server.url}/b", method="HEAD")

    assert (empty.result["status"], empty.result["data"]) == (204, None)
    assert (head.result["headers"]["content-length"], head.result["data"]) == ("4", None)


async def test_connections_are_reused() -> None:
    async with HttpServer({"/a": reply(json=1), "/b": reply(500, text="no")}) as server, http_tool() as tool:
        await tool.run({"url": f"{server.url}/a"}, context())
        with pytest.raises(Exception, match="answered 500"):
            await tool.run({"url": f"{server.url}/b"}, context())
        await tool.run({"url": f"{server.url}/a"}, context())

    assert [request.connection for request in server.requests] == [1, 1, 1]


async def test_cookies_of_one_task_do_not_reach_another() -> None:
    """A worker serves many executions: a session must not leak from one into the next."""
    async with HttpServer({"*": reply(headers={"Set-Cookie": "session=1; Path=/"})}) as server, http_tool() as tool:
        await tool.run({"url": f"{server.url}/a"}, context())
        await tool.run({"url": f"{server.url}/a"}, context())

    assert ["cookie" in request.headers for request in server.requests] == [False, False]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_changing_request_carries_the_idempotency_key(method: str) -> None:
    """The same key on every attempt, so that a server can tell a repetition (reliability.md §3.4)."""
    async with HttpServer({"/a": reply()}) as server:
        await get(f"{server.url}/a", method=method)
        await get(f"{server.url}/a", method=method, headers={"idempotency-key": "mine"})

    assert [request.headers["idempotency-key"] for request in server.requests] == [KEY, "mine"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
async def test_a_reading_request_has_no_idempotency_key(method: str) -> None:
    async with HttpServer({"/a": reply()}) as server:
        await get(f"{server.url}/a", method=method)

    assert "idempotency-key" not in server.requests[0].headers


async def test_a_proxy_of_the_environment_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    async with HttpServer({"/a": reply(json=1)}) as server:
        found = await get(f"{server.url}/a")

    assert found.result["data"] == 1


async def test_user_name_and_password_of_a_url_are_sent_and_never_shown() -> None:
    async with HttpServer({"/a": [reply(), reply(403)]}) as server:
        url = server.url.replace("http://", "http://ann:s%20cret@") + "/a"
        found = await get(url)
        error = await failing(url)

    assert server.requests[0].headers["authorization"] == "Basic YW5uOnMgY3JldA=="
    assert found.result["url"] == f"{server.url}/a"
    assert "cret" not in error.message
    assert f"GET {server.url}/a answered 403" in error.message


def test_nothing_of_http_is_imported_before_a_task_needs_it() -> None:
    """httpx2 takes a fifth of a second; a policy for addresses is made without it."""
    code = (
        "import sys; from noetl.tools.registry import Registry; import noetl.base.addresses.policy;"
        "Registry().runs('http'); print([m for m in sys.modules if m.startswith(('httpx2', 'httpcore2'))])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
