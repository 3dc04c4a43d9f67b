"""A real server with a worker in its process, on a free port and a file of its own, for one test session."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.waiting import looks

ROOT = Path(__file__).parents[2]


class Site:
    """Where it listens, and how to speak to it as its first administrator."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token
        self.api = httpx2.Client(base_url=f"{url}/api/", headers={"Authorization": f"Bearer {token}"}, timeout=500)

    def register(self, text: str) -> None:
        self.api.post("catalog", json={"source": text}).raise_for_status()

    def start(self, path: str, **payload: Any) -> str:
        started = self.api.post("executions", json={"path": path, "payload": payload})
        return str(started.raise_for_status().json()["execution_id"])

    def ended(self, execution_id: str) -> str:
        """How it ended, once it has."""
        return str(self._until(execution_id, lambda view: view["finished_at"] is not None)["status"])

    def until_waiting(self, execution_id: str, step: str) -> None:
        """Return once the step waits for an external event."""
        for _ in self._looks():
            steps = self.api.get(f"executions/{execution_id}/steps").raise_for_status().json()["steps"]
            if any(one["step"] == step and one["status"] == "waiting" for one in steps):
                return

    def _until(self, execution_id: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        for _ in self._looks():
            view: dict[str, Any] = self.api.get(f"executions/{execution_id}").raise_for_status().json()
            if holds(view):
                return view
        raise AssertionError("unreachable")

    @staticmethod
    def _looks(patience_s: float = 400.0) -> Iterator[None]:
        return looks(patience_s, "the server did not come that far")

    def make_token(self, subject: str, role: str, *human_roles: str) -> str:
        asked = {"subject": subject, "role": role, "human_roles": human_roles}
        return str(self.api.post("tokens", json=asked).raise_for_status().json()["token"])


@contextmanager
def site(folder: Path, **settings: Any) -> Iterator[Site]:
    """A server with these settings; without any it has a worker with four slots."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.browser.serving", str(folder / "site.db"), json.dumps(settings)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, "the server ended before it listened"
        message = json.loads(line)
        found = Site(message["url"], message["token"])
        yield found
        found.api.close()
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


async def _serve(db: str, **settings: Any) -> None:
    import signal

    from noetl.server.configuration import ServerSettings
    from noetl.server.server_process import Served, serve

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)

    async def ready(served: Served) -> None:
        print(json.dumps({"url": served.url, "token": served.first_token}), flush=True)

    asked: dict[str, Any] = {"workers": 4, "local": True} | settings
    await serve(ServerSettings(db=db, port=0, **asked), ready=ready, stop=stop)


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], **json.loads(sys.argv[2])))
