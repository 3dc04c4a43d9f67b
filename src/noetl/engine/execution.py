"""Execution: the state of one run, as its log tells it (EVT-07).

`evolve` alone changes it, in place, so that an event costs the same however long the history is. The marking is the
truth: an execution is open while it holds a token, and what must happen next stands in `agenda`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from noetl.engine.due_times import DueTimes
from noetl.engine.held_tokens import Fork, Pace, Slot, StepLimits
from noetl.engine.loops.state import LoopRun, Range
from noetl.engine.side_runs.state import PendingHandler, Saga, SideRun
from noetl.engine.waits.state import OpenHumanTask, Wait, WaitKind
from noetl.events.executions import Final, KeptIterations
from noetl.events.loops import LoopDone
from noetl.events.orders import Position
from noetl.events.outcomes import Error, TaskResult
from noetl.events.v2_case_positions import OwnEvent, Taken


class Boundary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The event on which a step's arcs are evaluated; also the event that produced a token."""

    name: str  # step.done, step.failed, loop.done, message.received, …
    step: str
    event_id: str
    result: TaskResult | None = None
    error: Error | None = None
    loop: LoopDone | None = None
    data: Any = msgspec.UNSET  # what a wait that ended came with; None is a value, so "nothing" is UNSET


class Token(msgspec.Struct, kw_only=True):
    """A token that has not been consumed."""

    token_id: str
    step: str
    args: dict[str, Any]
    event_id: str  # of its `token.created`
    source: Boundary | None = None  # the event that produced it; None for the first token
    fork: str | None = None  # its innermost group, whose tokens meet at joins
    inputs: list[dict[str, Any]] = []  # those it was joined from, as `token.inputs` lists them
    failure: Error | None = None  # why its join could not fill (O-01)
    priority: int = 0
    partition: str | None = None
    held: str | None = None  # what it waits for: join, delay, rate, park, …; None: it may be admitted
    slot: str | None = None  # the one it queues for or is called to
    slots: tuple[str, ...] = ()  # those that its run holds
    pace: str | None = None  # the rate under which its moment has been given to it
    not_before: float = 0.0  # the end of its delay, where something else holds it first

    def as_input(self) -> dict[str, Any]:
        """As `token.inputs` lists it."""
        return {"from": self.source.step if self.source else None, "args": self.args}


class StepLease(msgspec.Struct, kw_only=True):
    """Who runs a step run without a loop. The ranges of a looped one have leases of their own (`Range`)."""

    order_id: str | None = None  # None: decided in the server
    worker_id: str | None = None  # None: nobody has claimed it
    lease_epoch: int = 0  # raised by each claim; a report with an earlier one is refused
    pool: str | None = None  # which workers may claim it


class StepTiming(msgspec.Struct, kw_only=True):
    started_at: float | None = None  # when its first task began
    timeout_s: float | None = None  # of the whole step run, from its start
    deadline_s: float | None = None  # of the execution, as it was left when the step was scheduled
    boundary_s: float | None = None  # of the timeout that the server watches


class StepWaits(msgspec.Struct, kw_only=True):
    armed: bool = False  # its wait blocks have been armed
    open: dict[WaitKind, str] = {}  # wait ids by their kind; a plain pipeline's `ended` waits until one of them ends it


class CaseProgress(msgspec.Struct, kw_only=True):
    """What only rules of v2-case use."""

    taken: tuple[Taken, ...] = ()  # the transitions that rules took
    heard: tuple[OwnEvent, ...] = ()  # events kept for rules that listen, until their worker is done


class SharedVars(msgspec.Struct, kw_only=True):
    """What only v2-eval uses."""

    own: dict[str, Any] = {}  # the `vars` of this step run (V2E-05)
    shared: dict[str, list[tuple[tuple[int, ...], Any]]] = {}  # by path of the iteration (V2E-07)


class StepRun(msgspec.Struct, kw_only=True):
    """One consumption of a token, or a side run, which consumes none."""

    step_run_id: str
    token_id: str
    step: str
    args: dict[str, Any]
    token_meta: dict[str, Any]
    event_id: str  # of its `step.scheduled`
    position: Position  # the task that is next, or runs
    lease: StepLease = msgspec.field(default_factory=StepLease)
    timing: StepTiming = msgspec.field(default_factory=StepTiming)
    in_task: bool = False  # the task at `position` has been started and not processed
    task_events: tuple[str, ...] = ()  # marks of what its worker has reported of that task
    ended: Boundary | None = None  # set until its arcs are settled
    loop: LoopRun | None = None  # a looped step run has its orders and positions there
    step_waits: StepWaits = msgspec.field(default_factory=StepWaits)
    side_run: SideRun | None = None  # it runs beside the tokens
    ctx: dict[str, Any] | None = None  # of a side run: the one it captured, with what it has written since
    children: tuple[str, ...] = ()  # nested executions that can be compensated (design.md §8)
    bare: bool = False  # its step has no task to run
    keeps_tasks: bool = False  # a template reads the results of its tasks through the step (TPL-07)
    case: CaseProgress = msgspec.field(default_factory=CaseProgress)
    eval_vars: SharedVars = msgspec.field(default_factory=SharedVars)


WITHDRAWN = -1  # the epoch of an order that was closed before it ended


class Due(StrEnum):
    """What the state itself asks for next."""

    ADMIT = "admit"  # a token waits at its step
    RUN = "run"  # a step run is decided in the server
    LOOP = "loop"  # a loop has iterations to hand out, or has ended
    HEAR = "hear"  # a step run waits, and events are kept for it
    ARM = "arm"  # a case run has come to its wait blocks
    ROUTE = "route"  # a step run has ended
    HANDLE = "handle"  # an event has come that a handler of a step run waits for
    COMPENSATE = "compensate"  # something is to be undone
    ENQUEUE = "enqueue"  # a token has waited until everything was undone


class ExecutionOrigin(msgspec.Struct, kw_only=True):
    """What the execution was started as. Its first events set it; nothing changes it later."""

    path: str = ""
    version: str | None = None
    net_hash: str = ""
    request: dict[str, Any] = {}  # who asked, and what for
    workload: dict[str, Any] = {}
    started_at: float | None = None
    parent_execution_id: str | None = None  # of a nested execution
    parent_step_run_id: str | None = None
    depth: int = 0  # how many parents are above it
    compensates: str | None = None  # the execution that this one undoes


class ExecutionLifecycle(msgspec.Struct, kw_only=True):
    """Whether it goes on, and how it ended."""

    paused: bool = False
    cancelled: str | None = None  # the reason, once somebody has cancelled it
    error: Error | None = None
    status: Final | None = None  # None while it is open
    finished_at: float | None = None

    @property
    def state(self) -> str:
        """As lists of executions show it."""
        if self.status is not None:
            return self.status.value
        return "paused" if self.paused else "running"


class OrderStates(msgspec.Struct, kw_only=True):
    """Open orders, and what must be known of closed ones to refuse late reports."""

    open: dict[str, str] = {}  # order to step run
    closed: dict[str, int] = {}  # the epoch under which an order ended: a report with it is a repeated one
    refused: set[tuple[str, int, str]] = set()  # order, epoch and worker of reports that were kept as refused


class Outputs(msgspec.Struct, kw_only=True):
    results: dict[str, TaskResult] = {}  # what templates read: by step, and by task where one is read
    ends: dict[str, TaskResult] = {}  # of steps that nothing follows: the result of the execution
    kept_iterations: KeptIterations | None = None  # of a rerun, until the loop that they are of begins


class HeldTokens(msgspec.Struct, kw_only=True):
    """Where tokens are held, and by what."""

    forks: dict[str, Fork] = {}  # groups whose tokens meet at joins (O-01)
    blocked: dict[str, int] = {}  # by join: how many groups keep others from meeting there
    parked: dict[str, None] = {}  # tokens whose admission was denied until `ctx` changes
    slots: dict[str, Slot] = {}  # places under a limit of concurrency
    limits: dict[str, StepLimits] = {}  # those set by an operator
    delayed: dict[str, None] = {}  # tokens held until a moment
    paces: dict[str, Pace] = {}  # the moments given under each rate
    deduped: dict[str, float] = {}  # when each key of an arc was last enqueued


class WaitStates(msgspec.Struct, kw_only=True):
    """What must come from outside, or with time."""

    due_times: DueTimes = msgspec.field(default_factory=DueTimes)
    waits: dict[str, Wait] = {}
    human_tasks: dict[str, OpenHumanTask] = {}  # all there have been, so that a late answer is told from a wrong one
    listeners: dict[str, None] = {}  # step runs whose rules see events of others (V2C-13)
    known_keys: dict[str, None] = {}  # of what came from outside, so that it counts once


class SideWork(msgspec.Struct, kw_only=True):
    """What runs beside the tokens."""

    step_runs: dict[str, None] = {}  # those without a token
    handlers: dict[str, tuple[str, ...]] = {}  # by step run: the events that its handlers wait for
    pending_handlers: dict[str, PendingHandler] = {}  # events that came for them
    saga: Saga | None = None  # there once something can be undone


class Execution(msgspec.Struct, kw_only=True):
    """State after event `seq`."""

    execution_id: str
    trace_id: str
    seq: int = 0
    last_event_id: str | None = None
    origin: ExecutionOrigin = msgspec.field(default_factory=ExecutionOrigin)
    lifecycle: ExecutionLifecycle = msgspec.field(default_factory=ExecutionLifecycle)
    ctx: dict[str, Any] = {}
    written_by: dict[str, str] = {}  # the event that last wrote a key of `ctx` (SCOPE-07)
    tokens: dict[str, Token] = {}
    runs: dict[str, StepRun] = {}
    # Against `max_step_runs`; never less than the runs there were, since runs leave `runs` when they are over.
    step_run_count: int = 0
    runs_by_step: dict[str, int] = {}
    # The engine's own to-do list. It is part of the state, so that a restart goes on with the same thing.
    agenda: dict[str, Due] = {}  # what is due, by token or step run, in the order it came due
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
        """Why it fails: its own error, or the one that made it undo what it had done."""
        saga = self.side_work.saga
        return self.lifecycle.error or (saga.error if saga is not None else None)

    @property
    def holds(self) -> bool:
        """Whether it is paused, and waits for somebody outside."""
        return self.lifecycle.paused and self.is_open

    @property
    def wake_at(self) -> float | None:
        """The next moment at which time alone moves it; none while it is paused (O-16)."""
        due = self.open_waits.due_times.heap
        return due[0][0] if due and self.is_open and not self.lifecycle.paused else None

    def run_of(self, order_id: str) -> StepRun | None:
        step_run_id = self.order_states.open.get(order_id)
        return self.runs[step_run_id] if step_run_id is not None else None

    def lease_of(self, order_id: str) -> StepLease | Range | None:
        """Who holds an open order, under which epoch: the step run itself, or a range of its loop."""
        return lease_under(self.run_of(order_id), order_id)


def lease_under(run: StepRun | None, order_id: str) -> StepLease | Range | None:
    """Who holds an open order of `run`."""
    if run is None:
        return None
    return run.lease if run.loop is None else run.loop.ranges[order_id]
