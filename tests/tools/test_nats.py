"""`nats` against a real server: messages, buckets, and what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client

from noetl.base import nats_connections
from noetl.events.outcomes import Outcome
from noetl.tools import nats_operations
from noetl.tools.kinds import KINDS
from noetl.tools.nats import OPERATIONS, NatsTool
from tests.servers.nats import Server, server
from tests.tools.sql_tasks import outcome_of


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long the server takes on a busy machine is no matter here."""
    monkeypatch.setattr(nats_connections, "CONNECT_S", 60)


@pytest_asyncio.fixture
async def tool() -> AsyncIterator[NatsTool]:
    tool = NatsTool()
    yield tool
    await tool.close()


@pytest_asyncio.fixture
async def client() -> AsyncIterator[Client]:
    client = await nats.connect(server().url, connect_timeout=60)
    yield client
    await client.close()


@pytest.fixture
def bucket() -> str:
    return f"b_{uuid4().hex[:12]}"


async def ran(tool: NatsTool, op: str, spec: dict[str, Any] | None = None, **inputs: Any) -> Outcome:
    return await outcome_of(tool, {"op": op, "auth": server().auth, **inputs}, spec)


def failure(outcome: Outcome) -> tuple[str, str]:
    assert outcome.error is not None
    return outcome.error.kind, outcome.error.message


def test_every_operation_of_the_table_works() -> None:
    known = KINDS["nats"].input("op")

    assert known is not None
    assert known.schema["enum"] == list(OPERATIONS)


@pytest.mark.parametrize(
    ("value", "as_json", "auto"),
    [
        ({"a": [1, None]}, {"a": [1, None]}, {"a": [1, None]}),
        ([1, 2], [1, 2], [1, 2]),
        (5, 5, "5"),
        ("plain text", None, "plain text"),
        ("42", 42, "42"),
        ("", None, ""),
    ],
)
async def test_a_key_keeps_its_value(tool: NatsTool, bucket: str, value: Any, as_json: Any, auto: Any) -> None:
    """Text that looks like a number stays text: nobody said that it is more."""
    put = await ran(tool, "kv_put", bucket=bucket, key="orders.7", data=value, create=True)
    got = await ran(tool, "kv_get", bucket=bucket, key="orders.7")

    assert put.result["store"] == "nats.kv"
    assert put.result["key"] == f"{bucket}/orders.7"
    assert got.result == {"bucket": bucket, "key": "orders.7", "value": auto, "revision": put.result["revision"]}
    if as_json is not None:
        assert (await ran(tool, "kv_get", bucket=bucket, key="orders.7", format="json")).result["value"] == as_json


async def test_keys_are_listed_and_deleted(tool: NatsTool, bucket: str) -> None:
    await ran(tool, "kv_put", bucket=bucket, key="b", data=1, create=True)
    await ran(tool, "kv_put", bucket=bucket, key="a", data=1)
    both = await ran(tool, "kv_keys", bucket=bucket)
    deleted = await ran(tool, "kv_delete", bucket=bucket, key="b")
    await ran(tool, "kv_delete", bucket=bucket, key="a")

    assert both.result["keys"] == ["a", "b"]
    assert deleted.result["deleted"] is True
    assert (await ran(tool, "kv_keys", bucket=bucket)).result["keys"] == []
    kind, message = failure(await ran(tool, "kv_get", bucket=bucket, key="a"))
    assert (kind, message) == ("nats.missing", f"kv_get of {bucket}/a: there is none")


async def test_keys_over_several_pages_are_listed_without_deleted_ones(
    tool: NatsTool, bucket: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_operations, "_BATCH", 3)
    await ran(tool, "kv_put", bucket=bucket, key="k.0", data=1, create=True)
    kept = await client.jetstream().key_value(bucket)
    for number in range(1, 10):
        await kept.put(f"k.{number}", b"1")
    await kept.put("k.7", b"2")
    await kept.delete("k.3")
    await kept.purge("k.4")

    listed = await ran(tool, "kv_keys", bucket=bucket)

    assert listed.result["keys"] == [f"k.{number}" for number in (0, 1, 2, 5, 6, 7, 8, 9)]
    assert await client.jetstream().consumers_info(f"KV_{bucket}") == [], "nothing is left of the listing"


async def test_an_empty_bucket_has_no_keys(tool: NatsTool, bucket: str) -> None:
    assert (await ran(tool, "kv_keys", bucket=bucket, create=True)).result["keys"] == []
    assert failure(await ran(tool, "kv_keys", bucket=bucket + "x"))[0] == "nats.missing"


async def test_a_key_can_be_written_only_over_the_revision_that_was_read(tool: NatsTool, bucket: str) -> None:
    first = await ran(tool, "kv_put", bucket=bucket, key="k", data="1", revision=0, create=True)
    again = await ran(tool, "kv_put", bucket=bucket, key="k", data="2", revision=0)
    second = await ran(tool, "kv_put", bucket=bucket, key="k", data="2", revision=first.result["revision"])
    late = await ran(tool, "kv_put", bucket=bucket, key="k", data="3", revision=first.result["revision"])

    assert failure(again)[0] == failure(late)[0] == "nats.conflict"
    assert second.error is None
    assert (await ran(tool, "kv_get", bucket=bucket, key="k")).result["value"] == "2"


@pytest.mark.req("RES-05")
async def test_objects_of_any_size_are_read_back_whole(tool: NatsTool, bucket: str) -> None:
    """Past the size of one message, which is 1 MiB."""
    text = "0123456789abcdef" * 200_000

    put = await ran(tool, "object_put", bucket=bucket, key="big file.txt", data=text, create=True)
    got = await ran(tool, "object_get", bucket=bucket, key="big file.txt")

    assert put.result["store"] == "nats.object"
    assert put.result["size"] == len(text)
    assert got.result["value"] == text
    assert got.result["checksum"] == put.result["checksum"]


async def test_objects_are_listed_and_deleted(tool: NatsTool, bucket: str) -> None:
    await ran(tool, "object_put", bucket=bucket, key="a", data={"x": 1}, create=True)
    listed = await ran(tool, "object_list", bucket=bucket)
    await ran(tool, "object_delete", bucket=bucket, key="a")

    assert [(each["key"], each["size"]) for each in listed.result["objects"]] == [("a", 7)]
    assert (await ran(tool, "object_list", bucket=bucket)).result["objects"] == []
    assert failure(await ran(tool, "object_get", bucket=bucket, key="a"))[0] == "nats.missing"


async def test_binary_values_are_returned_as_base64(tool: NatsTool, client: Client, bucket: str) -> None:
    store = await client.jetstream(timeout=60).create_object_store(bucket)
    await store.put("raw", b"\xff\x00")

    assert (await ran(tool, "object_get", bucket=bucket, key="raw")).result["value"] == "/wA="
    assert (await ran(tool, "object_get", bucket=bucket, key="raw", format="base64")).result["value"] == "/wA="
    assert failure(await ran(tool, "object_get", bucket=bucket, key="raw", format="json"))[0] == "nats.error"


async def test_a_message_is_published_with_its_headers_and_key(tool: NatsTool, client: Client, bucket: str) -> None:
    got = await client.subscribe(f"{bucket}.orders")
    await client.flush()

    outcome = await ran(tool, "publish", subject=f"{bucket}.orders", data={"n": 1}, headers={"X-Kind": "order"})
    message = await got.next_msg(timeout=60)

    assert outcome.result == {"subject": f"{bucket}.orders", "size": 7}
    assert message.data == b'{"n":1}'
    assert message.headers == {"X-Kind": "order", "Nats-Msg-Id": "exec/run/task/0"}


async def test_a_repeated_attempt_is_stored_once(tool: NatsTool, client: Client, bucket: str) -> None:
    """The key of a task run is the message's id (reliability.md §3.4)."""
    await client.jetstream(timeout=60).add_stream(name=bucket, subjects=[f"{bucket}.>"])
    inputs: dict[str, Any] = {"subject": f"{bucket}.new", "data": "x", "stream": bucket}

    first = await ran(tool, "publish", **inputs)
    again = await ran(tool, "publish", **inputs)

    assert (first.result["seq"], first.result["duplicate"]) == (1, False)
    assert (again.result["seq"], again.result["duplicate"]) == (1, True)
    assert first.result["store"] == "nats.stream"


async def test_a_subject_without_a_stream_is_reported(tool: NatsTool, bucket: str) -> None:
    kind, message = failure(await ran(tool, "publish", subject=f"{bucket}.x", stream="S"))

    assert kind == "nats.missing"
    assert "no stream keeps this subject" in message


async def test_a_request_gets_its_response(tool: NatsTool, client: Client, bucket: str) -> None:
    async def answer(message: Any) -> None:
        await message.respond(b'{"got": "' + message.data + b'"}')

    await client.subscribe(f"{bucket}.ask", cb=answer)
    await client.flush()

    outcome = await ran(tool, "request", subject=f"{bucket}.ask", data="it")

    assert outcome.result["value"] == {"got": "it"}


async def test_a_missing_responder_and_a_late_response_are_distinguished(
    tool: NatsTool, client: Client, bucket: str
) -> None:
    await client.subscribe(f"{bucket}.silent")
    await client.flush()

    nobody = await ran(tool, "request", subject=f"{bucket}.nobody")
    late = await ran(tool, "request", {"timeout": 0.1}, subject=f"{bucket}.silent")

    assert failure(nobody)[0] == "nats.missing"
    assert failure(late)[0] == "timeout"


@pytest.mark.parametrize(
    ("op", "inputs", "words"),
    [
        ("steal", {}, 'op "steal" is not known'),
        ("publish", {"subject": ""}, "is no subject"),
        ("publish", {"subject": "a.*.b"}, "is no subject"),
        ("publish", {"subject": "a b"}, "is no subject"),
        ("publish", {"subject": "a\r\nPUB evil 2\r\nhi"}, "is no subject"),
        ("publish", {"subject": "a\n"}, "is no subject"),
        ("publish", {"subject": "a", "headers": {"A\r\nB": "x"}}, "no header can"),
        ("publish", {"subject": "a", "headers": {"A": "x\r\ny"}}, "no header can"),
        ("publish", {"subject": "a", "headers": [1]}, "headers must be a mapping"),
        ("kv_get", {"bucket": "a.b", "key": "k"}, "is not a valid bucket name"),
        ("kv_get", {"bucket": "b\n", "key": "k"}, "is not a valid bucket name"),
        ("object_get", {"bucket": "b"}, 'an object needs "key"'),
    ],
)
async def test_inputs_with_protocol_characters_are_refused(
    tool: NatsTool, op: str, inputs: dict[str, Any], words: str
) -> None:
    """A line break in a subject would be a line of the protocol."""
    kind, message = failure(await ran(tool, op, **inputs))

    assert kind == "nats.input"
    assert words in message


async def test_keys_are_validated_before_the_server_is_contacted(tool: NatsTool, bucket: str) -> None:
    await ran(tool, "kv_put", bucket=bucket, key="k", data=1, create=True)

    for key in ("a b", "*", ">", ".a", "a.", "k\n", ""):
        kind, message = failure(await ran(tool, "kv_get", bucket=bucket, key=key))
        assert kind == "nats.input"
        assert "is no key" in message


async def test_a_missing_bucket_is_reported_with_the_option_to_create_it(tool: NatsTool, bucket: str) -> None:
    kind, message = failure(await ran(tool, "kv_put", bucket=bucket, key="k", data=1))

    assert kind == "nats.missing"
    assert "create: true makes it" in message


async def test_an_unreachable_server_is_reported_at_once_without_its_password(
    tool: NatsTool, capfd: pytest.CaptureFixture[str]
) -> None:
    auth = {"url": "nats://me:canary@127.0.0.1:1"}

    outcome = await outcome_of(tool, {"op": "publish", "subject": "a", "auth": auth})

    kind, message = failure(outcome)
    assert kind == "nats.error"
    assert message.startswith("NATS at 127.0.0.1:1 cannot be reached")
    assert "canary" not in message + "".join(capfd.readouterr())
    assert outcome.error is not None
    assert outcome.error.retryable


@pytest.mark.parametrize(
    ("auth", "words"),
    [
        (None, 'needs "auth"'),
        ({}, 'needs "auth"'),
        ({"user": "me"}, "has no url"),
        ("nats://me:x:canary", "the url is not an address of NATS"),
        ({"credential": 5}, "is not the name of a credential"),
        ({"url": "http://me:canary@x"}, "the url is not an address of NATS"),
        ({"url": "wss://me:canary@x"}, "the url is not an address of NATS"),  # would be looked up twice
        ("a_name", 'the credential "a_name" is not known here'),
        (5, "cannot be a number"),
    ],
)
async def test_a_credential_without_a_server_is_reported(tool: NatsTool, auth: Any, words: str) -> None:
    kind, message = failure(await outcome_of(tool, {"op": "publish", "subject": "a", "auth": auth}))

    assert kind == "keychain.unresolved"
    assert words in message
    assert "canary" not in message


async def test_a_credential_is_resolved_by_its_name(tool: NatsTool) -> None:
    stored = {"type": "nats", "data": server().auth}

    outcome = await outcome_of(tool, {"op": "publish", "subject": "a", "auth": "queue"}, resolve=lambda name: stored)

    assert outcome.error is None


async def test_a_password_is_required_if_the_server_asks_for_one(tool: NatsTool) -> None:
    guarded = Server("--user", "me", "--pass", "secret")
    try:
        wrong = await outcome_of(tool, {"op": "publish", "subject": "a", "auth": {"url": guarded.url}})
        right = await outcome_of(
            tool, {"op": "publish", "subject": "a", "auth": {"url": guarded.url, "user": "me", "password": "secret"}}
        )
    finally:
        await tool.close()
        guarded.stop()

    assert failure(wrong)[0] == "nats.error"
    assert right.error is None


async def test_one_connection_serves_many_tasks_and_is_reopened_when_lost(tool: NatsTool) -> None:
    mine = Server()
    inputs = {"op": "publish", "subject": "a", "auth": mine.auth}
    try:
        await asyncio.gather(*(outcome_of(tool, inputs) for _ in range(8)))
        (client,) = tool._connections._open.values()
        await client.close()

        assert (await outcome_of(tool, inputs)).error is None
        assert len(tool._connections._open) == 1
    finally:
        await tool.close()
        mine.stop()
