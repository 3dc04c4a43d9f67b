"""`llm` against a stand-in that speaks OpenAI's chat protocol, whole and streamed."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from noetl.base.addresses.policy import CLOSED
from noetl.base.errors import ToolError
from noetl.base.redaction import Redactor
from noetl.events.outcomes import Outcome
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.http.tool import HttpTool
from noetl.tools.llm import LlmTool
from tests.servers.http import HttpServer, Request, reply
from tests.tools.sql_tasks import context, outcome_of

CHAT = "POST /v1/chat/completions"
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


class Weather:
    """A tool that a model may call."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        self.calls.append(dict(inputs))
        if inputs["args"]["city"] == "Atlantis":
            raise ToolError("weather.missing", "no such city")
        return ToolResult(result={"degrees": 21})

    async def close(self) -> None: ...

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


def streamed(*deltas: dict[str, Any], finish: str | None = "stop", done: bool = True) -> Any:
    """The pieces of an answer as server-sent events."""
    chunks: list[dict[str, Any]] = [{"model": "m-1", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    if finish is not None:
        chunks.append({"model": "m-1", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        chunks.append({"model": "m-1", "choices": [], "usage": USAGE})
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + ("data: [DONE]\n\n" if done else "")
    return reply(body=body.encode(), headers={"content-type": "text/event-stream"})


def wants(name: str, arguments: str) -> Any:
    """A round in which the model calls a tool; its arguments come in two pieces."""
    half = len(arguments) // 2
    first = {"index": 0, "id": "call-1", "function": {"name": name, "arguments": arguments[:half]}}
    second = {"index": 0, "function": {"arguments": arguments[half:]}}
    return streamed({"tool_calls": [first]}, {"tool_calls": [second]}, finish="tool_calls")


async def asked(
    server: HttpServer, spec: dict[str, Any] | None = None, *, weather: Weather | None = None, **inputs: Any
) -> Outcome:
    http = HttpTool()
    tools = {"http": http, "weather": weather}
    given = {"url": f"{server.url}/v1", "model": "m-1", "auth": {"token": "k-123"}, **inputs}
    try:
        return await outcome_of(LlmTool(), given, spec, tool=lambda kind: tools[kind])
    finally:
        await http.close()


def offered(**more: Any) -> list[dict[str, Any]]:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return [{"name": "weather", "kind": "weather", "parameters": parameters, "inputs": {"unit": "C"}, **more}]


async def test_a_streamed_response_is_assembled() -> None:
    async with HttpServer({CHAT: streamed({"content": "Hel"}, {"content": "lo"})}) as server:
        outcome = await asked(server, prompt="Say hello", system="Be brief", temperature=0)

    assert outcome.error is None, outcome.error
    assert outcome.result == {"text": "Hello", "model": "m-1", "finish": "stop", "usage": USAGE, "calls": []}
    [request] = server.requests
    assert request.headers["authorization"] == "Bearer k-123"
    assert request.json["stream"] is True
    assert [one["role"] for one in request.json["messages"]] == ["system", "user"]


async def test_a_complete_response_matches_its_schema() -> None:
    message = {"choices": [{"message": {"content": '{"n": 5}'}, "finish_reason": "stop"}], "usage": USAGE}
    async with HttpServer({CHAT: reply(json=message)}) as server:
        outcome = await asked(server, prompt={"rows": [1]}, schema=SCHEMA, stream=False)

    assert outcome.result["value"] == {"n": 5}
    sent = server.requests[0].json
    assert sent["response_format"]["json_schema"]["schema"] == SCHEMA
    assert sent["messages"][0]["content"] == '{"rows":[1]}'


@pytest.mark.parametrize("text", ['{"n": "five"}', "five", "[" * 5000, '{"n": 5, "m": 1}'])
async def test_a_response_that_violates_the_schema_is_a_retryable_error(text: str) -> None:
    async with HttpServer({CHAT: streamed({"content": text})}) as server:
        outcome = await asked(server, prompt="?", schema=SCHEMA)

    assert outcome.error is not None
    assert outcome.error.kind == "llm.schema"
    assert outcome.error.retryable


async def test_the_model_calls_a_tool_and_answers_with_its_result() -> None:
    weather = Weather()
    script = [wants("weather", '{"city": "Oslo"}'), streamed({"content": "21 degrees"})]
    async with HttpServer({CHAT: script}) as server:
        outcome = await asked(server, prompt="How warm is Oslo?", tools=offered(), weather=weather)

    assert outcome.error is None, outcome.error
    assert outcome.result["text"] == "21 degrees"
    assert outcome.result["usage"]["total_tokens"] == 20
    assert outcome.result["calls"] == [{"tool": "weather", "arguments": '{"city": "Oslo"}', "failed": False}]
    assert weather.calls == [{"unit": "C", "args": {"city": "Oslo"}}]
    told = server.requests[1].json["messages"]
    assert told[-1] == {"role": "tool", "tool_call_id": "call-1", "content": '{"degrees":21}'}


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("weather", '{"city": "Atlantis"}', "error: weather.missing: no such city"),
        ("weather", '{"city": 5}', "error: "),
        ("weather", "{", "error: the arguments are not JSON"),
        ("weather", "[1]", "error: the arguments are not an object"),
        ("rm", "{}", 'error: no tool "rm"'),
    ],
)
async def test_an_invalid_call_is_reported_to_the_model(name: str, arguments: str, said: str) -> None:
    async with HttpServer({CHAT: [wants(name, arguments), streamed({"content": "sorry"})]}) as server:
        outcome = await asked(server, prompt="?", tools=offered(), weather=Weather())

    assert outcome.error is None, outcome.error
    assert server.requests[1].json["messages"][-1]["content"].startswith(said)
    assert outcome.result["calls"][0]["failed"]


@pytest.mark.parametrize(
    ("spec", "code", "requests"), [({"max_rounds": 3}, "rounds", 3), ({"max_tokens": 25}, "tokens", 3)]
)
async def test_an_endless_model_is_stopped_by_its_budget(spec: dict[str, Any], code: str, requests: int) -> None:
    async with HttpServer({CHAT: wants("weather", '{"city": "Oslo"}')}) as server:
        outcome = await asked(server, spec, prompt="?", tools=offered(), weather=Weather())

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.code) == ("llm.budget", code)
    assert len(server.requests) == requests


async def test_a_wrong_key_is_denied_with_the_code_of_the_endpoint() -> None:
    error = {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}
    async with HttpServer({CHAT: reply(401, json=error)}) as server:
        outcome = await asked(server, prompt="?")

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.code) == ("llm.denied", "invalid_api_key")
    assert not outcome.error.retryable


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (streamed({"content": "Hel"}, finish=None, done=False), "cut"),
        (reply(json={"choices": []}), "answer"),
        (reply(json=[1, 2]), "answer"),
        (reply(body=b"data: {]\n\n", headers={"content-type": "text/event-stream"}), "answer"),
        (
            reply(
                body=b'data: {"error": {"message": "overloaded", "type": "busy"}}\n\n',
                headers={"content-type": "text/event-stream"},
            ),
            "busy",
        ),
    ],
    ids=["cut off", "no choice", "a list", "no JSON", "an error in the stream"],
)
async def test_a_hostile_response_is_an_error(answer: Any, code: str) -> None:
    async with HttpServer({CHAT: answer}) as server:
        outcome = await asked(server, prompt="?")

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.code) == ("llm.error", code)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({}, 'either "prompt" or "messages"'),
        ({"prompt": "a", "messages": []}, 'either "prompt" or "messages"'),
        ({"prompt": "a", "model": ""}, '"model"'),
        ({"prompt": "a", "schema": "x"}, "JSON Schema"),
        ({"prompt": "a", "tools": [{"name": "x"}]}, "tools:"),
        ({"prompt": "a", "tools": [{"name": "x", "kind": "playbook"}]}, "may not call"),
        ({"prompt": "a", "url": ""}, '"url"'),
    ],
)
async def test_impossible_inputs_are_refused(inputs: dict[str, Any], said: str) -> None:
    async with HttpServer({"*": reply(500)}) as server:
        outcome = await asked(server, **inputs)

    assert outcome.error is not None
    assert outcome.error.kind == "llm.input"
    assert said in outcome.error.message
    assert server.requests == []


async def test_cancelling_closes_the_connection_to_a_silent_model() -> None:
    reached, left = asyncio.Event(), asyncio.Event()

    async def think(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        reached.set()
        await reader.read()  # the body, until the other end has gone
        left.set()
        writer.close()

    server = await asyncio.start_server(think, "127.0.0.1", 0)
    http = HttpTool()
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    asking = asyncio.create_task(
        outcome_of(LlmTool(), {"url": url, "model": "m", "prompt": "?"}, None, tool=lambda _: http)
    )
    await reached.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await http.close()
    await left.wait()
    server.close()


async def test_the_address_policy_applies_to_models() -> None:
    http = HttpTool(CLOSED)
    given = {"url": "http://127.0.0.1:9/v1", "model": "m", "prompt": "?"}

    outcome = await outcome_of(LlmTool(), given, None, tool=lambda _: http)

    await http.close()
    assert outcome.error is not None
    assert outcome.error.kind == "tool.not_allowed" or "blocked" in outcome.error.message


async def test_no_key_appears_in_an_error() -> None:
    """An endpoint that repeats the key it was given, at a place where a long message is cut."""
    keys, told = [secrets.token_hex(16) for _ in range(50)], list[str]()

    def repeat(request: Request) -> Any:
        said = request.headers["authorization"].removeprefix("Bearer ")
        return reply(401, json={"error": {"message": "x" * 484 + said, "code": said}})

    async with HttpServer({CHAT: repeat}) as server:
        http = HttpTool()
        for key in keys:
            given = {"url": f"{server.url}/v1", "model": "m", "prompt": "?", "auth": {"token": key}}
            mask = Redactor([key])
            outcome = await outcome_of(LlmTool(), given, None, tool=lambda _: http, mask=mask.text)
            told.append(msgspec.json.encode(outcome).decode())
        await http.close()

    assert len(server.requests) == 50
    assert [key for key, text in zip(keys, told, strict=True) if key[:12] in text] == []


async def test_a_credential_can_be_tested() -> None:
    async with HttpServer({"GET /v1/models": reply(json={"data": []})}) as server:
        http = HttpTool()
        found = await LlmTool().check(
            {"auth": "k", "url": f"{server.url}/v1"},
            context(tool=lambda _: http, resolve=lambda _: {"value": "secret-key"}),
        )
        await http.close()

    assert found.startswith("listed the models of http://127.0.0.1")
    assert server.requests[0].headers["authorization"] == "Bearer secret-key"
