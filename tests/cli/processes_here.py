"""Real processes of ours in a test: a server and workers in a home of their own, ended by their ids."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from noetl.client import Client
from noetl.client.administration_requests import make_token
from tests import forked
from tests.waiting import until


class Here:
    """`server` and `worker` start one each; everything that was started has ended when the block is left."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self.children: list[subprocess.Popen[bytes]] = []
        self.url = self.token = ""

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
        return {**kept, "NOETL_HOME": str(self.home), "NO_COLOR": "1", **more}

    def spawn(self, *arguments: str, **more: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{len(self.children)}-{arguments[0]}.log").open("wb")
        command = [*forked.NOETL, *arguments]
        child = forked.Popen[bytes](command, stdout=log, stderr=log, env=self.environment(**more), cwd=self.folder)
        log.close()
        self.children.append(child)
        return child

    def call(self, *arguments: str, within_s: float = 110, **more: str) -> subprocess.CompletedProcess[str]:
        command = [*forked.NOETL, *arguments]
        return forked.run(
            command,
            env=self.environment(**more),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )

    def server(self, *options: str, **more: str) -> str:
        """Its address; the first one's token is kept."""
        token_file = self.folder / "token"
        child = self.spawn("server", "start", "--port", "0", "--token-file", str(token_file), *options, **more)
        url = str(self._word(child, "server")["url"])
        self.url = self.url or url
        if token_file.exists():
            self.token = token_file.read_text().strip()
        return url

    def worker(self, *options: str, url: str = "", **more: str) -> subprocess.Popen[bytes]:
        token = self.folder / "worker-token"
        if not token.exists():
            with Client(self.url, self.token) as client:
                made = client.send(make_token({"subject": "w", "role": "worker", "pools": ["default"]}))
            token.write_text(made.token)
        child = self.spawn("worker", "start", "--server", url or self.url, "--token-file", str(token), *options, **more)
        self._word(child, "worker")
        return child

    def client(self) -> Client:
        return Client(self.url, self.token)

    def _word(self, child: subprocess.Popen[bytes], kind: str) -> dict[str, Any]:
        place = self.home / "run" / f"{kind}-{child.pid}.json"

        def look() -> dict[str, Any] | None:
            assert child.poll() is None, self.logs()
            return msgspec.json.decode(place.read_bytes()) if place.exists() else None

        return until(look)

    def logs(self) -> str:
        return "\n".join(file.read_text(errors="replace") for file in sorted(self.folder.glob("*.log")))

    def end(self) -> None:
        for child in reversed(self.children):
            if child.poll() is None:
                child.terminate()
        for child in self.children:
            try:
                child.wait(60)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


@contextmanager
def here(folder: Path) -> Iterator[Here]:
    place = Here(folder)
    try:
        yield place
    finally:
        place.end()


SLOW = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: slow, path: tests/slow }
workflow:
  - step: start
    tool:
      - { name: wait, kind: python, args: { s: "{{ workload.s }}" }, code: "import time; time.sleep(s); result = 1" }
    next: { arcs: [{ step: after }] }
  - step: after
    tool: [{ name: more, kind: python, code: "result = 'and more'" }]
workload: { s: 1 }
"""
