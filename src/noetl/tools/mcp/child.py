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
from mcp_types import jsonrpc_message_adapter

from noetl.base.addresses.policy import AddressPolicy
from noetl.base.errors import ToolError
from noetl.tools.child_pipes import serve_calls
from noetl.tools.guarded_sockets import GuardedSockets
from noetl.tools.mcp.requests import McpRequest

_MEMORY_BYTES = 2 << 30  # whatever a server answers
_LINE_BYTES = 64 << 20
_LONGEST = 100_000  # characters of an error; the tool masks it, and cuts it then
_sockets = GuardedSockets(AddressPolicy())
_statuses: list[int] = []  # of refusals in the call under way: the SDK does not tell them


def serve() -> None:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    _sockets.install()
    serve_calls(_answer_to)


def _answer_to(call: dict[str, Any]) -> bytes:
    request = msgspec.convert(call, McpRequest)
    _sockets.policy, _sockets.refusal = request.policy, None
    _statuses.clear()
    try:
        return msgspec.json.encode({"result": asyncio.run(_performed(request))})
    except BaseException as problem:  # groups of errors too: without an answer nobody would know
        return msgspec.json.encode({"error": _failure(problem, request)})


async def _performed(request: McpRequest) -> dict[str, Any]:
    async with (
        _connected(request) as (incoming, outgoing),
        ClientSession(incoming, outgoing, read_timeout_seconds=request.timeout_s) as session,
    ):
        await session.initialize()
        return await _called(session, request)


async def _called(session: ClientSession, request: McpRequest) -> dict[str, Any]:
    match request.method:
        case "check":
            return {}
        case "tools/list":
            found = await session.list_tools()
            return {"tools": [_plain(one) for one in found.tools]}
        case "resources/list":
            listed = await session.list_resources()
            return {"resources": [_plain(one) for one in listed.resources]}
        case "resources/read":
            read = await session.read_resource(request.uri)
            return {"contents": [_plain(one) for one in read.contents]}
        case _:
            return _tool_result(await session.call_tool(request.tool, request.args), request)


def _tool_result(found: Any, request: McpRequest) -> dict[str, Any]:
    content = [_plain(one) for one in found.content]
    text = "\n".join(one["text"] for one in content if one.get("type") == "text")
    told = _plain(found)
    if told.get("isError"):
        raise ToolError("mcp.tool", f'the tool "{request.tool}" failed: {text[:_LONGEST]}', code="tool")
    structured = told.get("structuredContent")
    return {"text": text, "content": content, **({"data": structured} if structured is not None else {})}


def _plain(model: Any) -> dict[str, Any]:
    told: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return told


@asynccontextmanager
async def _connected(request: McpRequest) -> AsyncIterator[tuple[Any, Any]]:
    if request.command:
        async with _program(request) as streams:
            yield streams
        return
    timeout = httpx2.Timeout(request.timeout_s, connect=min(request.timeout_s, 30))
    hooks = {"response": [_note_status]}
    async with (
        httpx2.AsyncClient(headers=request.headers, timeout=timeout, trust_env=False, event_hooks=hooks) as client,
        streamable_http_client(request.url, http_client=client) as streams,
    ):
        yield streams[0], streams[1]


async def _note_status(response: httpx2.Response) -> None:
    if response.status_code >= 400:
        _statuses.append(response.status_code)


@asynccontextmanager
async def _program(request: McpRequest) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a server that is a program: lines of JSON on its standard streams."""
    process = await asyncio.create_subprocess_exec(
        *request.command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
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
            except ValueError as problem:  # a line that is no message, such as a print
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
    """What went wrong, by the first error that says something. What the policy refused is told as such."""
    if _sockets.refusal is not None:
        return {"kind": "tool.not_allowed", "message": _sockets.refusal, "code": "blocked", "retryable": False}
    for one in _leaves(problem):
        if isinstance(one, ToolError):
            return {"kind": one.kind, "message": one.message, "retryable": one.retryable, **one.details}
        if _statuses:
            return _refusal(_statuses[0], request)
        if isinstance(one, MCPError):
            where = f"{request.method} at {request.server}"
            return {
                "kind": "mcp.error",
                "message": f"{where}: {_error_text(one)}",
                "code": one.code,
                "retryable": False,
            }
    first = next(iter(_leaves(problem)), problem)
    retryable = not isinstance(first, FileNotFoundError | PermissionError | ValueError)
    message = f"{request.server}: {_error_text(first)}"
    return {"kind": "mcp.error", "message": message, "code": "connection", "retryable": retryable}


def _refusal(status: int, request: McpRequest) -> dict[str, Any]:
    kind = "mcp.denied" if status in (401, 403) else "mcp.error"
    message = f"{request.server} answered {status}"
    return {"kind": kind, "message": message, "code": status, "retryable": status >= 500 or status == 429}


def _leaves(problem: BaseException) -> list[BaseException]:
    if isinstance(problem, BaseExceptionGroup):
        return [leaf for one in problem.exceptions for leaf in _leaves(one)]
    return [problem]


def _error_text(problem: BaseException) -> str:
    said = "".join(sign if sign.isprintable() else " " for sign in str(problem))[:_LONGEST]
    return said or type(problem).__name__
