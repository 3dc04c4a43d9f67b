"""Programs that serve on a port of loopback, for tests: started when first asked for, stopped with the test process."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.servers.at_end import stop_at_end
from tests.servers.ports import free_port

PORT = "{port}"
FOLDER = "{folder}"


class ServedProgram:
    """A program with a free port and a folder of its own; `{port}` and `{folder}` are replaced in its command."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        stdin: int | None = None,
        own_session: bool = False,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="noetl-test-server-"))
        self.port = free_port()
        filled = [part.replace(PORT, str(self.port)).replace(FOLDER, str(self.folder)) for part in command]
        self.prepare()
        self._log = (self.folder / "server.log").open("wb")
        self.process = subprocess.Popen(
            filled,
            stdin=stdin,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            env=environment,
            start_new_session=own_session,
        )
        stop_at_end(self.stop)
        self._wait()

    def prepare(self) -> None:
        """The preparation before its start."""

    def _wait(self) -> None:
        """Until it takes connections."""
        for _ in range(6000):
            assert self.process.poll() is None, f"the server ended at once: {self.log()}"
            try:
                self.connect()
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise AssertionError(f"the server did not listen: {self.log()}")

    def connect(self) -> None:
        """Make a connection and close it; OSError while the server does not listen."""
        socket.create_connection(("127.0.0.1", self.port), timeout=10).close()

    def log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")[-2000:]

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
