"""`slack` and `teams` against a server that answers as their webhooks do."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import msgspec
import pytest

from noetl.base.errors import RefusedError
from noetl.events.outcomes import Outcome
from noetl.net.kinds import COMMON_ERRORS
from noetl.operations.credentials import kind_for, try_credential
from noetl.tools.chat import SlackTool, TeamsTool
from noetl.tools.http.tool import HttpTool
from noetl.tools.kinds import KINDS
from noetl.tools.registry import Registry
from tests.servers.http import HttpServer, Reply, reply
from tests.tools.sql_tasks import outcome_of

PATH = "/services/T000/B000/a-secret-of-this-hook"


async def posted(tool: SlackTool | TeamsTool, url: str, **inputs: Any) -> Outcome:
    http = HttpTool()
    try:
        return await outcome_of(tool, {"auth": {"webhook_url": url}, **inputs}, None, tool=lambda kind: http)
    finally:
        await http.close()


async def test_a_message_reaches_slack_in_the_webhook_format() -> None:
    async with HttpServer({PATH: reply(body=b"ok")}) as server:
        outcome = await posted(
            SlackTool(), server.url + PATH, text="Hello <@U1>", blocks=[{"type": "divider"}], thread="1.2"
        )

    assert outcome.error is None, outcome.error
    assert outcome.result == {"status": 200, "response": "ok"}
    assert server.requests[0].json == {"text": "Hello <@U1>", "blocks": [{"type": "divider"}], "thread_ts": "1.2"}


async def test_a_message_reaches_teams_as_a_card() -> None:
    async with HttpServer({PATH: reply(202)}) as server:
        outcome = await posted(TeamsTool(), server.url + PATH, text="42 rows", title="Done")

    assert outcome.error is None, outcome.error
    (card,) = server.requests[0].json["attachments"]
    assert card["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert [block["text"] for block in card["content"]["body"]] == ["Done", "42 rows"]


@pytest.mark.parametrize(
    ("status", "body", "code", "retryable"),
    [
        (400, b"invalid_payload", "invalid_payload", False),
        (404, b"no_service", "no_service", False),
        (503, b"", "503", True),
    ],
)
async def test_the_error_code_is_the_word_of_the_service(status: int, body: bytes, code: str, retryable: bool) -> None:
    async with HttpServer({PATH: reply(status, body=body)}) as server:
        outcome = await posted(SlackTool(), server.url + PATH, text="x")

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.code, outcome.error.retryable) == ("http.status", code, retryable)
    assert outcome.error.status == status


async def test_a_webhook_address_never_appears_in_an_error() -> None:
    """Neither a status, nor a lost connection, nor what the service says back shows the address."""
    for _ in range(50):
        secret = secrets.token_urlsafe(16)
        path = f"/services/{secret}"
        async with HttpServer(
            {path: [reply(500, body=b"no"), reply(drop=True), reply(302, headers={"location": "/x"})], "*": reply(404)}
        ) as server:
            outcomes = [await posted(SlackTool(), server.url + path, text="x") for _ in range(3)]
        assert secret.encode() not in msgspec.json.encode(outcomes)


@pytest.mark.parametrize("tool", [SlackTool, TeamsTool])
async def test_a_cancelled_task_closes_its_connection(tool: type[SlackTool | TeamsTool]) -> None:
    async with HttpServer({PATH: reply(hang=True)}) as server:
        posting = asyncio.ensure_future(posted(tool(), server.url + PATH, text="x"))
        while not server.requests:
            await asyncio.sleep(0.01)
        posting.cancel()
        left = await asyncio.gather(posting, return_exceptions=True)
        await asyncio.to_thread(server.abandoned.wait)

    assert isinstance(left[0], asyncio.CancelledError)


@pytest.mark.parametrize(
    "answer",
    [
        reply(400, body=b"\x1b[31m" + b"x" * 100_000),
        reply(raw=b"\x00" * 64),
        reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nx"),
        reply(drop=True),
    ],
    ids=["colours", "nonsense", "a length that is none", "a lost connection"],
)
async def test_a_hostile_response_is_short_and_plain_in_the_error(answer: Reply) -> None:
    async with HttpServer({PATH: answer}) as server:
        outcome = await posted(SlackTool(), server.url + PATH, text="x")

    assert outcome.error is not None
    assert outcome.error.kind in {*KINDS["slack"].error_kinds, *COMMON_ERRORS}
    assert outcome.error.message.isprintable()
    assert len(outcome.error.message) < 1000


@pytest.mark.parametrize(
    ("kind", "answer", "said"),
    [
        ("slack", reply(400, body=b"no_text"), "127.0.0.1 knows the webhook; nothing was posted"),
        ("teams", reply(405), "reached 127.0.0.1; only a message shows whether its workflow posts"),
    ],
)
async def test_a_credential_is_tested_without_posting(kind: str, answer: Reply, said: str) -> None:
    async with HttpServer({PATH: answer}) as server:
        fields = {"type": kind, "webhook_url": server.url + PATH}
        assert await try_credential("alerts", kind_for(kind), fields, {}, Registry()) == said

    assert [one.body for one in server.requests] == [b"{}" if kind == "slack" else b""]


@pytest.mark.parametrize(
    ("kind", "answer", "said"),
    [
        ("slack", reply(404, body=b"no_service"), "no_service"),
        ("slack", reply(403, body=b"invalid_token"), "invalid_token"),
        ("teams", reply(502), "502"),
        ("teams", reply(drop=True), "127.0.0.1"),
    ],
)
async def test_a_rejected_credential_is_reported_with_the_word_of_the_service(
    kind: str, answer: Reply, said: str
) -> None:
    async with HttpServer({PATH: answer}) as server:
        with pytest.raises(RefusedError, match=said) as refused:
            await try_credential("alerts", kind_for(kind), {"webhook_url": server.url + PATH}, {}, Registry())

    assert "a-secret-of-this-hook" not in str(refused.value)


@pytest.mark.parametrize("auth", [{}, {"webhook_url": "no address"}, {"webhook_url": "ftp://x/y"}, None])
async def test_a_credential_without_an_address_is_refused(auth: Any) -> None:
    outcome = await outcome_of(SlackTool(), {"text": "x", "auth": auth})

    assert outcome.error is not None
    assert outcome.error.kind == "keychain.unresolved"


async def test_an_empty_message_is_refused() -> None:
    outcome = await outcome_of(TeamsTool(), {"auth": {"webhook_url": "https://127.0.0.1/x"}})

    assert outcome.error is not None
    assert outcome.error.kind == "chat.input"
