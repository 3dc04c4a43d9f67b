"""`ssh`: runs one command on another machine. Output is kept up to a limit; the command ends with its task."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

import asyncssh

from noetl.base.errors import ToolError
from noetl.tools.contents import encoded
from noetl.tools.contract import ToolContext, ToolResult
from noetl.tools.ssh.connections import Machine, connection_lost, connection_to, machine_of

# What a task prints is kept in its event and shown to people.
MAX_OUTPUT = 1 << 20
_CHUNK = 64 << 10


class SshTool:
    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        machine = machine_of(inputs.get("auth"), context, kind="ssh")
        command = str(inputs.get("command") or "")
        if not command.strip() or "\x00" in command:
            raise ToolError("ssh.input", '"command" is missing, or holds a NUL character')
        async with connection_to(machine, context) as connection:
            try:
                return await _ran(connection, command, machine, inputs, context)
            except (asyncssh.Error, OSError) as problem:
                raise connection_lost(problem, machine) from None

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Whether the machine takes the credential. No command is run."""
        machine = machine_of(inputs.get("auth"), context, kind="ssh")
        async with connection_to(machine, context):
            return f"logged in to {machine}"

    async def close(self) -> None:
        """Nothing is open between two tasks."""

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {}


async def _ran(
    connection: asyncssh.SSHClientConnection,
    command: str,
    machine: Machine,
    inputs: Mapping[str, Any],
    context: ToolContext,
) -> ToolResult:
    limit = _limit(context)
    process = await connection.create_process(command, encoding=None, env=_variables(inputs.get("env")))
    if inputs.get("stdin") is not None:
        process.stdin.write(encoded(inputs["stdin"], kind="ssh"))
    process.stdin.write_eof()
    out, err = await asyncio.gather(
        _read(process.stdout, limit, context, "stdout"), _read(process.stderr, limit, context, "stderr")
    )
    await process.wait_closed()
    stdout, stderr = out.decode("utf-8", "replace"), err.decode("utf-8", "replace")
    if process.exit_status == 0:
        return ToolResult(result={"exit_code": 0, "stdout": stdout, "stderr": stderr})
    if process.exit_status is None and process.exit_signal is None:
        raise ToolError("ssh.error", f"{machine} closed the connection before the command ended", retryable=True)
    how = f"code {process.exit_status}" if process.exit_signal is None else f"signal {process.exit_signal[0]}"
    last = stderr.strip().splitlines()[-1:] or [""]
    raise ToolError(
        "ssh.exit",
        f"the command ended with {how}" + (f": {last[0][:200]}" if last[0] else ""),
        code=str(process.exit_status if process.exit_signal is None else process.exit_signal[0]),
        exit_code=process.exit_status,
        stdout=stdout,
        stderr=stderr,
    )


async def _read(
    stream: asyncssh.SSHReader[bytes], limit: int, context: ToolContext, name: Literal["stdout", "stderr"]
) -> bytes:
    """Up to the limit; the rest is read and thrown away, so that the command is not held up."""
    kept = bytearray()
    while chunk := await stream.read(_CHUNK):
        kept += chunk[: max(limit - len(kept), 0)]
        if context.printed is not None:
            context.printed(chunk, name)
    return bytes(kept)


def _variables(written: Any) -> dict[str, str]:
    if written is None:
        return {}
    if not isinstance(written, Mapping):
        raise ToolError("ssh.input", "env must be a mapping of name to value")
    return {str(name): str(value) for name, value in written.items()}


def _limit(context: ToolContext) -> int:
    written = context.spec.get("max_bytes")
    if written is None:
        return MAX_OUTPUT
    if isinstance(written, bool) or not isinstance(written, int) or not 1 <= written <= 64 << 20:
        raise ToolError("ssh.input", f'spec.max_bytes "{written}" is not a number from 1 to {64 << 20}')
    return written
