"""A cluster of real processes: servers, workers, PostgreSQL and NATS, each of which a test may kill, freeze or restart.

Everything that was started has ended when the block is left; each process is ended by its id.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from noetl.base.crash_points import VARIABLE
from noetl.client import Client
from noetl.client.administration_requests import make_token
from tests import forked
from tests.cluster.backends import Nats, Postgres
from tests.servers.ports import free_port
from tests.waiting import until

TTL_S, HEARTBEAT_S = 2.0, 0.4
STARTED_S = 90.0
NOTHING_MORE: Mapping[str, str] = {}


class Member:
    """One process of ours, and how it is begun again."""

    def __init__(self, cluster: Cluster, kind: str, name: str, arguments: list[str]) -> None:
        self.cluster, self.kind, self.name, self._arguments = cluster, kind, name, arguments
        self.child: subprocess.Popen[bytes] | None = None
        self._began = 0

    def start(
        self, crash_at: str | None = None, *, waits: bool = True, environment: Mapping[str, str] = NOTHING_MORE
    ) -> Member:
        assert self.child is None or self.child.poll() is not None, f"{self.name} runs already"
        self._began += 1
        more = {**environment, VARIABLE: crash_at} if crash_at else environment
        with (self.cluster.folder / f"{self.name}-{self._began}.log").open("wb") as log:
            command = [*forked.NOETL, self.kind, "start", *self._arguments]
            self.child = forked.Popen(
                command, stdout=log, stderr=log, env=self.cluster.environment(**more), cwd=self.cluster.folder
            )
        if waits:
            self.ready()
        return self

    def ready(self) -> None:
        child = self.child
        assert child is not None
        word = self.cluster.home / "run" / f"{self.kind}-{child.pid}.json"
        until(lambda: word.exists() or child.poll() is not None, STARTED_S, f"{self.name} did not start")
        assert child.poll() in (None, -signal.SIGKILL), self.log()

    @property
    def is_alive(self) -> bool:
        return self.child is not None and self.child.poll() is None

    def kill(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.wait()

    def died(self, within_s: float = 60.0) -> bool:
        """Whether it was killed by its crash point in that time."""
        assert self.child is not None
        try:
            return self.child.wait(within_s) == -signal.SIGKILL
        except subprocess.TimeoutExpired:
            return False

    @property
    def is_frozen(self) -> bool:
        assert self.child is not None
        return Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(") ")[2].startswith("T")

    def freeze(self) -> None:
        assert self.child is not None
        self.child.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.child is not None
        self.child.send_signal(signal.SIGCONT)

    def stop(self, within_s: float = 90.0) -> int:
        """As an operator does it."""
        assert self.child is not None
        self.child.terminate()
        return self.child.wait(within_s)

    def log(self) -> str:
        files = sorted(self.cluster.folder.glob(f"{self.name}-*.log"))
        return "\n".join(f"== {file.name}\n{file.read_text(errors='replace')[-4000:]}" for file in files)


class Cluster:
    """`db` is the store of all servers. Leases last `ttl_s`, so that losing one is no matter of half a minute."""

    def __init__(self, folder: Path, db: str, *, nats: str | None = None, ttl_s: float = TTL_S) -> None:
        self.folder, self.home, self.db, self._nats, self._ttl_s = folder, folder / "home", db, nats, ttl_s
        self.servers: list[Member] = []
        self.workers: list[Member] = []
        self.urls: list[str] = []
        self._token_file = folder / "token"
        self._clients: dict[tuple[int, int], Client] = {}

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
        ours = {"NOETL_HOME": str(self.home), "NO_COLOR": "1"}
        return {**kept, **ours, "NOETL_LEASE_TTL": str(self._ttl_s), "NOETL_HEARTBEAT": str(HEARTBEAT_S), **more}

    def server(
        self,
        *options: str,
        crash_at: str | None = None,
        db: str | None = None,
        nats: str | None = None,
        environment: Mapping[str, str] = NOTHING_MORE,
    ) -> Member:
        """`db` and `nats`: where it finds them, if by another way than the others."""
        port = free_port()
        arguments = ["--port", str(port), "--db", db or self.db, "--token-file", str(self._token_file), *options]
        if broker := nats or self._nats:
            arguments += ["--nats", broker]
        member = Member(self, "server", f"server{len(self.servers)}", arguments)
        self.servers.append(member)
        self.urls.append(f"http://127.0.0.1:{port}")
        return member.start(crash_at, environment=environment)

    def worker(
        self,
        server: int = 0,
        *options: str,
        crash_at: str | None = None,
        waits: bool = True,
        environment: Mapping[str, str] = NOTHING_MORE,
    ) -> Member:
        token = self.folder / "worker-token"
        if not token.exists():
            with self.client() as client:
                made = client.send(make_token({"subject": "w", "role": "worker", "pools": ["default"]}))
            token.write_text(made.token)
        name = f"worker{len(self.workers)}"
        arguments = ["--server", self.urls[server], "--token-file", str(token), "--name", name]
        arguments += ["--allow-address", "127.0.0.1", *options]
        member = Member(self, "worker", name, arguments)
        self.workers.append(member)
        return member.start(crash_at, waits=waits, environment=environment)

    def client(self, server: int = 0) -> Client:
        return Client(self.urls[server], self._token_file.read_text().strip())

    def kept_client(self, server: int) -> Client:
        """One for each thread and server: making one costs more than a request does."""
        whose = threading.get_ident(), server
        if whose not in self._clients:
            self._clients[whose] = self.client(server)
        return self._clients[whose]

    def register(self, *texts: str) -> None:
        with self.client() as client:
            for text in texts:
                client.register(text)

    def logs(self) -> str:
        return "\n".join(member.log() for member in (*self.servers, *self.workers))

    def end(self) -> None:
        for client in self._clients.values():
            client.close()
        for member in (*self.workers, *self.servers):
            with suppress(ProcessLookupError):
                member.kill()


@contextmanager
def cluster(folder: Path, db: str, **how: Any) -> Iterator[Cluster]:
    """A cluster without any member yet. The output of its processes is shown when the test fails."""
    made = Cluster(folder, db, **how)
    try:
        yield made
    except BaseException:
        print(made.logs())
        raise
    finally:
        made.end()


@contextmanager
def backends(*, broker: bool = False) -> Iterator[tuple[Postgres, Nats | None]]:
    postgres, nats = Postgres(), Nats() if broker else None
    try:
        yield postgres, nats
    finally:
        postgres.stop()
        if nats is not None:
            nats.stop()
