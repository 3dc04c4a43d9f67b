"""Triggers of message brokers on a real server with a real worker: one execution for each message.

The server is killed when it has started the executions of a batch and before the broker hears of it; the next server
is given the same messages again, starts nothing for them, and only then does the broker forget them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import aiormq
import pytest
from yarl import URL

from noetl.client import Client
from noetl.client.administration_requests import set_credential
from noetl.operations.administration_shapes import NewTrigger
from noetl.tools.amqp import AmqpTool
from noetl.tools.messaging.tool import KafkaTool
from tests.cluster.machines import Cluster, cluster
from tests.engine_script import HEAD
from tests.servers import rabbitmq
from tests.servers.brokers import PASSWORD
from tests.servers.kafka import mock_cluster
from tests.tools.sql_tasks import outcome_of
from tests.waiting import until

pytestmark = pytest.mark.timeout(900)  # the first run fetches RabbitMQ, which takes its time to start
PATH = "tests/test"
PLAYBOOK = HEAD + "workload: {item: {}}\nworkflow: [{step: start, tool: {kind: noop, spec: {place: worker}}}]\n"
FIRST, LATER = range(5), range(5, 8)


class Broker(Protocol):
    inputs: dict[str, Any]  # of the trigger, without its credential
    credential: dict[str, Any]

    def send(self, numbers: range) -> None: ...

    def unsettled(self) -> int:
        """Messages that the broker would give to whoever comes next."""


class Queue:
    """A queue of RabbitMQ."""

    def __init__(self) -> None:
        self.inputs: dict[str, Any] = {"queue": f"q-{secrets.token_hex(6)}"}
        where = {"host": "127.0.0.1", "port": rabbitmq.rabbitmq().port}
        self.credential: dict[str, Any] = {**where, "user": "ada", "password": PASSWORD}
        asyncio.run(self._declare())

    async def _declare(self) -> None:
        where = URL.build(scheme="amqp", user="ada", password=PASSWORD, host="127.0.0.1", port=self.credential["port"])
        connection = await aiormq.connect(where)
        await (await connection.channel()).queue_declare(self.inputs["queue"], durable=True)
        await connection.close()

    def send(self, numbers: range) -> None:
        asyncio.run(self._asked(*({"op": "publish", "data": {"n": number}} for number in numbers)))

    def unsettled(self) -> int:
        (told,) = asyncio.run(self._asked({"op": "count"}))
        return int(told["messages"])

    async def _asked(self, *inputs: dict[str, Any]) -> list[Any]:
        return await _results(AmqpTool(), [{**self.inputs, "auth": self.credential, **one} for one in inputs])


class Topic:
    """A topic of Kafka, with a group: offsets are in the broker."""

    def __init__(self) -> None:
        name = f"t-{secrets.token_hex(6)}"
        self.inputs: dict[str, Any] = {"topic": name, "group": f"g-{name}"}
        self.credential: dict[str, Any] = {"host": "127.0.0.1", "port": mock_cluster().port}

    def send(self, numbers: range) -> None:
        records = [{"data": {"n": number}, "partition": 0} for number in numbers]
        asyncio.run(self._asked({"op": "produce", "records": records}))

    def unsettled(self) -> int:
        (told,) = asyncio.run(self._asked({"op": "consume", "group": self.inputs["group"]}))
        return len(told["records"])

    async def _asked(self, *inputs: dict[str, Any]) -> list[Any]:
        topic = {"topic": self.inputs["topic"], "auth": self.credential}
        return await _results(KafkaTool(), [{**topic, **one} for one in inputs])


async def _results(tool: AmqpTool | KafkaTool, calls: list[dict[str, Any]]) -> list[Any]:
    try:
        # A key of its own for each: it becomes the id of the message.
        outcomes = [await outcome_of(tool, one, {"timeout": "5m"}, key=secrets.token_hex(8)) for one in calls]
    finally:
        await tool.close()
    assert [one.error for one in outcomes if one.error] == []
    return [one.result for one in outcomes]


@pytest.fixture(params=["amqp", "kafka"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def broker(kind: str) -> Broker:
    return Queue() if kind == "amqp" else Topic()


@pytest.fixture
def grounds(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path, str(tmp_path / "store.db")) as grounds:
        yield grounds


def _begun_with(grounds: Cluster) -> list[tuple[int, str]]:
    """The number in each message that an execution was started for, and how it ended."""
    with grounds.client() as client:
        rows = [client.get(one.execution_id) for one in client.list(path=PATH, limit=200).executions]
    return sorted((one.payload["item"]["value"]["n"], one.status) for one in rows)


def _statuses(client: Client) -> list[str]:
    return [one.status for one in client.list(path=PATH, limit=200).executions]


def test_a_server_killed_before_it_acknowledges_starts_each_message_once(
    kind: str, broker: Broker, grounds: Cluster
) -> None:
    broker.send(FIRST)
    grounds.server("--allow-address", "127.0.0.1", crash_at="trigger.started")
    grounds.register(PLAYBOOK)
    with grounds.client() as client:
        client.send(set_credential("bus", broker.credential, kind))
        inputs = {**broker.inputs, "auth": "bus"}
        client.make_trigger(NewTrigger(name="new", kind=kind, path=PATH, inputs=inputs, interval=0.1, max_running=50))
    died = grounds.servers[0].died(300)
    until(lambda: broker.unsettled() == len(FIRST), 120, "the broker was told before the server died")

    grounds.servers[0].start()
    before = _begun_with(grounds)
    grounds.worker()
    broker.send(LATER)
    with grounds.client() as client:
        # They wait for the lease of the server that was killed: a look is one request, not one for each execution too.
        until(lambda: _statuses(client) == ["completed"] * 8, 240, "they did not all end")
    until(lambda: broker.unsettled() == 0, 120, "the broker was not told")

    assert died, grounds.logs()
    assert [number for number, _ in before] == list(FIRST), "they were started before the server died"
    assert [number for number, _ in _begun_with(grounds)] == [*FIRST, *LATER]
