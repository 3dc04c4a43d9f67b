"""The workloads on a Restate server with its Python SDK: `python restate_peer.py chain 100`.

RESTATE_SERVER names the server's program. Server, service and client run on this machine and stop with this process.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import aiohttp
from workloads import median, report, state_folder, workload

HERE = Path(__file__).parent
SERVER = os.environ.get("RESTATE_SERVER", "restate-server")
START_S = 60


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def until(ask: Callable[[], bool]) -> None:
    """Ask until it is so. A server that is just starting refuses connections."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        try:
            if ask():
                return
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(0.05)
    raise TimeoutError(f"{SERVER} did not start within {START_S} s")


def answers(url: str, body: object = None) -> bool:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return 200 <= answer.status < 300


@contextmanager
def restate(folder: Path) -> Iterator[str]:
    """A server with the service registered; yields the address that takes calls."""
    ingress, admin, node, service = (f"127.0.0.1:{free_port()}" for _ in range(4))
    settings = {
        "RESTATE_INGRESS__BIND_ADDRESS": ingress,
        "RESTATE_ADMIN__BIND_ADDRESS": admin,
        "RESTATE_BIND_ADDRESS": node,
        "RESTATE_ADVERTISED_ADDRESS": f"http://{node}",
        "RESTATE_NODE_NAME": "n1",
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_LOG_FILTER": "error",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "1",
    }
    serve = [sys.executable, "-m", "hypercorn", "restate_app:app", "--bind", service, "--log-level", "error"]
    with (folder / "log").open("w") as log:
        processes = [
            subprocess.Popen(
                [SERVER, "--base-dir", str(folder / "data")],
                env={**os.environ, **settings},
                cwd=folder,
                stdout=log,
                stderr=log,
            ),
            subprocess.Popen(serve, cwd=HERE, stdout=log, stderr=log),
        ]
        try:
            until(lambda: answers(f"http://{admin}/health"))
            until(lambda: answers(f"http://{admin}/deployments", {"uri": f"http://{service}"}))
            until(lambda: answers(f"http://{ingress}/restate/health"))
            yield f"http://{ingress}/Bench/"
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(timeout=15)


async def measured(base: str, name: str, size: int) -> float:
    """Seconds of the workload; of `latency` the median of its samples."""
    timeout = aiohttp.ClientTimeout(600)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as client:

        async def call(handler: str, number: int) -> float:
            began = time.perf_counter()
            async with client.post(base + handler, json=number) as answer:
                assert answer.status == 200, await answer.text()
            return time.perf_counter() - began

        for _ in range(5):  # connections are open, the service is known
            await call("chain", 3)
        if name == "latency":
            return median([await call("chain", 1) for _ in range(size)])
        began = time.perf_counter()
        if name == "crowd":
            await asyncio.gather(*(call("chain", 3) for _ in range(size)))
        else:
            await call(name, size)
        return time.perf_counter() - began


def main() -> None:
    name, size = workload()
    with state_folder("restate") as folder, restate(folder) as base:
        seconds = asyncio.run(measured(base, name, size))
    words = subprocess.run([SERVER, "--version"], capture_output=True, text=True).stdout.split()
    report(seconds, f"Restate {words[1] if len(words) > 1 else '?'}, SDK {version('restate-sdk')}")


if __name__ == "__main__":
    main()
