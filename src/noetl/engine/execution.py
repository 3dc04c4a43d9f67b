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
from noetl.events.cases import OwnEvent, Taken
from noetl.events.executions import Final
from noetl.events.loops import LoopDone
from noetl.events.outcomes import Error, TaskResult
from noetl.events.position import Position
from noetl.events.rerun_state import KeptIterations


class Boundary(msgspec.Struct, frozen=True, kw_only=True):
    """The event on which a step's arcs are evaluated; also the event that produced a token. `data` is what a wait that
    ended came with."""

    name: str
    step: str
    event_id: str
    result: TaskResult | None = None
    error: Error | None = None
    loop: LoopDone | None = None
    data: Any = msgspec.UNSET


class Token(msgspec.Struct, kw_only=True):
    """A token that has not been consumed; `event_id` is its `token.created`. `fork` is its innermost group, `inputs`
    those it was joined from, `failure` why its join could not fill (O-01). `held` says what it waits for, `slot` the
    one it queues for or is called to, `slots` those its run holds. `pace` is the rate under which its moment has
    been given to it; `not_before` is the end of its delay, where something else holds it first."""

    token_id: str
    step: str
    args: dict[str, Any]
    event_id: str
    source: Boundary | None = None
    fork: str | None = None
    inputs: list[dict[str, Any]] = []
    failure: Error | None = None
    priority: int = 0
    partition: str | None = None
    held: str | None = None
    slot: str | None = None
    slots: tuple[str, ...] = ()
    pace: str | None = None
    not_before: float = 0.0

    def as_input(self) -> dict[str, Any]:
        """As `token.inputs` lists it."""
        return {"from": self.source.step if self.source else None, "args": self.args}


class StepRun(msgspec.Struct, kw_only=True):
    """One consumption of a token. `order_id` None: decided in the server. `in_task`: its task has been started and not
    processed; `told` are the events that its worker has told of that task. `ended` is set until its arcs are settled. A
    looped step run has its orders and positions in `loop`. `vars` and `shared`, with the path of who contributed, are
    of v2-eval (V2E-05, V2E-07). `taken` are the transitions that rules of v2-case took; `heard` are events kept for
    rules that listen until their worker is done. `armed`: its wait blocks have been armed; `waits` are those still
    open, by their kind; a plain pipeline's `ended` is then its `step.done`, until one of them ends it. An
    `side_run` runs
    beside the tokens and consumes none; `ctx` is then the one it had captured, with what it has written since, where it
    has one of its own. `children` are nested executions that can be compensated (design.md §8). `bare`: its step has no
    task to run. `keeps_tasks`: a template reads the results of its tasks through the step (TPL-07)."""

    step_run_id: str
    token_id: str
    step: str
    args: dict[str, Any]
    token_meta: dict[str, Any]
    event_id: str
    position: Position
    order_id: str | None = None
    worker_id: str | None = None
    lease_epoch: int = 0
    in_task: bool = False
    told: tuple[str, ...] = ()
    started_at: float | None = None
    timeout_s: float | None = None
    deadline_s: float | None = None
    boundary_s: float | None = None
    pool: str | None = None
    ended: Boundary | None = None
    loop: LoopRun | None = None
    taken: tuple[Taken, ...] = ()
    heard: tuple[OwnEvent, ...] = ()
    armed: bool = False
    waits: dict[WaitKind, str] = {}
    side_run: SideRun | None = None
    ctx: dict[str, Any] | None = None
    children: tuple[str, ...] = ()
    bare: bool = False
    keeps_tasks: bool = False
    vars: dict[str, Any] = {}
    shared: dict[str, list[tuple[tuple[int, ...], Any]]] = {}


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


class Execution(msgspec.Struct, kw_only=True):
    """State after event `seq`. `agenda` maps token and step run ids to what is due, in the order it came due.

    `orders` leads from an open order to its step run; `closed` keeps the epoch under which an order ended, to tell
    a repeated report from a fenced one (WITHDRAWN: nobody wants it any more). `written_by` names the event that last
    wrote a key of `ctx` (SCOPE-07). `forks`, `parked`, `slots` and `blocked` say where tokens are held: `blocked`
    counts, by join, the groups that keep others from meeting there. `limits` are those set by an
    operator. `runs_of` counts the runs of each step, `deduped` has the moment each key of an arc was last enqueued.
    `listeners` are step runs whose rules see events of others (V2C-13). `waits` are the open ones, `tasks` all human
    tasks there have been, `delayed` the tokens held until a moment, `paces` the moments given under each rate. `known`
    are the keys of what came from outside. `refused` are the reports that were kept as refused: order, epoch, worker.
    `side_runs` are the step runs without a token, `handling` those with handlers and the events these wait for,
    `summons` the events that came for them; `saga` is there once something can be undone.
    """

    execution_id: str
    trace_id: str
    seq: int = 0
    last_event_id: str | None = None
    path: str = ""
    version: str | None = None
    net_hash: str = ""
    request: dict[str, Any] = {}
    started_at: float | None = None
    workload: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    written_by: dict[str, str] = {}
    tokens: dict[str, Token] = {}
    runs: dict[str, StepRun] = {}
    agenda: dict[str, Due] = {}
    orders: dict[str, str] = {}
    closed: dict[str, int] = {}
    results: dict[str, TaskResult] = {}
    kept: KeptIterations | None = None  # until the loop that they are of begins
    ends: dict[str, TaskResult] = {}
    step_runs: int = 0
    runs_of: dict[str, int] = {}
    forks: dict[str, Fork] = {}
    parked: dict[str, None] = {}
    listeners: dict[str, None] = {}
    slots: dict[str, Slot] = {}
    limits: dict[str, StepLimits] = {}
    blocked: dict[str, int] = {}
    deduped: dict[str, float] = {}
    alarms: DueTimes = msgspec.field(default_factory=DueTimes)
    waits: dict[str, Wait] = {}
    tasks: dict[str, OpenHumanTask] = {}
    delayed: dict[str, None] = {}
    paces: dict[str, Pace] = {}
    known: dict[str, None] = {}
    refused: set[tuple[str, int, str]] = set()
    side_runs: dict[str, None] = {}
    handling: dict[str, tuple[str, ...]] = {}
    summons: dict[str, PendingHandler] = {}
    saga: Saga | None = None
    parent_execution_id: str | None = None
    parent_step_run_id: str | None = None
    depth: int = 0
    compensates: str | None = None
    paused: bool = False
    cancelled: str | None = None
    error: Error | None = None
    status: Final | None = None
    finished_at: float | None = None

    @property
    def is_open(self) -> bool:
        return self.status is None

    @property
    def holds(self) -> bool:
        """Whether it is paused, and waits for somebody outside."""
        return self.paused and self.is_open

    @property
    def wake_at(self) -> float | None:
        """The next moment at which time alone moves it; none while it is paused (O-16)."""
        if self.paused or self.status is not None or not self.alarms.heap:
            return None
        return self.alarms.heap[0][0]

    def run_of(self, order_id: str) -> StepRun | None:
        step_run_id = self.orders.get(order_id)
        return self.runs[step_run_id] if step_run_id is not None else None

    def lease_of(self, order_id: str) -> StepRun | Range | None:
        """Who holds an open order, under which epoch: the step run itself, or a range of its loop."""
        run = self.run_of(order_id)
        return run.loop.ranges[order_id] if run is not None and run.loop is not None else run
