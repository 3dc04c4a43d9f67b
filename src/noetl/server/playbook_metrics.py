"""Figures by playbook and by step: how many began, how they ended, how long they took, and how long they were queued.

Authors name playbooks and steps, so their number has no bound. The first ones get series of their own, and all others
are counted together. A step run is timed where this server stored both of its ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram, Summary

from noetl.events.envelope import Event
from noetl.events.executions import ExecutionRequested, PlaybookProcessed
from noetl.events.payloads import EventPhase
from noetl.events.steps import StepScheduled, StepStarted
from noetl.store.contract import Commit

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
