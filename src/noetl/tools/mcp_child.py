"""The child process of `mcp`: one call at a time, through the protocol's own SDK.

A server that is a program runs in the session of this process, so that both end together.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import msgspec
from mcp import ClientSession, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED, jsonrpc_message_adapter

from noetl.base.addresses.policy import AddressPolicy
from noetl.base.errors import ToolError
from noetl.tools.child_pipes import serve_calls
from noetl.tools.guarded_sockets import GuardedSockets
from noetl.tools.mcp import McpRequest

_MEMORY_BYTES = 2 << 30  # the second line of defence: what is received grows when it is decoded
_MAX_RECEIVED_BYTES = 128 << 20  # of one call: twice the largest result
_LINE_BYTES = 64 << 20
_MAX_ERROR_CHARS = 100_000  # generous: the tool masks the text first and shortens it afterwards
_sockets = GuardedSockets(AddressPolicy())
_statuses: list[int] = []  # error statuses of the current call, which the SDK does not report
_compressed: list[str] = []  # content codings of its answers


def serve() -> None:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    _sockets.install()
    _sockets.limit_received()
    serve_calls(_answer_to)


def _answer_to(call: dict[str, Any]) -> bytes:
    request = msgspec.convert(call, McpRequest)
    _sockets.policy, _sockets.refusal, _sockets.left = request.policy, None, _MAX_RECEIVED_BYTES
    _statuses.clear()
    _compressed.clear()
    try:
        return msgspec.json.encode({"result": asyncio.run(_perform(request))})
    except BaseException as problem:  # exception groups too: the parent learns of an error only from an answer
        return msgspec.json.encode({"error": _failure(problem, request)})


async def _perform(request: McpRequest) -> dict[str, Any]:
    async with (
        _connect(request) as (incoming, outgoing),
        ClientSession(incoming, outgoing, read_timeout_seconds=request.timeout_s) as session,
    ):
        await session.initialize()
        return await _call(session, request)


async def _call(session: ClientSession, request: McpRequest) -> dict[str, Any]:
    match request.method:
        case "check":
            return {}
        case "tools/list":
            tools = await session.list_tools()
            return {"tools": [_plain_data(tool) for tool in tools.tools]}
        case "resources/list":
            listed = await session.list_resources()
            return {"resources": [_plain_data(resource) for resource in listed.resources]}
        case "resources/read":
            read = await session.read_resource(request.uri)
            return {"contents": [_plain_data(content) for content in read.contents]}
        case _:
            return _tool_result(await session.call_tool(request.tool, request.args), request)


def _tool_result(answer: Any, request: McpRequest) -> dict[str, Any]:
    content = [_plain_data(part) for part in answer.content]
    text = "\n".join(part["text"] for part in content if part.get("type") == "text")
    fields = _plain_data(answer)
    if fields.get("isError"):
        raise ToolError("mcp.tool", f'the tool "{request.tool}" failed: {text[:_MAX_ERROR_CHARS]}', code="tool")
    structured = fields.get("structuredContent")
    return {"text": text, "content": content, **({"data": structured} if structured is not None else {})}


def _plain_data(model: Any) -> dict[str, Any]:
    fields: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return fields


@asynccontextmanager
async def _connect(request: McpRequest) -> AsyncIterator[tuple[Any, Any]]:
    if request.command:
        async with _program(request) as streams:
            yield streams
        return
    timeout = httpx2.Timeout(request.timeout_s, connect=min(request.timeout_s, 30))
    hooks = {"response": [_note_status]}
    # Not compressed: the limit of received bytes would say nothing about what they become.
    headers = {**request.headers, "Accept-Encoding": "identity"}
    async with (
        # `trust_env=False`: a proxy of the environment would be connected to instead of the server that was judged.
        httpx2.AsyncClient(headers=headers, timeout=timeout, trust_env=False, event_hooks=hooks) as client,
        streamable_http_client(request.url, http_client=client) as streams,
    ):
        yield streams[0], streams[1]


async def _note_status(response: httpx2.Response) -> None:
    if response.status_code >= 400:
        _statuses.append(response.status_code)
    coding = response.headers.get("content-encoding", "identity")
    if coding != "identity":
        _compressed.append(coding)
        raise httpx2.DecodingError("a compressed answer", request=response.request)


@asynccontextmanager
async def _program(request: McpRequest) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a server that is a program: lines of JSON on its standard streams."""
    process = await asyncio.create_subprocess_exec(
        *request.command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        # It is not read, and a program blocks on a full pipe.
        stderr=asyncio.subprocess.DEVNULL,
        env={**{name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}}
        | request.environment,
        limit=_LINE_BYTES,
    )
    to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](16)
    outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](16)
    reading = asyncio.create_task(_read_lines(process, to_session))
    writing = asyncio.create_task(_write_lines(process, from_session))
    try:
        yield incoming, outgoing
    finally:
        for task in (reading, writing):
            task.cancel()
        await asyncio.gather(reading, writing, return_exceptions=True)
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _read_lines(process: asyncio.subprocess.Process, to_session: Any) -> None:
    assert process.stdout is not None
    async with to_session:
        while line := await process.stdout.readline():
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError as problem:  # not a message, such as printed text
                await to_session.send(problem)
                continue
            await to_session.send(SessionMessage(message))


async def _write_lines(process: asyncio.subprocess.Process, from_session: Any) -> None:
    assert process.stdin is not None
    async with from_session:
        async for sent in from_session:
            body = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(body.encode() + b"\n")
            await process.stdin.drain()


def _failure(problem: BaseException, request: McpRequest) -> dict[str, Any]:
    """The error answer of the first error that has a meaning. A refusal by the policy takes precedence over all
    others."""
    if _sockets.refusal is not None:
        return {"kind": "tool.not_allowed", "message": _sockets.refusal, "code": "blocked", "retryable": False}
    if _sockets.is_used_up:
        message = f"{request.server} sent more than {_MAX_RECEIVED_BYTES >> 20} MiB; ask for less"
        return {"kind": "result.too_large", "message": message, "retryable": False}
    if _compressed:
        message = f"{request.server} sent a compressed answer, which was not asked for"
        return {"kind": "mcp.error", "message": message, "code": "compressed", "retryable": False}
    for leaf in _leaf_errors(problem):
        if isinstance(leaf, ToolError):
            return {"kind": leaf.kind, "message": leaf.message, "retryable": leaf.retryable, **leaf.details}
        # The status says more than the exception that the SDK makes of it.
        if _statuses:
            return _refusal(_statuses[0], request)
        if isinstance(leaf, MCPError):
            where = f"{request.method} at {request.server}"
            return {
                "kind": "mcp.error",
                "message": f"{where}: {_error_text(leaf)}",
                "code": leaf.code,
                # The SDK reports this for a line that was cut, and for a program that died before it answered.
                "retryable": leaf.code == CONNECTION_CLOSED,
            }
    first = next(iter(_leaf_errors(problem)), problem)
    retryable = not isinstance(first, FileNotFoundError | PermissionError | ValueError)
    message = f"{request.server}: {_error_text(first)}"
    return {"kind": "mcp.error", "message": message, "code": "connection", "retryable": retryable}


def _refusal(status: int, request: McpRequest) -> dict[str, Any]:
    kind = "mcp.denied" if status in (401, 403) else "mcp.error"
    message = f"{request.server} answered {status}"
    return {"kind": kind, "message": message, "code": status, "retryable": status >= 500 or status == 429}


def _leaf_errors(problem: BaseException) -> list[BaseException]:
    if isinstance(problem, BaseExceptionGroup):
        return [leaf for inner in problem.exceptions for leaf in _leaf_errors(inner)]
    return [problem]


def _error_text(problem: BaseException) -> str:
    text = "".join(char if char.isprintable() else " " for char in str(problem))[:_MAX_ERROR_CHARS]
    return text or type(problem).__name__
