"""Prometheus metrics of a server, and the number of waiting orders in each pool over the last hour.

By playbook and step they count starts and ends, and measure durations and queue times. Authors name playbooks and
steps, so their number is unbounded: the first ones get series of their own, all others share one. A step run is timed
only if this server stored both its start and its end.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
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

# Seconds: from a commit on a quiet disk to the point where a server refuses new starts (`slow_commit_s`).
_QUICK = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
# The weight of the newest commit in `commit_s`: one slow commit alone does not count as an overload.
_SMOOTHING = 0.2
MAX_POOLS = 100
DEFAULT_POOL, OTHER_POOLS = "default", "other pools"
# A figure read from the store is the same for all processes of a server: use that of the process that read it last.
_of_store = partial(Gauge, multiprocess_mode="mostrecent")
EVERY_S = 30.0
SAMPLES = 120  # one hour


def forget_process(pid: int) -> None:
    """Remove the gauges of a process that has ended from the shared metrics."""
    if SHARED_METRICS in os.environ:
        mark_process_dead(pid)  # type: ignore[no-untyped-call]


class Meters:
    """The metrics of one server. Each has its own registry, so that several in one process do not mix."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.started = Counter("noetl_executions_started", "Executions begun here.", registry=registry)
        self.ended = Counter("noetl_executions_ended", "Executions ended here.", ["status"], registry=registry)
        self.retired = Counter(
            "noetl_executions_retired", "Executions removed here after their time.", registry=registry
        )
        self.traced = Counter(
            "noetl_traces_sent", "Executions whose trace was sent to the collector.", registry=registry
        )
        self.untraced = Counter("noetl_traces_dropped", "Executions whose trace was not sent.", registry=registry)
        self.stored_executions = _of_store(
            "noetl_executions", "Executions of the store.", ["status"], registry=registry
        )
        self.orders = _of_store("noetl_orders", "Open orders of the store.", ["state"], registry=registry)
        self.pool_orders = _of_store(
            "noetl_pool_orders", "Open orders of a pool.", ["pool", "state"], registry=registry
        )
        self.events = Counter("noetl_events", "Events committed here.", registry=registry)
        self.commits = Histogram("noetl_commit_seconds", "Time of one commit.", buckets=_QUICK, registry=registry)
        self.turns = Histogram(
            "noetl_turn_seconds", "Time of a worker's turn, waiting not counted.", buckets=_QUICK, registry=registry
        )
        self.requests = Histogram(
            "noetl_http_seconds", "Time of requests.", ["method", "route", "status"], buckets=_QUICK, registry=registry
        )
        self.lag = Gauge(
            "noetl_event_loop_lag_seconds",
            "How late the event loop was at the last measurement.",
            registry=registry,
            multiprocess_mode="livemax",
        )
        self.streams = Gauge("noetl_streams", "Open live streams.", registry=registry, multiprocess_mode="livesum")
        self.incidents = _of_store("noetl_incidents", "Quarantined records.", registry=registry)
        self.notices = _of_store(
            "noetl_notices", "Notices of the store; dead ones are dead letters.", ["state"], registry=registry
        )
        self.notice_attempts = Counter(
            "noetl_notice_attempts", "Attempts to send a notice.", ["destination", "outcome"], registry=registry
        )
        self.workers = _of_store("noetl_workers", "Workers seen within the last minute.", registry=registry)
        # Pools with series of their own: the first that have had orders, and those that have workers or a setting.
        self._pools, self._served_pools = [DEFAULT_POOL], list[str]()
        self._has_other_pools = False
        # The smoothed time of recent commits. `start_requests` refuses new starts when it is too high.
        self.commit_s = 0.0

    def count_events(self, events: Sequence[Event]) -> None:
        self.events.inc(len(events))
        for event in events:
            if isinstance(event.payload, ExecutionRequested):
                self.started.inc()
            elif isinstance(event.payload, PlaybookProcessed):
                self.ended.labels(event.payload.status.value).inc()

    def count_notice(self, destination: str, outcome: str) -> None:
        self.notice_attempts.labels(destination, outcome).inc()

    def set_open_orders(
        self, *, ready: Mapping[str, int], leased: Mapping[str, int], served: Iterable[str] = ()
    ) -> None:
        """Set the numbers of open orders, in all and by pool. A pool without orders keeps its series at 0, since an
        autoscaler ignores a missing series. Playbooks name pools, so pools beyond MAX_POOLS share one series. `served`
        are pools that have workers or a setting."""
        # Operators make these, so that they have room of their own: names in playbooks must not take it from them.
        known = {*self._pools, *self._served_pools}
        self._served_pools += sorted(set(served) - known)[: MAX_POOLS - len(self._served_pools)]
        new = sorted({*ready, *leased} - known - set(self._served_pools))
        # A series stays for good, so a pool keeps the one it has: which are listed must not depend on later names.
        self._pools += new[: MAX_POOLS - len(self._pools)]
        listed = {*self._pools, *self._served_pools}
        self._has_other_pools |= not listed.issuperset(new)
        for state, counts in (("ready", ready), ("leased", leased)):
            self.orders.labels(state).set(sum(counts.values()))
            for pool in listed:
                self.pool_orders.labels(pool, state).set(counts.get(pool, 0))
            if self._has_other_pools:
                others = sum(number for pool, number in counts.items() if pool not in listed)
                self.pool_orders.labels(OTHER_POOLS, state).set(others)

    def observe_commit(self, seconds: float) -> None:
        self.commits.observe(seconds)
        self.commit_s += (seconds - self.commit_s) * _SMOOTHING

    def text(self) -> bytes:
        """The metrics in the text format of Prometheus, of all processes of this server."""
        if SHARED_METRICS not in os.environ:
            return bytes(generate_latest(self.registry))
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return bytes(generate_latest(together))


class MeasuredStore:
    """A store whose commits are timed."""

    def __init__(self, store: Store, meters: Meters) -> None:
        self._store, self._meters = store, meters

    # Not a subclass: there are several stores. Everything but `commit` is passed on.
    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, commits: Sequence[Commit]) -> None:
        began = time.perf_counter()
        try:
            await self._store.commit(commits)
        finally:
            self._meters.observe_commit(time.perf_counter() - began)


# Every series costs memory here and in Prometheus, and the number of names is unbounded.
MAX_PLAYBOOKS, MAX_STEPS, MAX_OPEN = 200, 1000, 10_000
OTHER_PLAYBOOKS, OTHER_STEPS = "other playbooks", "other steps"
# Seconds: playbooks take from a tenth of a second to half a day.
_LONG = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 43200.0)
DONE, FAILED = "done", "failed"


class _StepTimes(msgspec.Struct):
    scheduled: float
    started: float | None = None


class _StepMeter(msgspec.Struct, frozen=True):
    """The series of one step, cached: looking up labels costs more than counting."""

    ended: dict[str, Counter]
    seconds: Summary
    queued: Summary


class PlaybookMeters:
    """Metrics by playbook and step, updated after each commit."""

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
                self._step_opened(event)
            case StepStarted():
                if (times := self._open.get(event.step_run_id or "")) is not None and times.started is None:
                    # Only the first start: a run whose lease was lost starts again, but was not queued longer.
                    times.started = event.ts
            case ExecutionRequested():
                self.started.labels(playbook).inc()
            case PlaybookProcessed(status=status):
                self.ended.labels(playbook, status.value).inc()
                self.seconds.labels(playbook).observe(max(event.ts - commit.execution.created_at, 0.0))
            # Use the meaning of the event class: a new kind of step end is counted without a change here.
            case payload if "step.scheduled" in payload.meaning.ends:
                self._step_ended(event, playbook)

    def _step_opened(self, event: Event) -> None:
        if event.step_run_id is None:
            return
        # The oldest ones ended at another server, or never.
        if len(self._open) >= MAX_OPEN:
            del self._open[next(iter(self._open))]
        self._open[event.step_run_id] = _StepTimes(event.ts)

    def _step_ended(self, event: Event, playbook: str) -> None:
        times = self._open.pop(event.step_run_id or "", None)
        meter = self._step(playbook, event.step or "")
        meter.ended[FAILED if event.payload.meaning.phase is EventPhase.BAD else DONE].inc()
        if times is not None:
            # Without a start, the run was cancelled in the queue, or another server stored its start.
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
        if (meter := self._steps.get((playbook, step))) is not None:
            return meter
        if len(self._steps) >= MAX_STEPS and step != OTHER_STEPS:
            return self._step(OTHER_PLAYBOOKS, OTHER_STEPS)
        meter = _StepMeter(
            {status: self.step_ended.labels(playbook, step, status) for status in (DONE, FAILED)},
            self.step_seconds.labels(playbook, step),
            self.step_queued.labels(playbook, step),
        )
        self._steps[playbook, step] = meter
        return meter


# Queue depths: how many orders waited in each pool over the last hour, sampled twice a minute.
#
# They show whether a pool keeps up. Each server samples the shared store, so all servers show the same. They are in
# memory and begin again after a restart; use `/metrics` for long-term monitoring.


class QueueDepths:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._samples: deque[Mapping[str, int]] = deque(maxlen=SAMPLES)

    async def serve(self) -> None:
        while True:
            try:
                await self.count_waiting()
            except BackendError:
                # Append an empty sample: the chart needs one value for each half minute. The connections of the store
                # have logged the outage.
                self._samples.append({})
            await asyncio.sleep(EVERY_S)

    async def count_waiting(self) -> None:
        """Add a sample of the waiting orders by pool."""
        self._samples.append(await self._store.unclaimed(now=self._clock.now()))

    def of(self, pool: str, now: int) -> list[int]:
        """The depths of one pool, the oldest first; `now` is appended as the newest."""
        return [*(sample.get(pool, 0) for sample in self._samples), now]

    @property
    def pools(self) -> set[str]:
        """The pools in which orders have waited."""
        return {pool for sample in self._samples for pool in sample}
