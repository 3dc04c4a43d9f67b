"""The views of the projection: step runs with their tasks and loops, waits, and a failure.

Each view applies the events that are about itself alone; `projection` handles all others. Times are seconds.
"""

from __future__ import annotations

import msgspec

from noetl.events.loops import IterationDone, IterationFailed, LoopKept, LoopLevels, LoopStarted
from noetl.events.outcomes import Error
from noetl.events.side_runs import OrderClaimed
from noetl.events.steps import CaseHeard, CaseWaiting, StepStarted
from noetl.events.tasks import TaskProcessed, TaskStarted
from noetl.events.v2_case_positions import RetryStarted
from noetl.events.waits import HumanCreated, MessageAwaited, SignalAwaited, TimerScheduled

Awaited = TimerScheduled | MessageAwaited | SignalAwaited | HumanCreated

_SAMPLE_S, _WINDOW = 0.5, 20  # the rate is measured over the last ten seconds
# A pipeline with a cycle may have thousands; `runs` counts them all.
_MOST_TASKS = 500  # listed of one step run
_MOST_LOST = 20  # starts remembered of one task run: five lost leases end it, workers that shut down do not


class LoopProgress(LoopLevels):
    """The loop of a step run. `samples` say how far the innermost level was, and when."""

    samples: list[tuple[float, int]] = []
    sampled_at: float = 0.0

    def open(self, depth: int, total: int, at: float) -> None:
        # A deeper level has opened: the bar shows that one from now on, and samples of another level say nothing of its
        # rate.
        if len(self.levels) <= depth:
            self.samples.clear()
        self.add(depth, total)
        self._sample(at)

    def count(self, payload: IterationDone | IterationFailed, at: float) -> None:
        self.end(payload)
        self._sample(at)

    def keep(self, depth: int, number: int) -> None:
        """Add iterations that an earlier run had done: they do not count for the rate."""
        self.levels[depth].done += number
        self.samples.clear()

    def rate(self) -> float | None:
        """Iterations that ended per second, recently; None until that is known."""
        if not self.samples:
            return None
        (began, before), ended = self.samples[0], self.level.ended
        return (ended - before) / (self.sampled_at - began) if self.sampled_at > began and ended > before else None

    def left_s(self) -> float | None:
        """Seconds until the loop is done, at this rate."""
        rate = self.rate()
        return (self.level.total - self.level.ended) / rate if rate else None

    def _sample(self, at: float) -> None:
        """Note the progress of the loop; most calls cost one comparison."""
        self.sampled_at = at
        if not self.samples or at - self.samples[-1][0] >= _SAMPLE_S:
            self.samples.append((at, self.level.ended))
            if len(self.samples) > _WINDOW:
                del self.samples[0]


class TaskRetry(msgspec.Struct, frozen=True):
    """A task that is run again, and why."""

    task: str
    attempt: int
    at: float
    error: Error | None


class LostStart(msgspec.Struct, frozen=True):
    """A start of a task run without an outcome, since its worker was lost, cut off or shut down. The time of the loss
    is not in the log: it was before `begun_again_at`."""

    started_at: float
    begun_again_at: float
    worker_id: str | None


class TaskRunView(msgspec.Struct, kw_only=True):
    """One try of a task. `started_at` is its first start, `lost` are those that others followed, on `worker_id` is the
    last. `finished_at` is its worker's time, `reported_at` that of the event. `do` is what the policy said then;
    `delay_s` is how long it waits before the same task is run again."""

    task: str
    attempt: int
    started_at: float
    worker_id: str | None = None
    lost: tuple[LostStart, ...] = ()
    kind: str = ""
    finished_at: float | None = None
    reported_at: float | None = None
    status: str = "running"
    error: Error | None = None
    do: str | None = None
    delay_s: float = 0.0

    @property
    def last_started_at(self) -> float:
        return self.lost[-1].begun_again_at if self.lost else self.started_at

    def start_again(self, at: float, worker_id: str | None) -> None:
        lost = LostStart(self.last_started_at, at, self.worker_id)
        self.lost, self.worker_id = (*self.lost[1 - _MOST_LOST :], lost), worker_id


class PipelineView(msgspec.Struct):
    """The state of the tasks of a step run. `runs` counts all attempts, those of iterations too; `listed` are the
    first of the others, `open` those that have not been reported, by their ids. `attempt` is that of `task`."""

    task: str | None = None
    attempt: int = 1
    retry: TaskRetry | None = None
    retries: int = 0
    last_error: Error | None = None
    failing_task: str | None = None
    runs: int = 0
    listed: list[TaskRunView] = []
    open: dict[str, TaskRunView] = {}

    def start(self, payload: TaskStarted, at: float, *, is_listed: bool) -> None:
        self.runs += 1
        if is_listed:
            # Only of the pipeline itself: iterations run side by side, and no single one is "the" task of the step.
            self.task, self.attempt, self.retry = payload.task, payload.attempt, None
        one = self.open.get(payload.task_run_id)
        if one is not None:  # the engine drops repeated reports, so this one is of a later lease
            one.start_again(at, payload.worker_id)
            return
        one = TaskRunView(
            task=payload.task, attempt=payload.attempt, started_at=at, kind=payload.kind, worker_id=payload.worker_id
        )
        self.open[payload.task_run_id] = self._listed(one, is_listed)

    def end(self, payload: TaskProcessed, at: float, *, is_listed: bool) -> None:
        decision, meta, error = payload.decision, payload.outcome.meta, payload.outcome.error
        one = self.open.pop(payload.task_run_id, None)
        if one is None:  # the server decided it itself, so no worker started it
            one = TaskRunView(task=payload.task, attempt=payload.attempt, started_at=meta.started_at)
            self._listed(one, is_listed)
        one.finished_at, one.reported_at, one.status = meta.finished_at, at, payload.outcome.status.value
        one.error, one.do, one.delay_s = error, decision.do, decision.delay_s
        self.last_error = error
        if decision.do == "retry":
            self.repeat(TaskRetry(payload.task, payload.attempt + 1, at + decision.delay_s, error))
        elif decision.error is not None:
            self.failing_task = payload.task
        if is_listed and decision.next is not None:
            self.task = decision.next

    def repeat(self, retry: TaskRetry) -> None:
        self.retry = retry
        self.retries += 1

    def _listed(self, one: TaskRunView, is_listed: bool) -> TaskRunView:
        if is_listed and len(self.listed) < _MOST_TASKS:
            self.listed.append(one)
        return one


class Undoable(msgspec.Struct, frozen=True):
    """A compensation that is registered: the step it undoes, its first task, and the iteration it is about."""

    step: str
    task: str
    path: tuple[int, ...] = ()


class SideRunOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Why something runs beside the tokens. `kind`: compensation | handler | async | hook. `owner` is the step run it
    belongs to, `event` what a handler handles or the phase of a hook, `path` the iteration that is undone."""

    kind: str
    owner: str | None = None
    event: str | None = None
    path: tuple[int, ...] = ()


class StepRunView(msgspec.Struct, kw_only=True):
    """A step run, or with an `origin` something that runs beside the tokens. `status`: scheduled | running | waiting |
    done | failed | cancelled, of side runs also pending and unknown. It waits since `waiting_at`; `waits_for` are the
    events that say for what."""

    step: str
    scheduled_at: float
    step_run_id: str | None = None
    status: str = "scheduled"
    started_at: float | None = None
    waiting_at: float | None = None
    finished_at: float | None = None
    waits_for: list[Awaited | CaseWaiting] = []
    worker_id: str | None = None
    error: Error | None = None
    pipeline: PipelineView = msgspec.field(default_factory=PipelineView)
    loop: LoopProgress | None = None
    origin: SideRunOrigin | None = None

    @property
    def active_since(self) -> float:
        return self.scheduled_at if self.started_at is None else self.started_at

    def elapsed_s(self, now: float) -> float:
        return max(0.0, now - self.active_since)

    def end(self, status: str, at: float, error: Error | None = None) -> None:
        self.status, self.finished_at, self.error = status, at, error

    # events of the step run itself, each with its time

    def start(self, at: float, payload: StepStarted | OrderClaimed) -> None:
        self.status, self.worker_id = "running", payload.worker_id
        self.started_at = at if self.started_at is None else self.started_at

    def wait(self, at: float, payload: Awaited | CaseWaiting) -> None:
        """A step without tools is decided in place and has started then; its pipeline's end was not its own."""
        self.started_at = at if self.started_at is None else self.started_at
        self.waiting_at = at if self.waiting_at is None else self.waiting_at
        self.finished_at, self.status = None, "waiting"
        self.waits_for.append(payload)

    def go_on(self, _: float, __: CaseHeard) -> None:
        self.status, self.waiting_at, self.waits_for = "running", None, []

    def start_task(self, at: float, payload: TaskStarted) -> None:
        self.pipeline.start(payload, at, is_listed=not payload.path or self.origin is not None)

    def end_task(self, at: float, payload: TaskProcessed) -> None:
        self.pipeline.end(payload, at, is_listed=not payload.path or self.origin is not None)

    def repeat_task(self, at: float, payload: RetryStarted) -> None:
        last_error = self.pipeline.last_error
        self.pipeline.repeat(TaskRetry(payload.task, payload.count, at + payload.delay_s, last_error))

    def start_loop(self, at: float, payload: LoopStarted) -> None:
        self.loop = self.loop or LoopProgress()
        self.loop.open(len(payload.path), payload.total, at)

    def keep_iterations(self, at: float, payload: LoopKept) -> None:
        if self.loop is not None:
            self.loop.keep(len(payload.path), len(payload.indices))

    def end_iteration(self, at: float, payload: IterationDone | IterationFailed) -> None:
        if self.loop is not None and len(payload.path) <= len(self.loop.levels):
            self.loop.count(payload, at)


class Held(msgspec.Struct, frozen=True):
    """A token that waits before its step: at a join, for a change of `ctx`, or for a free slot; or a step run that
    waits for a time or an external event, which is then in `awaited`."""

    step: str
    reason: str
    since: float
    awaited: Awaited | None = None


class Failure(msgspec.Struct, frozen=True):
    """The failure of the execution; the step is None for a refused request."""

    error: Error
    step: str | None = None
    task: str | None = None
