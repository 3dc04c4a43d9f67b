"""`mcp`: calls tools and reads resources of a Model Context Protocol server, over HTTP or as a program.

The protocol's SDK runs in a child process: its sockets are held to the address policy, a cancelled task ends with its
process, and so does a server that is a program. Programs need the operator's permission, as those of `shell` do.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import msgspec

from noetl.base.durations import seconds
from noetl.base.errors import ToolError
from noetl.tools.child_process import ChildPool, Program
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.http.request_options import Wrong, attached, fields_of
from noetl.tools.mcp.requests import METHODS, McpRequest

if find_spec("mcp") is None:  # the child imports it; say so before there is one
    raise ImportError("mcp is not installed")

KIND = "mcp"
_PROGRAM = Program(module="noetl.tools.mcp.child", name="MCP", error="mcp.error", retryable=True)
_TIMEOUT_S = 60.0
_LONGEST = 2_000  # characters of an error


class McpTool:
    def __init__(self) -> None:
        self._children = ChildPool(_PROGRAM)

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        request = _request(inputs, context, str(inputs.get("method") or METHODS[0]))
        return ToolResult(result=await self._answer(request, context))

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Whether the server takes the credential. Nothing is called."""
        request = _request(inputs, context, "check")
        await self._answer(request, context)
        return f"connected to {request.server}"

    async def _answer(self, request: McpRequest, context: ToolContext) -> Any:
        try:
            answer = await self._children.call(context.execution_id, msgspec.to_builtins(request))
        except ToolError as problem:
            # Masked before it is cut: half a secret is not recognised.
            message = context.masked(problem.message)[:_LONGEST]
            raise ToolError(problem.kind, message, retryable=problem.retryable, **problem.details) from None
        return answer["result"]

    def release(self, execution_id: str) -> None:
        self._children.release(execution_id)

    async def close(self) -> None:
        await self._children.close()

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


def _request(inputs: Mapping[str, Any], context: ToolContext, method: str) -> McpRequest:
    if method not in (*METHODS, "check"):
        raise _wrong(f'method "{method}" is not known: write {", ".join(METHODS)}')
    tool, uri, args = inputs.get("tool"), inputs.get("uri"), inputs.get("args")
    if method == "tools/call" and not tool:
        raise _wrong('tools/call needs "tool": the name of the tool')
    if method == "resources/read" and not uri:
        raise _wrong('resources/read needs "uri": the address of the resource')
    if args is not None and not isinstance(args, Mapping):
        raise _wrong("args is a mapping of arguments by name")
    url, command = str(inputs.get("server") or inputs.get("url") or ""), _command(inputs.get("command"), context)
    if bool(url) == bool(command):
        raise _wrong('write "server", an address, or "command", a program: one of them')
    if url:
        _check_url(url)
    return McpRequest(
        method=method,
        url=url,
        headers=_headers(inputs.get("auth"), context) if url else {},
        command=command,
        environment={str(name): str(value) for name, value in (inputs.get("env") or {}).items()},
        tool=str(tool or ""),
        uri=str(uri or ""),
        args=dict(args or {}),
        policy=context.addresses.policy,
        timeout_s=_timeout_s(context),
    )


def _headers(auth: Any, context: ToolContext) -> dict[str, str]:
    """What a credential adds to every request."""
    try:
        return dict(attached(fields_of(auth, context.resolve), context.spec.get("auth_mode")).headers)
    except Wrong as problem:
        raise _wrong(str(problem)) from None


def _command(written: Any, context: ToolContext) -> tuple[str, ...]:
    if not written:
        return ()
    if not isinstance(written, list):
        raise _wrong("command is a list: the program and its arguments")
    if KIND not in context.allowed:
        message = "a server that is a program of this machine is off: turn it on with --allow mcp"
        raise ToolError("tool.not_allowed", message)
    return tuple(map(str, written))


def _check_url(url: str) -> None:
    try:
        is_url = urlsplit(url).scheme in ("http", "https") and bool(urlsplit(url).hostname)
    except ValueError:
        is_url = False
    if not is_url:
        raise _wrong("server is an address that begins with https:// or http://")


def _timeout_s(context: ToolContext) -> float:
    timeout = context.spec.get("timeout")
    written = timeout.get("total", timeout.get("read")) if isinstance(timeout, Mapping) else timeout
    try:
        return _TIMEOUT_S if written is None else seconds(written)
    except ValueError as problem:
        raise _wrong(str(problem)) from None


def _wrong(message: str) -> ToolError:
    return ToolError("mcp.input", message)
