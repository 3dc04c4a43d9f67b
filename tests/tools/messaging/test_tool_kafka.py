"""`kafka` against the mock cluster of librdkafka, and logins against a stand-in (tests/servers/kafka.py)."""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from noetl.base.addresses.policy import CLOSED, AddressGuard
from noetl.base.errors import ToolError
from noetl.events.outcomes import Outcome
from noetl.tools.contract import TriggerPoll
from noetl.tools.messaging.tool import KafkaTool
from tests.servers.kafka import greeting_broker, mock_cluster
from tests.servers.ports import free_port
from tests.servers.proxy import Proxy
from tests.tools.sql_tasks import context, outcome_of
from tests.tools.trigger_place import TriggerPlace

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="module")]
PASSWORD = "the password of ada"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tool() -> AsyncIterator[KafkaTool]:
    """One child process for all tests."""
    tool = KafkaTool()
    yield tool
    await tool.close()


@pytest.fixture
def topic() -> str:
    return f"t-{secrets.token_hex(6)}"


def auth(**more: Any) -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": mock_cluster().port, **more}


async def ran(tool: KafkaTool, op: str, topic: str | None = None, /, **inputs: Any) -> Outcome:
    more = inputs.pop("more", {})
    return await outcome_of(tool, {"op": op, "topic": topic, "auth": auth(), **inputs}, {"timeout": "9m"}, **more)


async def result_of(tool: KafkaTool, op: str, topic: str | None = None, /, **inputs: Any) -> Any:
    outcome = await ran(tool, op, topic, **inputs)
    assert outcome.error is None, outcome.error
    return outcome.result


async def error_of(tool: KafkaTool, op: str, topic: str | None = None, /, **inputs: Any) -> Any:
    outcome = await ran(tool, op, topic, **inputs)
    assert outcome.error is not None, outcome.result
    return outcome.error


async def produced(tool: KafkaTool, topic: str, *values: Any) -> Any:
    """In one partition, so that they have an order."""
    return await result_of(tool, "produce", topic, records=[{"data": one, "partition": 0} for one in values])


def values(found: Any) -> list[Any]:
    return [row["value"] for row in found["records"]]


async def test_consuming_continues_at_the_offsets_of_the_last_call(tool: KafkaTool, topic: str) -> None:
    told = await produced(tool, topic, {"n": 0}, {"n": 1}, {"n": 2})

    first = await result_of(tool, "consume", topic, limit=2)
    second = await result_of(tool, "consume", topic, offsets=first["offsets"])
    third = await result_of(tool, "consume", topic, offsets=second["offsets"])

    assert told["records"] == [{"partition": 0, "offset": number} for number in range(3)]
    assert values(first) + values(second) == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert third["records"] == []
    assert third["offsets"] == second["offsets"]


async def test_a_record_keeps_its_key_and_headers(tool: KafkaTool, topic: str) -> None:
    await result_of(tool, "produce", topic, data="x", key="k", headers={"of": "ada"})

    (row,) = (await result_of(tool, "consume", topic))["records"]

    assert (row["key"], row["value"], row["headers"]) == ("k", "x", {"of": "ada"})
    assert set(row) == {"partition", "offset", "timestamp", "key", "value", "headers"}


async def test_records_with_one_key_are_in_one_partition(tool: KafkaTool, topic: str) -> None:
    told = await result_of(tool, "produce", topic, records=[{"data": n, "key": "same"} for n in range(5)])

    assert len({one["partition"] for one in told["records"]}) == 1
    assert values(await result_of(tool, "consume", topic, format="json")) == [0, 1, 2, 3, 4]


async def test_nothing_is_committed_before_the_commit_operation(tool: KafkaTool, topic: str) -> None:
    group = f"g-{topic}"
    await produced(tool, topic, "a", "b")

    first = await result_of(tool, "consume", topic, group=group)
    again = await result_of(tool, "consume", topic, group=group)
    await result_of(tool, "commit", topic, group=group, offsets=again["offsets"])
    await produced(tool, topic, "c")
    later = await result_of(tool, "consume", topic, group=group)

    assert values(first) == values(again) == ["a", "b"]
    assert values(later) == ["c"]


async def test_consuming_can_start_at_the_end_and_wait_for_a_first_record(tool: KafkaTool, topic: str) -> None:
    await produced(tool, topic, "old")
    other = KafkaTool()
    ends = (await result_of(tool, "consume", topic, start="latest"))["offsets"]

    waiting = asyncio.create_task(result_of(other, "consume", topic, offsets=ends, wait="8m"))
    await produced(tool, topic, "new")

    assert values(await waiting) == ["new"]
    await other.close()


async def test_an_unknown_topic_is_missing(tool: KafkaTool, topic: str) -> None:
    error = await error_of(tool, "consume", topic)

    assert (error.kind, error.code, error.retryable) == ("kafka.missing", "3", False)


async def test_offsets_beyond_the_end_are_a_conflict(tool: KafkaTool, topic: str) -> None:
    await produced(tool, topic, "a")

    error = await error_of(tool, "consume", topic, offsets={"0": 7})

    assert (error.kind, error.code) == ("kafka.conflict", "1")
    assert "made anew" in error.message


async def test_an_unreachable_broker_is_retryable(tool: KafkaTool, topic: str) -> None:
    error = await error_of(tool, "consume", topic, auth=auth(port=free_port()))

    assert (error.kind, error.code, error.retryable) == ("kafka.error", "connection", True)


async def test_a_lost_broker_connection_is_retryable(tool: KafkaTool, topic: str) -> None:
    with Proxy("127.0.0.1", mock_cluster().port) as line:
        line.rate = 200  # slow enough to be cut in the middle
        sending = asyncio.create_task(ran(tool, "check", topic, auth=auth(port=line.port)))
        while line.carried < 40:
            await asyncio.sleep(0.01)
        with line.down():
            outcome = await sending

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("kafka.error", True)


async def test_a_cancelled_task_ends_its_process(topic: str) -> None:
    tool = KafkaTool()
    await produced(tool, topic, "x")
    waiting = asyncio.create_task(ran(tool, "consume", topic, start="latest", wait="8m"))
    while not tool._children._busy:
        await asyncio.sleep(0.01)
    (child,) = tool._children._busy

    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert not Path(f"/proc/{child.pid}").exists()
    await tool.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_private_address_is_reached_only_if_the_policy_allows(tool: KafkaTool, host: str) -> None:
    more = {"addresses": AddressGuard(CLOSED)}

    assert (await error_of(tool, "consume", "t", auth=auth(host=host), more=more)).kind == "tool.not_allowed"


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("shout", {}),
        ("produce", {"records": "x"}),
        ("produce", {"data": "x", "partition": -1}),
        ("produce", {"data": "x", "headers": "x"}),
        ("consume", {"offsets": {"0": "many"}}),
        ("consume", {"offsets": {"0": -5}}),
        ("consume", {"limit": 0}),
        ("commit", {"group": "g"}),
        ("commit", {"offsets": {"0": 1}}),
    ],
)
async def test_an_invalid_operation_is_refused(tool: KafkaTool, topic: str, op: str, inputs: dict[str, Any]) -> None:
    await produced(tool, topic, "x")

    assert (await error_of(tool, op, topic, **inputs)).kind == "kafka.input"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"type": "kafka"}, "needs a url"),
        ({"url": "http://u:hunter22@x"}, "none of kafka"),
        ({"servers": "a:hunter22"}, "host:port"),
        ({"host": "127.0.0.1", "user": "u", "password": "hunter22", "mechanism": "MAGIC"}, "SCRAM-SHA-256"),
    ],
)
async def test_a_missing_credential_field_is_named(tool: KafkaTool, given: dict[str, Any], said: str) -> None:
    error = await error_of(tool, "consume", "t", auth=given)

    assert error.kind == "keychain.unresolved"
    assert said in error.message
    assert "hunter22" not in error.message


async def test_one_reachable_server_is_sufficient(tool: KafkaTool, topic: str) -> None:
    await produced(tool, topic, "x")
    servers = f"127.0.0.1:{free_port()}, 127.0.0.1:{mock_cluster().port}"

    assert values(await result_of(tool, "consume", topic, auth={"servers": servers})) == ["x"]


class TestLogins:
    async def test_a_credential_check_names_what_it_reached(self, tool: KafkaTool) -> None:
        async with greeting_broker("ada", PASSWORD) as port:
            login = {"host": "127.0.0.1", "port": port, "user": "ada", "password": PASSWORD}

            assert await tool.check({"auth": login}, context()) == f"connected to kafka at 127.0.0.1:{port}"

    async def test_a_wrong_password_is_denied(self, tool: KafkaTool) -> None:
        async with greeting_broker("ada", PASSWORD) as port:
            login = {"host": "127.0.0.1", "port": port, "user": "ada", "password": "a wrong one"}
            error = await error_of(tool, "consume", "t", auth=login)

        assert (error.kind, error.code, error.retryable) == ("kafka.denied", "58", False)

    async def test_a_broker_cannot_redirect_its_clients_to_a_blocked_address(self, tool: KafkaTool) -> None:
        async with greeting_broker("ada", PASSWORD, advertised="169.254.169.254") as port:
            login = {"host": "127.0.0.1", "port": port, "user": "ada", "password": PASSWORD}
            error = await error_of(tool, "consume", "t", auth=login)

        assert error.kind == "tool.not_allowed"

    async def test_no_secret_appears_in_an_error(self, tool: KafkaTool) -> None:
        async with greeting_broker("ada", PASSWORD) as port:
            for secret in [secrets.token_urlsafe(12) for _ in range(50)]:
                error = await error_of(tool, "consume", "t", auth=f"kafka://ada:{secret}@127.0.0.1:{port}")
                assert error.kind == "kafka.denied"
                assert secret.encode() not in msgspec.json.encode(error)


class TestHostileAnswers:
    @asynccontextmanager
    async def broker(self, answer: bytes) -> AsyncIterator[int]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(4096)
            writer.write(answer)
            writer.write_eof()
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        yield server.sockets[0].getsockname()[1]
        server.close()

    @pytest.mark.parametrize(
        "answer",
        [
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            struct.pack(">i", -1),
            struct.pack(">i", (1 << 31) - 1) + b"x" * 100,
            struct.pack(">ii", 4, 999),
            struct.pack(">ii", 64, 1) + b"\xff" * 60,
            b"",
        ],
        ids=["http", "negative", "huge", "other-number", "nonsense", "nothing"],
    )
    async def test_an_invalid_response_is_an_error(self, tool: KafkaTool, topic: str, answer: bytes) -> None:
        async with self.broker(answer) as port:
            error = await error_of(tool, "consume", topic, auth=auth(port=port))

        assert error.kind == "kafka.error"
        assert len(error.message) < 600


class TestTrigger:
    def poll(self, cursor: Any = None, **more: Any) -> TriggerPoll:
        return TriggerPoll(trigger_id="t", cursor=cursor, **more)

    async def test_records_after_the_cursor_have_their_position_as_id(self, tool: KafkaTool, topic: str) -> None:
        await produced(tool, topic, "a", "b", "c")
        inputs = {"topic": topic, "auth": auth()}

        first = await tool.poll(inputs, self.poll(limit=2), context())
        again = await tool.poll(inputs, self.poll(limit=2), context())
        rest = await tool.poll(inputs, self.poll(first.cursor), context())

        assert first == again
        assert [item.item_id for item in first.items + rest.items] == [f"{topic}:0:{n}" for n in range(3)]

    async def test_the_group_offset_is_committed_after_the_starts(self, tool: KafkaTool, topic: str) -> None:
        await produced(tool, topic, "a", "b", "c")
        inputs, group = {"topic": topic, "group": f"g:{topic}", "auth": auth()}, f"g:{topic}"

        batch = await tool.poll(inputs, self.poll(), context())
        before = await result_of(tool, "consume", topic, group=group)
        await tool.settle(inputs, batch.items[:2], batch.items[2:], context())
        after = await result_of(tool, "consume", topic, group=group)
        taken_over = await tool.poll(inputs, self.poll(), context())

        assert (values(before), values(after)) == (["a", "b", "c"], ["c"])
        assert [item.value["value"] for item in taken_over.items] == ["c"]

    async def test_records_read_again_start_no_second_execution(self, tool: KafkaTool, topic: str) -> None:
        """The server dies after the starts, before its cursor and the group's offsets are stored."""
        await produced(tool, topic, "a", "b")
        place = TriggerPlace(tool, {"topic": topic, "auth": auth()})
        place.fails_to_settle = True
        await place.turn()

        place.fails_to_settle = False
        await produced(tool, topic, "c")
        await place.turn()

        assert place.started == ["a", "b", "c"]
        assert (await place.progress()).cursor["0"] == 3

    async def test_records_wait_while_enough_executions_are_open(self, tool: KafkaTool, topic: str) -> None:
        await produced(tool, topic, "a", "b", "c")
        place = TriggerPlace(tool, {"topic": topic, "auth": auth()}, max_running=2)

        await place.turn()
        await place.turn()
        assert place.started == ["a", "b"]

        await place.cancel(f"{topic}:0:0")
        await place.turn()
        assert place.started == ["a", "b", "c"]

    async def test_a_recreated_topic_stops_the_trigger(self, tool: KafkaTool, topic: str) -> None:
        await produced(tool, topic, "a")

        with pytest.raises(ToolError, match="made anew"):
            await tool.poll({"topic": topic, "auth": auth()}, self.poll({"0": 9}), context())
