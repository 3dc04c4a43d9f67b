"""Workers of a server of the browser tests: in processes of their own that can be killed, and the one of the server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page

from tests.browser.profiles import fresh_profile
from tests.browser.serving import Site


@contextmanager
def remote_worker(there: Site, *, pool: str = "default") -> Iterator[subprocess.Popen[bytes]]:
    asked = {"subject": f"worker-{pool}", "role": "worker", "pools": [pool]}
    token = str(there.api.post("tokens", json=asked).raise_for_status().json()["token"])
    command = [sys.executable, "-m", "noetl.cli.main", "worker", "start", "--server", there.url, "--pool", pool]
    process = subprocess.Popen(
        command, env={**os.environ, "NOETL_TOKEN": token}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def workers_resumed(shared: Site) -> Iterator[None]:
    """Resumes every worker of a server at the end of the block, also when a test fails in it: no later test on that
    server would run anything."""
    try:
        yield
    finally:
        for worker in shared.api.get("workers").raise_for_status().json()["workers"]:
            if worker["drained_at"] is not None:
                shared.api.post(f"workers/{worker['worker_id']}/resume").raise_for_status()


@contextmanager
def administrator(browser: Browser, there: Site, path: str, patience_ms: int) -> Iterator[Page]:
    """A page of a server that is not the one of all tests."""
    context = fresh_profile(browser, there)
    context.set_default_timeout(patience_ms)
    page = context.new_page()
    page.goto(f"{there.url}{path}#token={there.token}")
    yield page
    context.close()
