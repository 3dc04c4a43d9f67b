"""Ledgers outside of the system: which starts were accepted, and which effects really happened (reliability.md
§4.1)."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any
from uuid import uuid4

from noetl.base.errors import BackendError
from noetl.client.api_request import ApiError
from tests.cluster.machines import Cluster
from tests.servers.http import HttpServer, Reply, Request, reply

_PAUSE_S = 0.1


class Effects:
    """A service that counts requested effects, by the idempotency key of the task. While `gate` is cleared, it
    answers no request."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.seen_at: list[tuple[float, str]] = []
        self._server = HttpServer({"*": self._answer})

    def __enter__(self) -> Effects:
        self._server.__enter__()
        return self

    def __exit__(self, *how: Any) -> None:
        self._server.__exit__(*how)

    @property
    def url(self) -> str:
        return self._server.url

    def _answer(self, request: Request) -> Reply:
        key = request.headers.get("idempotency-key", "without")
        with self._lock:
            self.counts[key] += 1
            self.seen_at.append((time.time(), key))
        return reply(json={"ok": True}, held=None if self.gate.is_set() else self.gate)

    def of(self, execution_id: str) -> Counter[str]:
        with self._lock:
            return Counter({key: n for key, n in self.counts.items() if key.startswith(f"{execution_id}/")})

    def total(self) -> int:
        with self._lock:
            return self.counts.total()


class Starts:
    """A client that writes down what was accepted. A start whose answer was lost is asked for again with its key, which
    no other client of the same cluster has."""

    def __init__(self, cluster: Cluster, *, within_s: float = 90.0) -> None:
        self._cluster, self._within_s, self._name = cluster, within_s, uuid4().hex
        self._lock = threading.Lock()
        self.accepted: dict[str, str] = {}  # execution -> key
        self.tries = 0

    def start(self, path: str, payload: dict[str, Any], *, key: str, first: int = 0) -> str:
        end = time.monotonic() + self._within_s
        turn = first
        while True:
            server = turn % len(self._cluster.urls)
            turn += 1
            with self._lock:
                self.tries += 1
            try:
                started = self._cluster.kept_client(server).start(path, payload, key=f"{self._name}/{key}")
            except (BackendError, ApiError) as problem:
                passing = not isinstance(problem, ApiError) or problem.status >= 500 or problem.status in (409, 429)
                if not passing or time.monotonic() > end:
                    raise
                time.sleep(_PAUSE_S)
                continue
            with self._lock:
                self.accepted[started.execution_id] = key
            return started.execution_id

    def some(self, path: str, payload: dict[str, Any], *, key: str, number: int = 4) -> None:
        """One after another: not each of them passes every point, since a waiting worker may claim its order at
        once."""
        for one in range(number):
            self.start(path, payload, key=f"{key}/{one}")
