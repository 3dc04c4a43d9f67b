"""`mcp`: calls tools and reads resources of a Model Context Protocol server, over HTTP or as a program.

The protocol's SDK runs in a child process, whose sockets follow the address policy. The process, and a server that is a
program, end when the task is cancelled. Programs need the permission of the operator, as those of `shell` do.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import msgspec

from noetl.base.addresses.policy import AddressPolicy
from noetl.base.errors import ToolError
from noetl.tools.child_process import ChildPool, Program
from noetl.tools.contract import OwningTool, ToolContext, ToolResult
from noetl.tools.http.request_options import InvalidRequest, attached_credential, fields_of
from noetl.tools.input_shapes import timeout_s
from noetl.tools.sandbox import UNAVAILABLE
from noetl.tools.shell.inputs import check_arguments

if find_spec("mcp") is None:  # the child imports it; fail here, before a child starts
    raise ImportError("mcp is not installed")

METHODS = ("tools/call", "tools/list", "resources/list", "resources/read")


class McpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One call of one server: at `url`, or a program (`command`) that speaks on its standard streams."""

    method: str
    url: str = ""
    headers: dict[str, str] = {}
    command: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    tool: str = ""
    uri: str = ""
    args: dict[str, Any] = {}
    policy: AddressPolicy = AddressPolicy()
    timeout_s: float = 60.0

    @property
    def server(self) -> str:
        """The server in messages, without parts that may be secrets."""
        return self.command[0] if self.command else self.url.partition("?")[0].rpartition("@")[2]


KIND = "mcp"
_PROGRAM = Program(module="noetl.tools.mcp_child", name="MCP", error="mcp.error", retryable=True)
_TIMEOUT_S = 60.0
_MAX_ERROR_CHARS = 2_000


class McpTool(OwningTool):
    """The tool of the kind `mcp`."""

    def __init__(self) -> None:
        self._children = ChildPool(_PROGRAM)
        super().__init__(self._children)

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        request = _request(inputs, context, str(inputs.get("method") or METHODS[0]))
        return ToolResult(result=await self._answer(request, context))

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Test the credential by connecting. Nothing is called."""
        request = _request(inputs, context, "check")
        await self._answer(request, context)
        return f"connected to {request.server}"

    async def _answer(self, request: McpRequest, context: ToolContext) -> Any:
        try:
            answer = await self._children.call(context.task_run.execution_id, msgspec.to_builtins(request))
        except ToolError as problem:
            # Masked before it is cut: half a secret is not recognised.
            message = context.mask(problem.message)[:_MAX_ERROR_CHARS]
            raise ToolError(problem.kind, message, retryable=problem.retryable, **problem.details) from None
        return answer["result"]


def _request(inputs: Mapping[str, Any], context: ToolContext, method: str) -> McpRequest:
    if method not in (*METHODS, "check"):
        raise _input_error(f'method "{method}" is not known: write {", ".join(METHODS)}')
    tool, uri, args = inputs.get("tool"), inputs.get("uri"), inputs.get("args")
    if method == "tools/call" and not tool:
        raise _input_error('tools/call needs "tool": the name of the tool')
    if method == "resources/read" and not uri:
        raise _input_error('resources/read needs "uri": the address of the resource')
    if args is not None and not isinstance(args, Mapping):
        raise _input_error("args is a mapping of arguments by name")
    url, command = str(inputs.get("server") or inputs.get("url") or ""), _command(inputs.get("command"), context)
    if bool(url) == bool(command):
        raise _input_error('write either "server", an address, or "command", a program')
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
    """The headers of a credential, for every request."""
    try:
        return dict(attached_credential(fields_of(auth, context.resolve), context.spec.get("auth_mode")).headers)
    except InvalidRequest as problem:
        raise _input_error(str(problem)) from None


def _command(written: Any, context: ToolContext) -> tuple[str, ...]:
    if not written:
        return ()
    if not isinstance(written, list):
        raise _input_error("command is a list: the program and its arguments")
    if KIND not in context.permissions.kinds:
        message = "a server that is a program of this machine is off: turn it on with --allow mcp"
        raise ToolError("tool.not_allowed", message)
    if context.permissions.sandbox:
        message = "a server that is a program of this machine has no sandbox, and this worker allows sandboxes only"
        raise ToolError(UNAVAILABLE, message)
    argv = tuple(map(str, written))
    check_arguments(argv, context, kind="mcp.input")
    return argv


def _check_url(url: str) -> None:
    try:
        is_url = urlsplit(url).scheme in ("http", "https") and bool(urlsplit(url).hostname)
    except ValueError:
        is_url = False
    if not is_url:
        raise _input_error("server is an address that begins with https:// or http://")


def _timeout_s(context: ToolContext) -> float:
    try:
        return timeout_s(context, _TIMEOUT_S)
    except ValueError as problem:
        raise _input_error(str(problem)) from None


def _input_error(message: str) -> ToolError:
    return ToolError("mcp.input", message)
