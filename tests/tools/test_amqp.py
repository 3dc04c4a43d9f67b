"""`amqp` against a real RabbitMQ."""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiormq
import msgspec
import pytest
import pytest_asyncio
from aiormq.abc import ChannelFrame
from pamqp import commands
from pamqp.body import ContentBody
from pamqp.header import ContentHeader
from yarl import URL

from noetl.base.addresses.policy import CLOSED, AddressGuard
from noetl.control.trigger_turns import MOST_TRIES
from noetl.events.outcomes import Outcome
from noetl.tools import amqp_connections
from noetl.tools.amqp import OPERATIONS, AmqpTool
from noetl.tools.contract import TriggerPoll
from noetl.tools.kinds.brokers import AMQP
from tests.servers import rabbitmq
from tests.servers.brokers import PASSWORD
from tests.servers.ports import free_port
from tests.servers.proxy import Proxy
from tests.tools.sql_tasks import context, outcome_of
from tests.tools.trigger_place import TriggerPlace

pytestmark = [pytest.mark.timeout(900)]  # the first run fetches RabbitMQ, which takes its time to start


@pytest_asyncio.fixture
async def tool(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AmqpTool]:
    monkeypatch.setattr(amqp_connections, "_CONNECT_S", 300)  # a busy machine is no broken broker
    tool = AmqpTool()
    yield tool
    await tool.close()


@pytest_asyncio.fixture
async def queue() -> AsyncIterator[str]:
    """A queue of its own, made as an operator would."""
    name = f"q-{secrets.token_hex(6)}"
    async with administrator() as channel:
        await channel.queue_declare(name, durable=True)
    yield name
    async with administrator() as channel:
        await channel.queue_delete(name)


@asynccontextmanager
async def administrator() -> AsyncIterator[Any]:
    """A client of the test's own."""
    port = rabbitmq.rabbitmq().port
    url = URL.build(scheme="amqp", host="127.0.0.1", port=port, user="ada", password=PASSWORD)
    connection = await aiormq.connect(url)
    yield await connection.channel()
    await connection.close()


def auth(**more: Any) -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": rabbitmq.rabbitmq().port, "user": "ada", "password": PASSWORD, **more}


async def ran(tool: AmqpTool, op: str, /, **inputs: Any) -> Outcome:
    more = inputs.pop("more", {})
    return await outcome_of(tool, {"op": op, "auth": auth(), **inputs}, {"timeout": "10m"}, **more)


async def result_of(tool: AmqpTool, op: str, /, **inputs: Any) -> Any:
    outcome = await ran(tool, op, **inputs)
    assert outcome.error is None, outcome.error
    return outcome.result


async def error_of(tool: AmqpTool, op: str, /, **inputs: Any) -> Any:
    outcome = await ran(tool, op, **inputs)
    assert outcome.error is not None, outcome.result
    return outcome.error


async def messages_in(tool: AmqpTool, queue: str) -> int:
    return int((await result_of(tool, "count", queue=queue))["messages"])


async def waiting_in(tool: AmqpTool, queue: str, number: int) -> None:
    """The broker gives messages back a moment after their channel is closed."""
    while await messages_in(tool, queue) != number:
        await asyncio.sleep(0.05)


def test_every_operation_is_declared() -> None:
    declared = AMQP.input("op")

    assert declared is not None
    assert tuple(declared.schema["enum"]) == OPERATIONS


async def test_published_messages_are_received_in_order_and_once(tool: AmqpTool, queue: str) -> None:
    headers = {"of": "ada", "list": [1, "a"]}
    for number in range(3):
        told = await result_of(tool, "publish", queue=queue, data={"n": number}, headers=headers)

    first = await result_of(tool, "get", queue=queue, limit=2)
    rest = await result_of(tool, "get", queue=queue)

    assert told == {"exchange": "", "routing_key": queue, "message_id": "exec/run/task/0", "size": 7}
    assert [one["value"] for one in first["messages"] + rest["messages"]] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert first["messages"][0]["headers"] == headers
    assert first["messages"][0]["message_id"] == "exec/run/task/0", "every attempt is the same message"
    assert await messages_in(tool, queue) == 0


async def test_an_exchange_routes_by_the_key(tool: AmqpTool, queue: str) -> None:
    async with administrator() as channel:
        await channel.queue_bind(queue, "amq.topic", f"{queue}.#")

    await result_of(tool, "publish", exchange="amq.topic", routing_key=f"{queue}.new", data="x")
    found = await result_of(tool, "get", queue=queue)
    error = await error_of(tool, "publish", exchange="amq.topic", routing_key="nobody", data="x")

    assert [(one["value"], one["routing_key"]) for one in found["messages"]] == [("x", f"{queue}.new")]
    assert (error.kind, error.code, error.retryable) == ("amqp.missing", "312", False)
    await result_of(tool, "publish", exchange="amq.topic", routing_key="nobody", data="x", mandatory=False)


async def test_a_task_can_wait_for_a_first_message(tool: AmqpTool, queue: str) -> None:
    waiting = asyncio.create_task(result_of(tool, "get", queue=queue, wait="9m", limit=1))
    while (await result_of(tool, "count", queue=queue))["consumers"] == 0:
        await asyncio.sleep(0.02)
    for number in range(2):
        await result_of(tool, "publish", queue=queue, data=str(number))

    assert [one["value"] for one in (await waiting)["messages"]] == ["0"]
    assert [one["value"] for one in (await result_of(tool, "get", queue=queue))["messages"]] == ["1"]
    assert (await result_of(tool, "get", queue=queue, wait="10ms"))["messages"] == []


class TestLater:
    async def test_messages_stay_in_the_broker_until_they_are_acknowledged(self, tool: AmqpTool, queue: str) -> None:
        for number in range(3):
            await result_of(tool, "publish", queue=queue, data=number)

        found = await result_of(tool, "get", queue=queue, ack="later", format="json")
        told = await result_of(tool, "ack", receipts=found["receipts"][:1])
        tool.release("exec")
        await waiting_in(tool, queue, 2)
        again = await result_of(tool, "get", queue=queue, ack="later", format="json")

        assert told == {"settled": 1}
        assert [one["value"] for one in found["messages"]] == [0, 1, 2]
        assert [(one["value"], one["redelivered"]) for one in again["messages"]] == [(1, True), (2, True)]

    async def test_a_receipt_of_a_closed_connection_is_reported_as_missing(self, tool: AmqpTool, queue: str) -> None:
        await result_of(tool, "publish", queue=queue, data="x")
        found = await result_of(tool, "get", queue=queue, ack="later")

        tool.release("exec")
        error = await error_of(tool, "ack", receipts=found["receipts"])

        assert (error.kind, error.code) == ("amqp.missing", "receipt")
        await waiting_in(tool, queue, 1)

    async def test_another_execution_cannot_settle_a_message(self, tool: AmqpTool, queue: str) -> None:
        await result_of(tool, "publish", queue=queue, data="x")
        found = await result_of(tool, "get", queue=queue, ack="later")
        stranger = context(execution_id="another")

        with pytest.raises(Exception, match="held no more"):
            await tool.run({"op": "ack", "receipts": found["receipts"], "auth": auth()}, stranger)
        assert await result_of(tool, "ack", receipts=found["receipts"]) == {"settled": 1}

    async def test_a_rejected_message_is_redelivered_or_discarded(self, tool: AmqpTool, queue: str) -> None:
        for number in range(2):
            await result_of(tool, "publish", queue=queue, data=str(number))
        found = await result_of(tool, "get", queue=queue, ack="later")

        await result_of(tool, "reject", receipts=found["receipts"][:1])
        await result_of(tool, "reject", receipts=found["receipts"][1:], requeue=True)

        assert [one["value"] for one in (await result_of(tool, "get", queue=queue))["messages"]] == ["1"]

    async def test_an_unused_connection_is_closed(
        self, tool: AmqpTool, queue: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await result_of(tool, "publish", queue=queue, data="x")
        monkeypatch.setattr(amqp_connections, "HELD_S", 0.01)
        await result_of(tool, "get", queue=queue, ack="later")
        monkeypatch.undo()

        other = AmqpTool()
        await waiting_in(other, queue, 1)
        await other.close()


async def test_an_unreadable_value_stays_in_the_queue(tool: AmqpTool, queue: str) -> None:
    await result_of(tool, "publish", queue=queue, data="no json")

    error = await error_of(tool, "get", queue=queue, format="json")

    assert error.kind == "amqp.error"
    await waiting_in(tool, queue, 1)


async def test_a_wrong_password_is_denied(tool: AmqpTool) -> None:
    error = await error_of(tool, "count", queue="x", auth=auth(password="a wrong one"))

    assert (error.kind, error.code, error.retryable) == ("amqp.denied", "403", False)


async def test_an_unknown_virtual_host_is_denied(tool: AmqpTool) -> None:
    error = await error_of(tool, "count", queue="x", auth=auth(vhost="nowhere"))

    assert (error.kind, error.code, error.retryable) == ("amqp.denied", "530", False)


async def test_an_unknown_queue_is_missing_and_affects_no_other(tool: AmqpTool, queue: str) -> None:
    await result_of(tool, "publish", queue=queue, data="x")
    found = await result_of(tool, "get", queue=queue, ack="later")

    error = await error_of(tool, "get", queue="nowhere")

    assert (error.kind, error.code, error.retryable) == ("amqp.missing", "404", False)
    assert await result_of(tool, "ack", receipts=found["receipts"]) == {"settled": 1}


async def test_an_unreachable_broker_is_retryable(tool: AmqpTool) -> None:
    error = await error_of(tool, "count", queue="x", auth=auth(port=free_port()))

    assert (error.kind, error.code, error.retryable) == ("amqp.error", "connection", True)


async def test_a_connection_lost_while_waiting_is_retryable(tool: AmqpTool, queue: str) -> None:
    with Proxy("127.0.0.1", rabbitmq.rabbitmq().port) as line:
        waiting = asyncio.create_task(ran(tool, "get", queue=queue, wait="9m", auth=auth(port=line.port)))
        while (await result_of(tool, "count", queue=queue))["consumers"] == 0:
            await asyncio.sleep(0.02)
        line.cut()
        lost = await waiting
        again = await result_of(tool, "count", queue=queue, auth=auth(port=line.port))

    assert lost.error is not None
    assert (lost.error.kind, lost.error.code, lost.error.retryable) == ("amqp.error", "connection", True)
    assert again["messages"] == 0


async def test_a_message_lost_in_transit_is_not_reported_as_published(tool: AmqpTool, queue: str) -> None:
    with Proxy("127.0.0.1", rabbitmq.rabbitmq().port) as line:
        await result_of(tool, "count", queue=queue, auth=auth(port=line.port))
        line.rate = 1 << 20
        sending = asyncio.create_task(
            ran(tool, "publish", queue=queue, data="x" * (16 << 20), auth=auth(port=line.port))
        )
        carried = line.carried
        while line.carried < carried + (1 << 16):
            await asyncio.sleep(0.02)
        line.cut()
        outcome = await sending

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("amqp.error", True)
    assert await messages_in(tool, queue) == 0


async def test_a_cancelled_task_returns_its_messages(tool: AmqpTool, queue: str) -> None:
    waiting = asyncio.create_task(ran(tool, "get", queue=queue, wait="9m"))
    while (await result_of(tool, "count", queue=queue))["consumers"] == 0:
        await asyncio.sleep(0.02)

    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    while (await result_of(tool, "count", queue=queue))["consumers"]:
        await asyncio.sleep(0.02)
    await result_of(tool, "publish", queue=queue, data="x")

    assert [one["value"] for one in (await result_of(tool, "get", queue=queue))["messages"]] == ["x"]


class TestTls:
    def tls(self, **more: Any) -> dict[str, Any]:
        server = rabbitmq.rabbitmq()
        return auth(host="localhost", port=server.tls_port, tls=True, ca=server.certificates.ca.read_text(), **more)

    async def test_the_authority_of_the_credential_is_trusted(self, tool: AmqpTool, queue: str) -> None:
        assert (await result_of(tool, "count", queue=queue, auth=self.tls()))["messages"] == 0

    async def test_another_authority_is_not_trusted(self, tool: AmqpTool, queue: str) -> None:
        error = await error_of(tool, "count", queue=queue, auth={**self.tls(), "ca": ""})

        assert (error.kind, error.code, error.retryable) == ("amqp.error", "tls", False)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_private_address_is_reached_only_if_the_policy_allows(tool: AmqpTool, host: str) -> None:
    more = {"addresses": AddressGuard(CLOSED)}

    assert (await error_of(tool, "count", queue="x", auth=auth(host=host), more=more)).kind == "tool.not_allowed"


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("shout", {}),
        ("publish", {"data": "x"}),
        ("get", {}),
        ("get", {"queue": "q", "limit": 0}),
        ("get", {"queue": "q" * 300}),
        ("get", {"queue": "q", "ack": "never"}),
        ("ack", {"receipts": "x"}),
        ("publish", {"queue": "q", "headers": "x"}),
    ],
)
async def test_an_invalid_operation_is_refused(tool: AmqpTool, op: str, inputs: dict[str, Any]) -> None:
    assert (await error_of(tool, op, **inputs)).kind == "amqp.input"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"type": "amqp"}, "needs a url"),
        ({"url": "http://u:hunter22@x"}, "none of amqp"),
        ({"host": "x", "port": "no"}, "no number"),
    ],
)
async def test_a_missing_credential_field_is_named(tool: AmqpTool, given: dict[str, Any], said: str) -> None:
    error = await error_of(tool, "count", queue="x", auth=given)

    assert error.kind == "keychain.unresolved"
    assert said in error.message
    assert "hunter22" not in error.message


async def test_no_secret_appears_in_an_error(tool: AmqpTool, caplog: pytest.LogCaptureFixture) -> None:
    for secret in [secrets.token_urlsafe(12) for _ in range(50)]:
        error = await error_of(tool, "count", queue="x", auth=f"amqp://ada:{secret}@127.0.0.1:{auth()['port']}/")
        assert error.kind == "amqp.denied"
        assert secret.encode() not in msgspec.json.encode(error)
        assert secret not in caplog.text


async def test_a_credential_check_names_what_it_reached(tool: AmqpTool) -> None:
    assert await tool.check({"auth": auth()}, context()) == f"connected to amqp at 127.0.0.1:{auth()['port']}"


START = bytes.fromhex("000a000a0009") + struct.pack(">I", 0) + struct.pack(">I", 5) + b"PLAIN" + struct.pack(">I", 0)


def frame(payload: bytes, *, size: int | None = None, kind: int = 1) -> bytes:
    return struct.pack(">BHI", kind, 0, len(payload) if size is None else size) + payload + b"\xce"


class TestHostileAnswers:
    @asynccontextmanager
    async def broker(self, *answers: bytes) -> AsyncIterator[int]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for answer in answers:
                await reader.read(4096)
                writer.write(answer)
                await writer.drain()
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        yield server.sockets[0].getsockname()[1]
        server.close()

    @pytest.mark.parametrize(
        "answers",
        [
            (b"HTTP/1.1 400 Bad Request\r\n\r\n",),
            (b"AMQP\x00\x00\x09\x01",),
            (frame(START, size=(1 << 32) - 1),),
            (frame(b"\xff" * 64),),
            (frame(b""),),
            (frame(START), frame(START)),
            (frame(START), frame(bytes.fromhex("000a001e") + b"\x00\x01", kind=9)),
        ],
        ids=["http", "other-version", "huge", "nonsense", "empty", "twice", "unknown-frame"],
    )
    async def test_an_invalid_response_is_an_error(
        self, tool: AmqpTool, answers: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(amqp_connections, "_CONNECT_S", 5)
        async with self.broker(*answers) as port:
            error = await error_of(tool, "count", queue="x", auth=auth(port=port))

        assert error.kind == "amqp.error"
        assert len(error.message) < 600


class TestTrigger:
    def poll(self, **more: Any) -> TriggerPoll:
        return TriggerPoll(trigger_id="t", **more)

    async def publish(self, queue: str, *bodies: bytes, ids: Callable[[int], str | None] = str) -> None:
        """Frame by frame, since the library gives an id to a message without one."""
        async with administrator() as channel:
            for number, body in enumerate(bodies):
                header = ContentHeader(0, len(body), commands.Basic.Properties(message_id=ids(number)))
                frames: list[Any] = [commands.Basic.Publish(routing_key=queue), header, ContentBody(body)]
                await channel.connection.write_queue.put(
                    ChannelFrame.marshall(channel_number=channel.number, frames=frames)
                )
            await channel.queue_declare(queue, passive=True)  # answered after what was sent before it

    async def test_messages_are_redelivered_until_they_are_settled(self, tool: AmqpTool, queue: str) -> None:
        await self.publish(queue, b'{"n": 0}', b'{"n": 1}', b'{"n": 2}')
        inputs = {"queue": queue, "auth": auth()}

        first = await tool.poll(inputs, self.poll(), context())
        await tool.settle(inputs, first.items[:1], first.items[1:], context())
        again = await tool.poll(inputs, self.poll(wait_s=500.0), context())
        while len(again.items) < 2:  # they come back one after the other
            await tool.settle(inputs, (), again.items, context())
            again = await tool.poll(inputs, self.poll(wait_s=500.0), context())
        await tool.settle(inputs, again.items, (), context())

        assert [item.value["value"]["n"] for item in first.items] == [0, 1, 2]
        assert [(item.item_id, item.value) for item in again.items] == [
            (item.item_id, item.value) for item in first.items[1:]
        ]
        assert (await tool.poll(inputs, self.poll(), context())).items == ()
        assert await messages_in(tool, queue) == 0

    async def test_an_unacknowledged_message_is_redelivered_with_the_same_id(self, tool: AmqpTool, queue: str) -> None:
        await self.publish(queue, b"x")
        inputs = {"queue": queue, "auth": auth()}
        other = AmqpTool()

        first = await other.poll(inputs, self.poll(), context())
        await other.close()
        again = await tool.poll(inputs, self.poll(wait_s=500.0), context())
        await tool.settle(inputs, again.items, (), context())

        assert again.items[0].item_id == first.items[0].item_id == f"{queue}:0"

    async def test_a_message_that_is_no_longer_held_is_settled_later(self, tool: AmqpTool, queue: str) -> None:
        await self.publish(queue, b"x")
        inputs = {"queue": queue, "auth": auth()}
        first = await tool.poll(inputs, self.poll(), context())

        tool.release("exec")
        await tool.settle(inputs, first.items, (), context())

        await waiting_in(tool, queue, 1)

    async def test_a_message_without_an_id_starts_nothing_unless_its_content_is_its_id(
        self, tool: AmqpTool, queue: str
    ) -> None:
        await self.publish(queue, b"x", b"x", b"y", ids=lambda _: None)
        inputs = {"queue": queue, "auth": auth()}

        refused = await tool.poll(inputs, self.poll(), context())
        await tool.settle(inputs, (), refused.items, context())
        taken = await tool.poll({**inputs, "identity": "content"}, self.poll(wait_s=500.0), context())

        assert ["message_id" in item.refusal for item in refused.items] == [True, True, True]
        assert len({item.item_id for item in refused.items}) == 2
        assert all(item.refusal == "" for item in taken.items)
        assert {item.item_id for item in taken.items} <= {item.item_id for item in refused.items}

    async def test_a_batch_is_no_larger_than_requested(self, tool: AmqpTool, queue: str) -> None:
        await self.publish(queue, b"a", b"b", b"c")
        inputs = {"queue": queue, "auth": auth()}

        batch = await tool.poll(inputs, self.poll(limit=2), context())

        assert [item.value["value"] for item in batch.items] == ["a", "b"]
        assert await messages_in(tool, queue) == 1, "the rest waits in the broker"

    async def test_a_redelivered_message_starts_no_second_execution(self, tool: AmqpTool, queue: str) -> None:
        """The server dies after the starts and before the acknowledgement; another one follows."""
        await self.publish(queue, b"a", b"b")
        first = AmqpTool()
        place = TriggerPlace(first, {"queue": queue, "auth": auth()})
        place.fails_to_settle = True
        await place.turn()
        await first.close()

        place.source, place.fails_to_settle = tool, False
        while await messages_in(tool, queue) < 2:
            await asyncio.sleep(0.05)
        await self.publish(queue, b"c", ids=lambda _: "new")
        await place.turn()

        assert place.started == ["a", "b", "c"]
        assert await messages_in(tool, queue) == 0

    async def test_messages_wait_in_the_broker_while_enough_executions_are_open(
        self, tool: AmqpTool, queue: str
    ) -> None:
        await self.publish(queue, b"a", b"b", b"c")
        place = TriggerPlace(tool, {"queue": queue, "auth": auth()}, max_running=2)

        await place.turn()
        await place.turn()

        assert place.started == ["a", "b"]
        assert await messages_in(tool, queue) == 1
        await place.cancel(f"{queue}:0")
        await place.turn()
        assert place.started == ["a", "b", "c"]

    async def test_a_message_without_an_id_is_a_dead_letter_that_can_be_started(
        self, tool: AmqpTool, queue: str
    ) -> None:
        await self.publish(queue, b"x", ids=lambda _: None)
        place = TriggerPlace(tool, {"queue": queue, "auth": auth()})

        for _ in range(MOST_TRIES):
            await place.turn()
        (letter,) = await place.dead_letters()
        await place.triggers.keep_dead_letter(place.trigger, msgspec.structs.replace(letter, retry=True))
        await self.publish(queue, b"y", ids=lambda _: "y")
        await place.turn()

        assert "message_id" in letter.error
        assert place.started == ["x", "y"]
        assert await place.dead_letters() == []
