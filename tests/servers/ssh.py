"""An SSH server on loopback, with a real shell and a real folder behind it. Servers of ssh and sftp are one."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncssh

PASSWORD = "the password of ada"


class _Login(asyncssh.SSHServer):
    def __init__(self, client_key: asyncssh.SSHKey) -> None:
        self._key = client_key

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == ("ada", PASSWORD)

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == "ada" and key.public_data == self._key.public_data


async def _shell(process: asyncssh.SSHServerProcess[bytes], children: list[Process]) -> None:
    """The behaviour of sshd: the command by a shell, its streams and its end passed on, killed when the channel
    closes."""
    child = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", process.command or ""), stdin=-1, stdout=-1, stderr=-1, start_new_session=True
    )
    children.append(child)
    assert child.stdin is not None
    outputs = [(child.stdout, process.stdout), (child.stderr, process.stderr)]
    pumps = asyncio.gather(_feed(process, child.stdin), *(_pump(source, target) for source, target in outputs))
    closed: asyncio.Future[Any] = asyncio.ensure_future(process.wait_closed())
    both: set[asyncio.Future[Any]] = {pumps, closed}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if pumps.done():
            process.exit(await child.wait())
    finally:
        for one in both:
            one.cancel()
        if child.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, 9)
        # Its pipes too, or the loop complains when it ends; first, since this wait can be cancelled once more.
        child._transport.close()  # type: ignore[attr-defined]
        await asyncio.gather(*both, return_exceptions=True)


async def _feed(process: asyncssh.SSHServerProcess[bytes], target: asyncio.StreamWriter) -> None:
    while chunk := await process.stdin.read(65536):
        target.write(chunk)
    target.close()


async def _pump(source: Any, target: Any) -> None:
    while chunk := await source.read(65536):
        target.write(chunk)
        await target.drain()


class Machine:
    def __init__(self, port: int, folder: Path, host_key: asyncssh.SSHKey, client_key: asyncssh.SSHKey) -> None:
        self.port, self.folder, self.host_key, self.client_key = port, folder, host_key, client_key

    @property
    def auth(self) -> dict[str, Any]:
        host_key = self.host_key.export_public_key().decode()
        return {"host": "127.0.0.1", "port": self.port, "user": "ada", "password": PASSWORD, "host_key": host_key}


@asynccontextmanager
async def ssh_machine(folder: Path) -> AsyncIterator[Machine]:
    """A machine whose files, by sftp, are those of `folder`."""
    host_key, client_key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    shells: set[asyncio.Task[None]] = set()
    children: list[Process] = []

    def shell(process: asyncssh.SSHServerProcess[bytes]) -> asyncio.Task[None]:
        shells.add(running := asyncio.ensure_future(_shell(process, children)))
        return running

    server = await asyncssh.create_server(
        lambda: _Login(client_key),
        "127.0.0.1",
        0,
        server_host_keys=[host_key],
        process_factory=shell,
        sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=os.fsencode(folder)),
        encoding=None,
    )
    yield Machine(server.get_port(), folder, host_key, client_key)
    server.close()
    await server.wait_closed()
    for one in shells:  # the server does not wait for them
        one.cancel()
    await asyncio.gather(*shells, return_exceptions=True)
    # Here, without cancellation: a loop that ends before it has received a child's exit leaves it open.
    for child in children:
        await child.wait()
