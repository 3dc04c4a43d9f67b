"""Metrics of a server for Prometheus: counted where things happen, collected when somebody asks. Also how many orders
waited in each pool over the last hour.

By playbook and step: how many began, how they ended, how long they took and how long they were queued. Authors name
playbooks and steps, so their number has no bound: the first ones get series of their own, and all others are counted
together. A step run is timed where this server stored both of its ends.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from noetl.base.clock import Clock
from noetl.base.errors import BackendError
from noetl.events.envelope import Event
from noetl.events.executions import ExecutionRequested, PlaybookProcessed
from noetl.events.payloads import EventPhase
from noetl.events.steps import StepScheduled, StepStarted
from noetl.server.configuration import SHARED_METRICS
from noetl.store.contract import Commit, Store

_QUICK = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_SMOOTHING = 0.2
MAX_POOLS = 100
DEFAULT_POOL, OTHER_POOLS = "default", "other pools"
# A figure of the store is the same for all processes of a server: the one that looked last knows it best.
_of_store = partial(Gauge, multiprocess_mode="mostrecent")
EVERY_S = 30.0
LOOKS = 120  # an hour of them


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


# Every series costs memory here and in Prometheus; names come from authors, and have no bound.
MAX_PLAYBOOKS, MAX_STEPS, MAX_OPEN = 200, 1000, 10_000
OTHER_PLAYBOOKS, OTHER_STEPS = "other playbooks", "other steps"
_LONG = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 43200.0)
DONE, FAILED = "done", "failed"


class _StepTimes(msgspec.Struct):
    scheduled: float
    started: float | None = None


class _StepMeter(msgspec.Struct, frozen=True):
    """The series of one step, looked up once: labels cost more than counting."""

    ended: dict[str, Counter]
    seconds: Summary
    queued: Summary


class PlaybookMeters:
    """Counts commits once they are stored."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.started = Counter(
            "noetl_playbook_started", "Executions of a playbook begun here.", ["playbook"], registry=registry
        )
        self.ended = Counter(
            "noetl_playbook_ended", "Executions of a playbook ended here.", ["playbook", "status"], registry=registry
        )
        self.seconds = Histogram(
            "noetl_playbook_seconds",
            "Time from the request to the end of an execution.",
            ["playbook"],
            buckets=_LONG,
            registry=registry,
        )
        of_step = ["playbook", "step"]
        self.step_ended = Counter(
            "noetl_step_ended", "Step runs that ended here.", [*of_step, "status"], registry=registry
        )
        self.step_seconds = Summary("noetl_step_seconds", "Time of a step run.", of_step, registry=registry)
        self.step_queued = Summary(
            "noetl_step_queue_seconds", "Time until a worker began a step run.", of_step, registry=registry
        )
        self._playbooks: set[str] = set()
        self._steps: dict[tuple[str, str], _StepMeter] = {}
        self._open: dict[str, _StepTimes] = {}

    def stored(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            playbook = self._playbook(commit.execution.path)
            for event in commit.events:
                self._count(event, playbook, commit)

    def _count(self, event: Event, playbook: str, commit: Commit) -> None:
        match event.payload:
            case StepScheduled():
                self._opened(event)
            case StepStarted():
                if (times := self._open.get(event.step_run_id or "")) is not None and times.started is None:
                    times.started = event.ts
            case ExecutionRequested():
                self.started.labels(playbook).inc()
            case PlaybookProcessed(status=status):
                self.ended.labels(playbook, status.value).inc()
                self.seconds.labels(playbook).observe(max(event.ts - commit.execution.created_at, 0.0))
            case payload if "step.scheduled" in payload.meaning.ends:
                self._ended(event, playbook)

    def _opened(self, event: Event) -> None:
        if event.step_run_id is None:
            return
        if len(self._open) >= MAX_OPEN:  # those that ended at another server, or never
            del self._open[next(iter(self._open))]
        self._open[event.step_run_id] = _StepTimes(event.ts)

    def _ended(self, event: Event, playbook: str) -> None:
        times = self._open.pop(event.step_run_id or "", None)
        meter = self._step(playbook, event.step or "")
        meter.ended[FAILED if event.payload.meaning.phase is EventPhase.BAD else DONE].inc()
        if times is not None:
            began = times.scheduled if times.started is None else times.started
            meter.seconds.observe(max(event.ts - began, 0.0))
            if times.started is not None:
                meter.queued.observe(max(times.started - times.scheduled, 0.0))

    def _playbook(self, path: str) -> str:
        if path not in self._playbooks:
            if len(self._playbooks) >= MAX_PLAYBOOKS:
                return OTHER_PLAYBOOKS
            self._playbooks.add(path)
        return path

    def _step(self, playbook: str, step: str) -> _StepMeter:
        if (known := self._steps.get((playbook, step))) is not None:
            return known
        if len(self._steps) >= MAX_STEPS and step != OTHER_STEPS:
            return self._step(OTHER_PLAYBOOKS, OTHER_STEPS)
        made = _StepMeter(
            {status: self.step_ended.labels(playbook, step, status) for status in (DONE, FAILED)},
            self.step_seconds.labels(playbook, step),
            self.step_queued.labels(playbook, step),
        )
        self._steps[playbook, step] = made
        return made


# Queue depths: how many orders have waited in each pool over the last hour, looked at twice a minute.
#
# For people who ask whether a pool keeps up. It is kept in the memory of one server and counts what all servers have
# stored, so any of them shows the same; after a restart it begins anew. Monitoring that lasts reads `/metrics`.


class QueueDepths:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._looks: deque[Mapping[str, int]] = deque(maxlen=LOOKS)

    async def serve(self) -> None:
        while True:
            try:
                await self.count_waiting()
            except BackendError:
                self._looks.append({})  # its connections have told that the store is away
            await asyncio.sleep(EVERY_S)

    async def count_waiting(self) -> None:
        """Count the orders that wait, by pool, and remember it."""
        self._looks.append(await self._store.unclaimed(now=self._clock.now()))

    def of(self, pool: str, now: int) -> list[int]:
        """Of one pool, the oldest first; `now` is the newest."""
        return [*(one.get(pool, 0) for one in self._looks), now]

    @property
    def pools(self) -> set[str]:
        """Those in which something has waited."""
        return {pool for one in self._looks for pool in one}
