"""`redis` against a real Redis."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from noetl.base.addresses.policy import CLOSED, AddressGuard
from noetl.events.outcomes import Outcome
from noetl.tools.kinds.brokers import REDIS
from noetl.tools.messaging.redis_keys import _OPERATIONS
from noetl.tools.messaging.tool import RedisTool
from tests.servers.brokers import PASSWORD, redis_server
from tests.servers.ports import free_port
from tests.servers.proxy import Proxy
from tests.tools.sql_tasks import context, outcome_of

pytestmark = [
    pytest.mark.timeout(600),  # the first run fetches Redis
    pytest.mark.asyncio(loop_scope="module"),  # one child process for all tests
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tool() -> AsyncIterator[RedisTool]:
    tool = RedisTool()
    yield tool
    await tool.close()


@pytest.fixture
def key() -> str:
    return f"k:{secrets.token_hex(6)}"


def auth(**more: Any) -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": redis_server().port, "password": PASSWORD, **more}


async def ran(tool: RedisTool, op: str, key: str | None = None, /, **inputs: Any) -> Outcome:
    more = inputs.pop("more", {})
    return await outcome_of(tool, {"op": op, "key": key, "auth": auth(), **inputs}, **more)


async def result_of(tool: RedisTool, op: str, key: str | None = None, /, **inputs: Any) -> Any:
    outcome = await ran(tool, op, key, **inputs)
    assert outcome.error is None, outcome.error
    return outcome.result


async def error_of(tool: RedisTool, op: str, key: str | None = None, /, **inputs: Any) -> Any:
    outcome = await ran(tool, op, key, **inputs)
    assert outcome.error is not None, outcome.result
    return outcome.error


async def test_every_operation_is_declared() -> None:
    declared = REDIS.input("op")

    assert declared is not None
    assert {*declared.schema["enum"], "check"} == set(_OPERATIONS)


async def test_a_key_that_must_be_new_keeps_its_first_value(tool: RedisTool, key: str) -> None:
    await result_of(tool, "set", key, data={"a": 1}, expires="1h", if_absent=True)

    assert (await result_of(tool, "get", key))["value"] == {"a": 1}
    assert (await error_of(tool, "set", key, data="x", if_absent=True)).kind == "redis.conflict"
    assert (await result_of(tool, "delete", key))["deleted"] == 1
    assert (await error_of(tool, "get", key)).kind == "redis.missing"


async def test_keys_hashes_and_counters_work(tool: RedisTool, key: str) -> None:
    await result_of(tool, "hash_set", f"{key}:h", field="a", data=[1])
    await result_of(tool, "increment", f"{key}:n", amount=5)

    assert (await result_of(tool, "hash_get", f"{key}:h"))["value"] == {"a": [1]}
    assert (await result_of(tool, "hash_get", f"{key}:h", field="a"))["value"] == [1]
    assert (await result_of(tool, "increment", f"{key}:n"))["value"] == 6
    assert (await result_of(tool, "keys", f"{key}:*"))["keys"] == [f"{key}:h", f"{key}:n"]
    assert (await result_of(tool, "keys", f"{key}:*", limit=1))["more"] is True


async def test_a_list_is_a_queue_that_can_be_waited_on(tool: RedisTool, key: str) -> None:
    other = RedisTool()
    waiting = asyncio.create_task(result_of(other, "pop", key, wait="60s"))
    await result_of(tool, "push", key, data="first")

    assert (await waiting)["values"] == ["first"]
    for number in range(3):
        await result_of(tool, "push", key, data=number)
    assert (await result_of(tool, "pop", key, limit=2, format="json"))["values"] == [0, 1]
    assert (await result_of(tool, "pop", key, format="json"))["values"] == [2]
    assert (await result_of(tool, "pop", key))["values"] == []
    await other.close()


async def test_a_stream_is_read_from_the_cursor_of_the_last_call(tool: RedisTool, key: str) -> None:
    for number in range(3):
        await result_of(tool, "stream_add", key, data={"n": number})

    first = await result_of(tool, "stream_read", key, limit=2)
    second = await result_of(tool, "stream_read", key, cursor=first["cursor"])
    third = await result_of(tool, "stream_read", key, cursor=second["cursor"])

    assert [one["value"]["n"] for one in first["messages"] + second["messages"]] == [0, 1, 2]
    assert third["messages"] == []
    assert third["cursor"] == second["cursor"]


async def test_publishing_returns_the_number_of_receivers(tool: RedisTool, key: str) -> None:
    assert await result_of(tool, "publish", key, data="x") == {"key": key, "receivers": 0}


async def test_a_wrong_password_is_denied(tool: RedisTool) -> None:
    error = await error_of(tool, "get", "x", auth=auth(password="a wrong one"))

    assert (error.kind, error.code, error.retryable) == ("redis.denied", "WRONGPASS", False)


async def test_an_error_has_the_code_of_redis(tool: RedisTool, key: str) -> None:
    await result_of(tool, "push", key, data="x")

    error = await error_of(tool, "get", key)

    assert (error.kind, error.code) == ("redis.error", "WRONGTYPE")


async def test_a_lost_connection_is_retryable(tool: RedisTool, key: str) -> None:
    with Proxy("127.0.0.1", redis_server().port) as line:
        waiting = asyncio.create_task(ran(tool, "pop", key, wait="10m", auth=auth(port=line.port)))
        while line.carried < 60:
            await asyncio.sleep(0.01)
        with line.down():
            outcome = await waiting

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("redis.error", True)


async def test_an_operation_is_sent_once_even_if_the_connection_breaks(tool: RedisTool, key: str) -> None:
    with Proxy("127.0.0.1", redis_server().port) as line:
        denied = await error_of(tool, "get", "x", auth=auth(port=line.port, password="wrong"))
        denials = line.connections
        waiting = asyncio.create_task(ran(tool, "pop", key, wait="10m", auth=auth(port=line.port)))
        while line.connections == denials or line.carried < 120:
            await asyncio.sleep(0.01)
        line.cut()
        lost = await waiting

        assert denied.kind == "redis.denied"
        assert lost.error is not None
        assert (denials, line.connections) == (1, 2)


async def test_an_unreachable_server_is_retryable(tool: RedisTool) -> None:
    error = await error_of(tool, "get", "x", auth=auth(port=free_port()))

    assert (error.kind, error.code, error.retryable) == ("redis.error", "connection", True)


async def test_a_cancelled_task_ends_its_process(tool: RedisTool, key: str) -> None:
    waiting = asyncio.create_task(ran(tool, "pop", key, wait="10m"))
    while not tool._children._busy:
        await asyncio.sleep(0.01)
    (child,) = tool._children._busy

    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert not Path(f"/proc/{child.pid}").exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_private_address_is_reached_only_if_the_policy_allows(tool: RedisTool, host: str) -> None:
    more = {"addresses": AddressGuard(CLOSED)}

    assert (await error_of(tool, "get", "x", auth=auth(host=host), more=more)).kind == "tool.not_allowed"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "needs a url"),
        ({"url": "http://u:hunter22@x"}, "none of redis"),
        ({"host": "x", "port": "no"}, "no number"),
    ],
)
async def test_a_missing_credential_field_is_named(tool: RedisTool, given: dict[str, Any], said: str) -> None:
    outcome = await outcome_of(tool, {"op": "get", "key": "x", "auth": given or {"type": "redis"}})

    assert outcome.error is not None
    assert outcome.error.kind == "keychain.unresolved"
    assert said in outcome.error.message
    assert "hunter22" not in outcome.error.message


async def test_no_secret_appears_in_an_error(tool: RedisTool) -> None:
    for secret in [secrets.token_urlsafe(12) for _ in range(50)]:
        url = f"redis://:{secret}@127.0.0.1:{redis_server().port}/0"
        error = await error_of(tool, "get", "x", auth=url)
        assert error.kind == "redis.denied"
        assert secret.encode() not in msgspec.json.encode(error)


async def test_a_credential_check_names_what_it_reached(tool: RedisTool) -> None:
    assert await tool.check({"auth": auth()}, context()) == f"connected to redis at 127.0.0.1:{redis_server().port}"
