"""PostgreSQL and NATS of a cluster's own, which a test may kill, and start again where they were."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from urllib.parse import urlencode
from uuid import uuid4

from tests.process_liveness import is_alive
from tests.servers import nats, postgres
from tests.servers.ports import free_port

_PATIENCE_S = 90.0


class Postgres(postgres.Server):
    """`url` names a database of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.database = f"c_{uuid4().hex[:12]}"
        self.create(self.database)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/{self.database}?{urlencode({'host': self.socket})}"

    def renew(self) -> None:
        """Another empty database, for the next test."""
        self.revive()
        self.database = f"c_{uuid4().hex[:12]}"
        self.create(self.database)

    def kill(self) -> None:
        """The postmaster alone, as the system would do it; its child processes end when they notice."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        assert self.died()

    def died(self, within_s: float = 60.0) -> bool:
        """Whether it was killed in that time. It is not a child of this process, so its entry in the system is read."""
        end = time.monotonic() + within_s
        while is_alive(self.pid):
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def start(self) -> None:
        """Again, once what was left of it is gone."""
        data = self.folder / "data"
        begin = [str(self._server.bin_path / "pg_ctl"), "-D", str(data), "-w", "-t", str(postgres.STARTED_S)]
        options = ["-o", f'-h "" -k {self.socket}', "-l", str(data / "restart.log"), "start"]
        end = time.monotonic() + _PATIENCE_S
        while True:
            done = subprocess.run([*begin, *options], capture_output=True, user=self._server.system_user, check=False)
            if done.returncode == 0:
                break
            assert time.monotonic() < end, done.stderr.decode() + (data / "restart.log").read_text()[-2000:]
            time.sleep(0.2)
        self.pid = int((data / "postmaster.pid").read_text().splitlines()[0])

    def revive(self) -> None:
        """Restore the state after a failed test."""
        if not is_alive(self.pid):
            self.start()

    def bounce(self) -> None:
        self.kill()
        self.start()


class Nats:
    """A broker that keeps its address across restarts."""

    def __init__(self) -> None:
        self._port = free_port()
        self._server = nats.Server("-p", str(self._port))
        self.url = self._server.url

    @property
    def pid(self) -> int:
        return self._server.process.pid

    def kill(self) -> None:
        self._server.process.kill()
        self._server.process.wait()

    def died(self, within_s: float = 60.0) -> bool:
        try:
            return self._server.process.wait(within_s) == -signal.SIGKILL
        except subprocess.TimeoutExpired:
            return False

    def start(self, *, empty: bool = False) -> None:
        """Again; `empty`: its data are gone."""
        folder = self._server.folder
        if empty:
            shutil.rmtree(folder / "data", ignore_errors=True)
        listening = ["-js", "-a", "127.0.0.1", "-p", str(self._port), "-sd", str(folder / "data")]
        self._server.process = subprocess.Popen(
            [nats.program(), *listening], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def revive(self) -> None:
        if self._server.process.poll() is not None:
            self.start()

    def bounce(self, *, empty: bool = False) -> None:
        self.kill()
        self.start(empty=empty)

    def stop(self) -> None:
        self._server.stop()
