"""`mqtt` against a real Mosquitto."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from noetl.base.addresses.policy import CLOSED, AddressGuard
from noetl.events.outcomes import Outcome
from noetl.tools.messaging.tool import MqttTool
from tests.servers.brokers import PASSWORD, mosquitto
from tests.servers.ports import free_port
from tests.tools.sql_tasks import context, outcome_of

pytestmark = [pytest.mark.timeout(600)]  # the first run fetches Mosquitto


@pytest_asyncio.fixture
async def tool() -> AsyncIterator[MqttTool]:
    tool = MqttTool()
    yield tool
    await tool.close()


@pytest.fixture
def topic() -> str:
    return f"t/{secrets.token_hex(6)}"


def auth(**more: Any) -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": mosquitto().port, "user": "ada", "password": PASSWORD, **more}


async def ran(tool: MqttTool, op: str, topic: str, /, **inputs: Any) -> Outcome:
    more = inputs.pop("more", {})
    return await outcome_of(tool, {"op": op, "topic": topic, "auth": auth(), **inputs}, **more)


async def result_of(tool: MqttTool, op: str, topic: str, /, **inputs: Any) -> Any:
    outcome = await ran(tool, op, topic, **inputs)
    assert outcome.error is None, outcome.error
    return outcome.result


async def test_a_retained_message_is_received(tool: MqttTool, topic: str) -> None:
    await result_of(tool, "publish", f"{topic}/a", data={"n": 1}, retain=True)

    found = await result_of(tool, "receive", f"{topic}/+", wait="60s")

    assert found["messages"] == [{"topic": f"{topic}/a", "value": {"n": 1}, "retained": True}]


async def test_a_session_queues_messages_between_two_tasks(tool: MqttTool, topic: str) -> None:
    session = f"s{secrets.token_hex(4)}"
    await result_of(tool, "receive", topic, session=session)
    for number in range(3):
        await result_of(tool, "publish", topic, data=number)

    first = await result_of(tool, "receive", topic, session=session, wait="60s", format="json")

    assert [one["value"] for one in first["messages"]] == [0, 1, 2]


async def test_a_wrong_password_is_denied(tool: MqttTool, topic: str) -> None:
    outcome = await ran(tool, "publish", topic, data="x", auth=auth(password="a wrong one"))

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.code, outcome.error.retryable) == ("mqtt.denied", "135", False)


async def test_an_unreachable_broker_is_retryable(tool: MqttTool, topic: str) -> None:
    outcome = await ran(tool, "publish", topic, data="x", auth=auth(port=free_port()))

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("mqtt.error", True)


@pytest.mark.parametrize("answer", [b"", b"\x20\x03\x00\x00\x00"], ids=["before it accepts", "before it confirms"])
async def test_a_broker_that_disconnects_is_reported_at_once(tool: MqttTool, topic: str, answer: bytes) -> None:
    """Not when the time for an answer is up, which has another message."""

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4096)
        if answer:
            writer.write(answer)
            await reader.read(4096)
        writer.close()

    async with await asyncio.start_server(broker, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        outcome = await ran(tool, "publish", topic, data=1, auth=auth(port=port))

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.code, outcome.error.retryable) == ("mqtt.error", "connection", True)
    assert "the broker closed the connection" in outcome.error.message


async def test_a_private_address_is_reached_only_if_the_policy_allows(tool: MqttTool, topic: str) -> None:
    outcome = await ran(tool, "publish", topic, data="x", more={"addresses": AddressGuard(CLOSED)})

    assert outcome.error is not None
    assert outcome.error.kind == "tool.not_allowed"


@pytest.mark.parametrize(
    ("op", "topic", "inputs"),
    [("publish", "a/#", {}), ("publish", "a", {"qos": 3}), ("shout", "a", {}), ("publish", "", {})],
)
async def test_an_invalid_message_is_refused(tool: MqttTool, op: str, topic: str, inputs: dict[str, Any]) -> None:
    outcome = await ran(tool, op, topic, data="x", **inputs)

    assert outcome.error is not None
    assert outcome.error.kind == "mqtt.input"


async def test_no_secret_appears_in_an_error(tool: MqttTool, topic: str) -> None:
    for secret in [secrets.token_urlsafe(12) for _ in range(50)]:
        outcome = await ran(tool, "publish", topic, data="x", auth=auth(password=secret))
        assert outcome.error is not None
        assert outcome.error.kind == "mqtt.denied"
        assert secret.encode() not in msgspec.json.encode(outcome.error)


async def test_a_credential_check_names_what_it_reached(tool: MqttTool) -> None:
    assert await tool.check({"auth": auth()}, context()) == f"connected to mqtt at 127.0.0.1:{mosquitto().port}"
