"""Execution: the state of one run, derived from its event log (EVT-07).

Only `evolve` changes it, in place, so that an event costs the same however long the log is. The tokens are the marking
of the net: an execution is open while it has a token. `agenda` lists what the engine must do next.
"""

from __future__ import annotations

from enum import StrEnum
from heapq import heapify, heappop, heappush
from typing import Any

import msgspec

from noetl.engine.held_tokens import Fork, Pace, Slot, StepLimits
from noetl.engine.loops.state import LoopRun, Range
from noetl.engine.side_runs.state import PendingHandler, Saga, SideRun
from noetl.engine.waits.state import OpenHumanTask, Wait, WaitKind
from noetl.events.executions import Final, KeptIterations
from noetl.events.loops import FailedIterations, LoopDone
from noetl.events.orders import Position
from noetl.events.outcomes import Error, TaskResult
from noetl.events.v2_case_positions import OwnEvent, Taken

_SLACK = 16  # a heap with fewer outdated entries than this is not worth a clean-up


class DueTime(StrEnum):
    """The thing that happens at a due time. The comments name the id that is its key."""

    WAIT = "wait"  # a timer, or the timeout of a message, by its wait
    DUE = "due"  # a human task passes its due date
    ESCALATE = "escalate"  # a human task goes to another user or role
    TIMEOUT = "timeout"  # the `timeout` of a step, by its run
    LIFETIME = "lifetime"  # of a step run that waits (O-21)
    RELEASE = "release"  # a token is held until then
    LATE = "late"  # the execution has taken longer than expected, by that duration


Entry = tuple[float, int, DueTime, str]


class DueTimes(msgspec.Struct, kw_only=True):
    """The due times of one execution, as a heap with lazy deletion."""

    # The valid entries: time and number of each. The numbers order entries of the same time by when they were set.
    due: dict[tuple[DueTime, str], tuple[float, int]] = {}
    # May also hold entries that were cancelled or replaced. Its top is always valid, so that `nearest` is O(1).
    heap: list[Entry] = []
    count: int = 0

    @property
    def nearest(self) -> Entry | None:
        return self.heap[0] if self.heap else None

    def set(self, alarm: DueTime, key: str, moment: float) -> None:
        self.count += 1
        self.due[alarm, key] = (moment, self.count)
        heappush(self.heap, (moment, self.count, alarm, key))
        self._clean()

    def cancel(self, alarm: DueTime, key: str) -> None:
        if self.due.pop((alarm, key), None) is not None:
            self._clean()

    def _clean(self) -> None:
        # Rebuild only when more than half of the heap is outdated: that is a constant cost per change, amortised.
        if len(self.heap) > 2 * len(self.due) + _SLACK:
            self.heap = [entry for entry in self.heap if self._is_valid(entry)]
            heapify(self.heap)
        while self.heap and not self._is_valid(self.heap[0]):
            heappop(self.heap)

    def _is_valid(self, entry: Entry) -> bool:
        moment, count, alarm, key = entry
        return self.due.get((alarm, key)) == (moment, count)


def late_key(after_s: float) -> str:
    """The key of an expected duration among the due times."""
    return repr(float(after_s))


class Boundary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The event on which a step's arcs are evaluated; also the event that produced a token."""

    name: str  # step.done, step.failed, loop.done, message.received, …
    step: str
    event_id: str
    result: TaskResult | None = None
    error: Error | None = None
    loop: LoopDone | None = None
    data: Any = msgspec.UNSET  # the data of the wait that ended; None is a value that a message may have


class Token(msgspec.Struct, kw_only=True):
    """A token that has not been consumed."""

    token_id: str
    step: str
    args: dict[str, Any]
    event_id: str  # of its `token.created`
    source: Boundary | None = None  # the event that produced it; None for the first token
    fork: str | None = None  # its innermost group, whose tokens meet at joins
    inputs: list[dict[str, Any]] = []  # the tokens it was joined from, as `token.inputs` lists them
    failure: Error | None = None  # why its join could not fill (O-01)
    priority: int = 0
    partition: str | None = None
    held: str | None = None  # what it waits for: join, delay, rate, park, …; None: it may be admitted
    slot: str | None = None  # the slot it queues for or is called to
    slots: tuple[str, ...] = ()  # the slots that its run holds
    pace: str | None = None  # the rate that has given it a start time
    not_before: float = 0.0  # the end of its delay, where a compensation holds it first

    def as_input(self) -> dict[str, Any]:
        """As `token.inputs` lists it."""
        return {"from": self.source.step if self.source else None, "args": self.args}


class StepToken(msgspec.Struct, frozen=True, kw_only=True):
    """The token of a step run, as templates of the step read it. Side runs of a step have that of their owner."""

    token_id: str  # empty for a compensation: the token of its step may be gone
    args: dict[str, Any]  # read by templates as `args`
    meta: dict[str, Any]  # read by templates as `token.meta`; set by admission


class StepProgress(msgspec.Struct, kw_only=True):
    """How far the tasks of a step run are. Each iteration of a loop has its own progress (`OpenIteration`)."""

    position: Position  # the task that is next, or runs
    in_task: bool = False  # the task at `position` has been started and not processed
    task_starts: int = 0  # how often it was: more than once after a lease was lost
    task_events: tuple[str, ...] = ()  # keys of the entries that its worker has reported of that task
    children: tuple[str, ...] = ()  # nested executions that can be compensated (design.md §8)


class StepLease(msgspec.Struct, kw_only=True):
    """The lease of a step run without a loop. Each range of a loop has its own lease (`Range`)."""

    order_id: str | None = None  # None: decided in the server
    worker_id: str | None = None  # None: no worker has claimed it
    lease_epoch: int = 0  # raised by each claim; a report with an earlier one is refused
    pool: str | None = None  # which workers may claim it


class StepTiming(msgspec.Struct, kw_only=True):
    """When a step run began, and the limits of its duration."""

    started_at: float | None = None  # when its first task began
    timeout_s: float | None = None  # of the whole step run, from its start
    deadline_s: float | None = None  # from the start of the execution
    boundary_s: float | None = None  # of the step's `timeout` block, which the server watches


class StepWaits(msgspec.Struct, kw_only=True):
    """The wait blocks of a step run."""

    armed: bool = False  # its wait blocks have been armed
    # Wait ids by kind. The end of a plain pipeline is routed only when one of its waits has ended.
    open: dict[WaitKind, str] = {}


class StepTraits(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a step that `evolve` needs. It has no plan, so the first event of the run carries them."""

    bare: bool = False  # the step has no task to run
    keeps_tasks: bool = False  # a template reads the results of its tasks through the step (TPL-07)


class DialectState(msgspec.Struct, kw_only=True):
    """State that only step runs of an older dialect use."""

    # v2-case
    taken: tuple[Taken, ...] = ()  # the transitions that rules took
    heard: tuple[OwnEvent, ...] = ()  # events kept for rules that listen, until their worker is done
    # v2-eval
    vars: dict[str, Any] = {}  # the `vars` of this step run (V2E-05)
    shared_vars: dict[str, list[tuple[tuple[int, ...], Any]]] = {}  # by path of the iteration (V2E-07)


class StepRun(msgspec.Struct, kw_only=True):
    """One visit of a step by a token, or a side run, which consumes no token."""

    step_run_id: str
    step: str
    event_id: str  # of the event that began it, such as its `step.scheduled`
    token: StepToken
    progress: StepProgress
    lease: StepLease = msgspec.field(default_factory=StepLease)
    timing: StepTiming = msgspec.field(default_factory=StepTiming)
    step_waits: StepWaits = msgspec.field(default_factory=StepWaits)
    loop: LoopRun | None = None  # the orders and positions of a looped step run
    ended: Boundary | None = None  # set from its end until its arcs have fired
    side_run: SideRun | None = None  # its purpose, if it runs beside the tokens
    ctx: dict[str, Any] | None = None  # of a side run: the captured `ctx` with its own writes
    traits: StepTraits = StepTraits()
    dialect: DialectState = msgspec.field(default_factory=DialectState)


# The epoch of an order that was closed before it ended. No lease has it, so no report counts as a repetition of it.
WITHDRAWN = -1


class Due(StrEnum):
    """The next action of the engine on a token or a step run."""

    ADMIT = "admit"  # a token waits at its step
    RUN = "run"  # a step run is decided in the server
    LOOP = "loop"  # a loop has iterations to hand out, or has ended
    HEAR = "hear"  # a step run waits, and events are kept for it
    ARM = "arm"  # a case run has reached its wait blocks
    ROUTE = "route"  # a step run has ended
    HANDLE = "handle"  # an event has come that a handler of a step run waits for
    COMPENSATE = "compensate"  # something is to be undone
    ENQUEUE = "enqueue"  # a token has waited until everything was undone


class ExecutionOrigin(msgspec.Struct, kw_only=True):
    """How the execution was started. Its first events set it; nothing changes it later."""

    path: str = ""
    version: str | None = None
    net_hash: str = ""
    request: dict[str, Any] = {}  # the payload of the request
    workload: dict[str, Any] = {}
    started_at: float | None = None
    parent_execution_id: str | None = None  # of a nested execution
    parent_step_run_id: str | None = None
    depth: int = 0  # how many parents are above it
    compensates: str | None = None  # the execution that this one undoes


class ExecutionLifecycle(msgspec.Struct, kw_only=True):
    """Whether the execution runs, and how it ended."""

    paused: bool = False
    late: bool = False  # it has taken longer than was expected
    cancelled: str | None = None  # the reason, once it was cancelled
    error: Error | None = None
    failed_step: str | None = None  # the step that `error` came from, where it came from one
    status: Final | None = None  # None while it is open
    finished_at: float | None = None

    @property
    def state(self) -> str:
        """As lists of executions show it."""
        if self.status is not None:
            return self.status.value
        return "paused" if self.paused else "running"


class LogPosition(msgspec.Struct, kw_only=True):
    """The last event that was applied. It is ahead of the stored log while a batch is being decided."""

    seq: int = 0
    last_event_id: str | None = None


class Variables(msgspec.Struct, kw_only=True):
    """The variables of an execution. Side runs and parallel iterations may have a copy of their own."""

    ctx: dict[str, Any] = {}  # templates read it, recorded patches change it
    written_by: dict[str, str] = {}  # the event that last wrote a key of `ctx`

    def writers_of(self, patch: dict[str, Any]) -> dict[str, str]:
        """The events that last wrote the keys of `patch`, so that a reader of the log can follow a value back
        (SCOPE-07)."""
        return {key: self.written_by[key] for key in patch if key in self.written_by}


class ExecutionCounts(msgspec.Struct, kw_only=True):
    """Counts that limits and lists need. Only the log knows them otherwise: a step run leaves the state at its end."""

    step_runs: int = 0  # compared with `max_step_runs`
    step_runs_by_step: dict[str, int] = {}  # compared with `quotas.max_runs` of the step
    failed_iterations: FailedIterations = msgspec.field(default_factory=FailedIterations)  # for lists of executions


class OrderStates(msgspec.Struct, kw_only=True):
    """Open orders, and the facts about closed ones that are needed to refuse late reports."""

    open: dict[str, str] = {}  # order to step run
    closed: dict[str, int] = {}  # the epoch under which an order ended: a report with that epoch is a repetition
    refused: set[tuple[str, int, str]] = set()  # order, epoch and worker of reports that the log has as refused


class Outputs(msgspec.Struct, kw_only=True):
    """Results of steps, for templates and for the result of the execution."""

    results: dict[str, TaskResult] = {}  # of the latest run of each step
    ends: dict[str, TaskResult] = {}  # of steps at which a token ended: the result of the execution
    kept_iterations: KeptIterations | None = None  # of a rerun, until their loop begins


class HeldTokens(msgspec.Struct, kw_only=True):
    """Where tokens are held, and why."""

    forks: dict[str, Fork] = {}  # groups whose tokens meet at joins (O-01)
    blocked: dict[str, int] = {}  # by join: how many groups keep others from meeting there
    parked: dict[str, None] = {}  # tokens whose admission was denied until `ctx` changes
    slots: dict[str, Slot] = {}  # places under a limit of concurrency
    limits: dict[str, StepLimits] = {}  # limits that an operator has set, by step
    delayed: dict[str, None] = {}  # tokens held until a due time
    paces: dict[str, Pace] = {}  # the start times under each rate
    deduped: dict[str, float] = {}  # when each key of an arc was last enqueued


class WaitStates(msgspec.Struct, kw_only=True):
    """The things that the execution waits for: time, messages, signals, people and events of other steps."""

    due_times: DueTimes = msgspec.field(default_factory=DueTimes)
    waits: dict[str, Wait] = {}
    # How many of these wait for a person, a message and a signal; counted along, since every commit asks.
    people: int = 0
    messages: int = 0
    signals: int = 0
    # Ended tasks stay here: the answer to a late completion is "already completed" instead of "no such task".
    human_tasks: dict[str, OpenHumanTask] = {}
    listeners: dict[str, None] = {}  # step runs whose rules see events of other steps (V2C-13)
    known_keys: dict[str, None] = {}  # ids of messages, signals and injected events, so that each counts once


class SideWork(msgspec.Struct, kw_only=True):
    """Side runs: work that runs next to the tokens."""

    step_runs: dict[str, None] = {}  # ids of the step runs without a token
    handlers: dict[str, tuple[str, ...]] = {}  # by step run: the events that its handlers wait for
    pending_handlers: dict[str, PendingHandler] = {}  # events that came for them
    saga: Saga | None = None  # None until a step has registered a compensation


class Execution(msgspec.Struct, kw_only=True):
    """State after the event that `log` names."""

    execution_id: str
    trace_id: str
    log: LogPosition = msgspec.field(default_factory=LogPosition)
    origin: ExecutionOrigin = msgspec.field(default_factory=ExecutionOrigin)
    lifecycle: ExecutionLifecycle = msgspec.field(default_factory=ExecutionLifecycle)
    variables: Variables = msgspec.field(default_factory=Variables)
    # Tokens and runs in the net, by id. They are removed when they end.
    tokens: dict[str, Token] = {}
    runs: dict[str, StepRun] = {}
    counts: ExecutionCounts = msgspec.field(default_factory=ExecutionCounts)
    # The engine's own work list, by token or step run, in the order in which things came due. It is part of the state,
    # so that a server that loads the execution from its log continues at the same point.
    agenda: dict[str, Due] = {}
    order_states: OrderStates = msgspec.field(default_factory=OrderStates)
    outputs: Outputs = msgspec.field(default_factory=Outputs)
    held: HeldTokens = msgspec.field(default_factory=HeldTokens)
    open_waits: WaitStates = msgspec.field(default_factory=WaitStates)
    side_work: SideWork = msgspec.field(default_factory=SideWork)

    @property
    def is_open(self) -> bool:
        return self.lifecycle.status is None

    @property
    def failure(self) -> Error | None:
        """The error that the execution fails with: its own, or that of a compensation."""
        saga = self.side_work.saga
        return self.lifecycle.error or (saga.error if saga is not None else None)

    @property
    def holds(self) -> bool:
        """Whether it is open and paused, so that only a person or a parent can move it."""
        return self.lifecycle.paused and self.is_open

    @property
    def wake_at(self) -> float | None:
        """The next due time; None while it is paused, since no timer fires then (O-16)."""
        due = self.open_waits.due_times.heap
        return due[0][0] if due and self.is_open and not self.lifecycle.paused else None

    def run_of(self, order_id: str) -> StepRun | None:
        step_run_id = self.order_states.open.get(order_id)
        return self.runs[step_run_id] if step_run_id is not None else None

    def lease_of(self, order_id: str) -> StepLease | Range | None:
        """The lease of an open order: that of its step run, or of a range of its loop."""
        return lease_under(self.run_of(order_id), order_id)


def lease_under(run: StepRun | None, order_id: str) -> StepLease | Range | None:
    """The lease of an open order of `run`."""
    if run is None:
        return None
    return run.lease if run.loop is None else run.loop.ranges[order_id]
