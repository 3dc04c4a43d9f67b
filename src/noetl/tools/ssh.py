"""`ssh`: runs one command on another machine. Output is kept up to a limit; the command ends with its task.

`sftp` uses the same connections. The host key is always checked. The agent, the keys and the known hosts of the
worker's user are never used.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

import asyncssh
import msgspec

from noetl.base.errors import ToolError
from noetl.tools.contents import encode
from noetl.tools.contract import Tool, ToolContext, ToolResult
from noetl.tools.input_shapes import UNRESOLVED, connection_fields, whole_number

_CONNECT_S = 30
_HOST_KEYS = 'its "host_key" (ssh-ed25519 AAAA…) or "host_key_fingerprint" (SHA256:…), as ssh-keyscan prints it'


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Another machine and the login there. `str` shows no secrets."""

    host: str
    user: str
    port: int = 22
    password: str = ""
    private_key: str = ""
    passphrase: str = ""
    host_keys: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"

    __repr__ = __str__


def machine_of(auth: Any, context: ToolContext, *, kind: str) -> Machine:
    """The machine of a credential. Raises ToolError `keychain.unresolved`, which names what is missing."""
    fields = connection_fields(auth, context, kind=kind, address="host")
    host, user = str(fields.get("host") or ""), str(fields.get("user") or fields.get("username") or "")
    if not host or not user:
        raise ToolError(UNRESOLVED, '"auth" does not say which machine: it needs a host and a user')
    port = str(fields.get("port") or 22)
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ToolError(UNRESOLVED, "the port of the credential is not a number")
    machine = Machine(
        host=host,
        user=user,
        port=int(port),
        password=str(fields.get("password") or ""),
        private_key=str(fields.get("private_key") or ""),
        passphrase=str(fields.get("passphrase") or ""),
        host_keys=_lines(fields, "host_key", "host_keys"),
        fingerprints=_lines(fields, "host_key_fingerprint", "host_key_fingerprints"),
    )
    if not machine.host_keys and not machine.fingerprints:
        raise ToolError(UNRESOLVED, f"the credential cannot identify {machine}: it needs {_HOST_KEYS}")
    return machine


def _lines(fields: Mapping[str, Any], *names: str) -> tuple[str, ...]:
    written = next((fields[name] for name in names if fields.get(name)), ())
    lines = written if isinstance(written, list | tuple) else str(written).splitlines()
    return tuple(str(line).strip() for line in lines if str(line).strip())


class _Client(asyncssh.SSHClient):
    """Accepts a host key by its fingerprint. The library asks only for keys that are not in `known_hosts`."""

    def __init__(self, machine: Machine) -> None:
        self._expected = frozenset(machine.fingerprints)

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        digest = base64.b64encode(hashlib.sha256(key.public_data).digest()).decode().rstrip("=")
        return f"SHA256:{digest}" in self._expected


@asynccontextmanager
async def connection_to(machine: Machine, context: ToolContext) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """A connection that is open until the block ends."""
    address = await context.addresses.address(f"the machine {machine}", machine.host, machine.port)
    connection = await _open_connection(machine, address)
    try:
        yield connection
    finally:
        # Not an orderly close: that would wait for the other side, also when the task was cancelled.
        connection.abort()
        await connection.wait_closed()


async def _open_connection(machine: Machine, address: str) -> asyncssh.SSHClientConnection:
    try:
        connection, _ = await asyncssh.create_connection(
            lambda: _Client(machine),
            address,
            machine.port,
            # Nothing of the user that the worker runs as: no configuration, no agent, no known hosts, no Kerberos.
            config=None,
            known_hosts=(_host_keys(machine), [], []),
            username=machine.user,
            password=machine.password or None,
            client_keys=_client_keys(machine),
            agent_path=None,
            agent_forwarding=False,
            x509_trusted_certs=None,
            gss_host=None,
            connect_timeout=_CONNECT_S,
            login_timeout=_CONNECT_S,
            # A machine that is gone sends nothing; without this the task would wait until its time is up.
            keepalive_interval=15,
        )
    except asyncssh.HostKeyNotVerifiable:
        message = f"{machine} showed a host key that the credential does not know: nothing was sent to it"
        raise ToolError("ssh.host_key", message) from None
    except asyncssh.PermissionDenied:
        message = f"{machine} does not accept the credential"
        raise ToolError("ssh.denied", message, code="permission_denied") from None
    except (asyncssh.Error, OSError) as problem:
        raise connection_lost(problem, machine) from None
    return connection


def connection_lost(problem: Exception, machine: Machine) -> ToolError:
    """The error of a connection that could not be made, or broke."""
    why = (
        getattr(problem, "reason", None) or getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
    )
    code = str(getattr(problem, "code", None) or "connection")
    text = "".join(char if char.isprintable() else " " for char in str(why))[:200]
    return ToolError("ssh.error", f"{machine}: {text}", retryable=True, code=code)


def _host_keys(machine: Machine) -> list[asyncssh.SSHKey]:
    try:
        return [asyncssh.import_public_key(key) for key in machine.host_keys]
    except (asyncssh.KeyImportError, ValueError):
        raise ToolError(UNRESOLVED, f'the credential\'s "host_key" is not a public key: write {_HOST_KEYS}') from None


def _client_keys(machine: Machine) -> list[asyncssh.SSHKey] | None:
    if not machine.private_key:
        return None
    try:
        return [asyncssh.import_private_key(machine.private_key, machine.passphrase or None)]
    except (
        asyncssh.KeyImportError,
        asyncssh.KeyEncryptionError,
        ValueError,
    ):  # their messages may quote a part of the key
        raise ToolError(
            UNRESOLVED, 'the credential\'s "private_key" cannot be read: is its passphrase right?'
        ) from None


# The output becomes a part of the result, which is stored in an event.
MAX_OUTPUT = 1 << 20
_CHUNK = 64 << 10


class SshTool(Tool):
    """The tool of the kind `ssh`."""

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        machine = machine_of(inputs.get("auth"), context, kind="ssh")
        command = str(inputs.get("command") or "")
        if not command.strip() or "\x00" in command:
            raise ToolError("ssh.input", '"command" is missing, or holds a NUL character')
        async with connection_to(machine, context) as connection:
            try:
                return await _run_command(connection, command, machine, inputs, context)
            except (asyncssh.Error, OSError) as problem:
                raise connection_lost(problem, machine) from None

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Test the credential by a login. No command is run."""
        machine = machine_of(inputs.get("auth"), context, kind="ssh")
        async with connection_to(machine, context):
            return f"logged in to {machine}"


async def _run_command(
    connection: asyncssh.SSHClientConnection,
    command: str,
    machine: Machine,
    inputs: Mapping[str, Any],
    context: ToolContext,
) -> ToolResult:
    limit = _limit(context)
    process = await connection.create_process(command, encoding=None, env=_variables(inputs.get("env")))
    if inputs.get("stdin") is not None:
        process.stdin.write(encode(inputs["stdin"], kind="ssh"))
    # Also without input: a command that reads its input would wait forever.
    process.stdin.write_eof()
    # Both at once: a command that fills one of them would block while the other is read.
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
    """The output up to the limit. The rest is read and dropped, so that the command does not block on a full pipe."""
    kept = bytearray()
    while chunk := await stream.read(_CHUNK):
        kept += chunk[: max(limit - len(kept), 0)]
        if context.live.write_output is not None:
            context.live.write_output(chunk, name)
    return bytes(kept)


def _variables(written: Any) -> dict[str, str]:
    if written is None:
        return {}
    if not isinstance(written, Mapping):
        raise ToolError("ssh.input", "env must be a mapping of name to value")
    return {str(name): str(value) for name, value in written.items()}


def _limit(context: ToolContext) -> int:
    return whole_number(context.spec.get("max_bytes"), "spec.max_bytes", MAX_OUTPUT, error="ssh.input", most=64 << 20)
