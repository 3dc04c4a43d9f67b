"""Connections by SSH: who we are, and how the other side proves who it is.

A host key is always checked. Neither the agent, the keys nor the known hosts of the worker's user are looked at.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import asyncssh
import msgspec

from noetl.base.errors import ToolError
from noetl.tools.auth_shapes import UNRESOLVED, connection_fields
from noetl.tools.contract import ToolContext

_CONNECT_S = 30
_HOST_KEYS = 'its "host_key" (ssh-ed25519 AAAA…) or "host_key_fingerprint" (SHA256:…), as ssh-keyscan tells it'


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Another machine. Shown without secrets."""

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
    """The machine of a credential. ToolError `keychain.unresolved` says what is missing."""
    given = connection_fields(auth, context, kind=kind, address="host")
    host, user = str(given.get("host") or ""), str(given.get("user") or given.get("username") or "")
    if not host or not user:
        raise ToolError(UNRESOLVED, '"auth" does not say which machine: it needs a host and a user')
    port = str(given.get("port") or 22)
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ToolError(UNRESOLVED, "the port of the credential is no number")
    machine = Machine(
        host=host,
        user=user,
        port=int(port),
        password=str(given.get("password") or ""),
        private_key=str(given.get("private_key") or ""),
        passphrase=str(given.get("passphrase") or ""),
        host_keys=_lines(given, "host_key", "host_keys"),
        fingerprints=_lines(given, "host_key_fingerprint", "host_key_fingerprints"),
    )
    if not machine.host_keys and not machine.fingerprints:
        raise ToolError(UNRESOLVED, f"the credential cannot tell {machine} from an impostor: it needs {_HOST_KEYS}")
    return machine


def _lines(given: Mapping[str, Any], *names: str) -> tuple[str, ...]:
    written = next((given[name] for name in names if given.get(name)), ())
    lines = written if isinstance(written, list | tuple) else str(written).splitlines()
    return tuple(str(line).strip() for line in lines if str(line).strip())


class _Client(asyncssh.SSHClient):
    """Accepts a host key by its fingerprint."""

    def __init__(self, machine: Machine) -> None:
        self._expected = frozenset(machine.fingerprints)

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        digest = base64.b64encode(hashlib.sha256(key.public_data).digest()).decode().rstrip("=")
        return f"SHA256:{digest}" in self._expected


@asynccontextmanager
async def connection_to(machine: Machine, context: ToolContext) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """A connection for as long as the block lasts."""
    address = await context.addresses.address(f"the machine {machine}", machine.host, machine.port)
    connection = await _connected(machine, address)
    try:
        yield connection
    finally:
        connection.abort()
        await connection.wait_closed()


async def _connected(machine: Machine, address: str) -> asyncssh.SSHClientConnection:
    try:
        connection, _ = await asyncssh.create_connection(
            lambda: _Client(machine),
            address,
            machine.port,
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
    text = "".join(sign if sign.isprintable() else " " for sign in str(why))[:200]
    return ToolError("ssh.error", f"{machine}: {text}", retryable=True, code=code)


def _host_keys(machine: Machine) -> list[asyncssh.SSHKey]:
    try:
        return [asyncssh.import_public_key(key) for key in machine.host_keys]
    except (asyncssh.KeyImportError, ValueError):
        raise ToolError(UNRESOLVED, f'the credential\'s "host_key" is no public key: write {_HOST_KEYS}') from None


def _client_keys(machine: Machine) -> list[asyncssh.SSHKey] | None:
    if not machine.private_key:
        return None
    try:
        return [asyncssh.import_private_key(machine.private_key, machine.passphrase or None)]
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError, ValueError):  # their words may hold some of it
        raise ToolError(
            UNRESOLVED, 'the credential\'s "private_key" cannot be read: is its passphrase right?'
        ) from None
