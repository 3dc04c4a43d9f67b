"""Figures of a server for Prometheus. Counted where things happen, told when somebody asks."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from noetl.events.envelope import Event
from noetl.events.executions import ExecutionRequested, PlaybookProcessed
from noetl.server.configuration import SHARED_METRICS
from noetl.store.contract import Commit, Store

_QUICK = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_SMOOTHING = 0.2
MAX_POOLS = 100
DEFAULT_POOL, OTHER_POOLS = "default", "other pools"


# A figure of the store is the same for all processes of a server: the one that looked last knows it best.
_of_store = partial(Gauge, multiprocess_mode="mostrecent")


def forget_process(pid: int) -> None:
    """What a process that is gone had open is not open any more."""
    if SHARED_METRICS in os.environ:
        mark_process_dead(pid)  # type: ignore[no-untyped-call]


class Meters:
    """One registry per server, so that several in one process do not count for each other."""

    def __init__(self) -> None:
        self.registry = one = CollectorRegistry()
        self.started = Counter("noetl_executions_started", "Executions begun here.", registry=one)
        self.ended = Counter("noetl_executions_ended", "Executions ended here.", ["status"], registry=one)
        self.retired = Counter("noetl_executions_retired", "Executions removed here after their time.", registry=one)
        self.traced = Counter("noetl_traces_sent", "Executions told to the collector.", registry=one)
        self.untraced = Counter("noetl_traces_dropped", "Executions that the collector was not told.", registry=one)
        self.kept = _of_store("noetl_executions", "Executions of the store.", ["status"], registry=one)
        self.orders = _of_store("noetl_orders", "Open orders of the store.", ["state"], registry=one)
        self.pool_orders = _of_store("noetl_pool_orders", "Open orders of a pool.", ["pool", "state"], registry=one)
        self.events = Counter("noetl_events", "Events committed here.", registry=one)
        self.commits = Histogram("noetl_commit_seconds", "Time of one commit.", buckets=_QUICK, registry=one)
        self.turns = Histogram(
            "noetl_turn_seconds", "Time of a worker's turn, waiting not counted.", buckets=_QUICK, registry=one
        )
        self.requests = Histogram(
            "noetl_http_seconds", "Time of requests.", ["method", "route", "status"], buckets=_QUICK, registry=one
        )
        self.lag = Gauge(
            "noetl_event_loop_lag_seconds",
            "How late the event loop was, at the last look.",
            registry=one,
            multiprocess_mode="livemax",
        )
        self.streams = Gauge("noetl_streams", "Open live streams.", registry=one, multiprocess_mode="livesum")
        self.incidents = _of_store("noetl_incidents", "Quarantined records.", registry=one)
        self.notices = _of_store(
            "noetl_notices", "Notices of the store; dead ones are dead letters.", ["state"], registry=one
        )
        self.notice_attempts = Counter(
            "noetl_notice_attempts", "Attempts to send a notice.", ["destination", "outcome"], registry=one
        )
        self.workers = _of_store("noetl_workers", "Workers seen within the last minute.", registry=one)
        self._pools: set[str] = set()  # those that have had orders
        self.commit_s = 0.0  # of late, smoothed; what overload is told by

    def count_events(self, events: Sequence[Event]) -> None:
        self.events.inc(len(events))
        for event in events:
            if isinstance(event.payload, ExecutionRequested):
                self.started.inc()
            elif isinstance(event.payload, PlaybookProcessed):
                self.ended.labels(event.payload.status.value).inc()

    def count_notice(self, destination: str, outcome: str) -> None:
        self.notice_attempts.labels(destination, outcome).inc()

    def saw_orders(self, *, ready: Mapping[str, int], leased: Mapping[str, int]) -> None:
        """Set the figures of open orders, in all and by pool. A pool without orders keeps its series, at 0, since an
        autoscaler does nothing about one that is missing. Playbooks name pools, so past MAX_POOLS the rest are counted
        together."""
        self._pools |= {DEFAULT_POOL, *ready, *leased}
        named = sorted(self._pools, key=lambda pool: (pool != DEFAULT_POOL, pool))[:MAX_POOLS]
        for state, found in (("ready", ready), ("leased", leased)):
            self.orders.labels(state).set(sum(found.values()))
            for pool in named:
                self.pool_orders.labels(pool, state).set(found.get(pool, 0))
            if len(self._pools) > MAX_POOLS:
                rest = sum(number for pool, number in found.items() if pool not in named)
                self.pool_orders.labels(OTHER_POOLS, state).set(rest)

    def committed(self, seconds: float) -> None:
        self.commits.observe(seconds)
        self.commit_s += (seconds - self.commit_s) * _SMOOTHING

    def text(self) -> bytes:
        """Of all processes of this server, where it has several."""
        if SHARED_METRICS not in os.environ:
            return bytes(generate_latest(self.registry))
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return bytes(generate_latest(together))


class MeasuredStore:
    """The store itself, its commits timed."""

    def __init__(self, store: Store, meters: Meters) -> None:
        self._store, self._meters = store, meters

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, commits: Sequence[Commit]) -> None:
        began = time.perf_counter()
        try:
            await self._store.commit(commits)
        finally:
            self._meters.committed(time.perf_counter() - began)
