"""Orders and reports: what server and worker say to each other (design.md §3). Also calls of playbooks, live output,
and the position at which another worker goes on.

An order says "run this step run once, under this lease". A report says what happened, under the same lease. The
playbook itself does not travel with an order: a worker asks for the net by its hash and keeps it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

import msgspec

from noetl.events.loops import IterationDone, IterationFailed, IterationStarted, Path
from noetl.events.outcomes import Error, Reference, TaskResult
from noetl.events.steps import StepDone, StepFailed
from noetl.events.tasks import HookFailed, JobPlaced, KeychainRefreshed, TaskProcessed, TaskStarted
from noetl.events.v2_case_positions import CasePosition
from noetl.events.v2_case_runs import CaseStarted, CaseWaiting

Entry = (
    TaskStarted
    | TaskProcessed
    | KeychainRefreshed
    | CaseStarted
    | CaseWaiting
    | StepDone
    | StepFailed
    | IterationStarted
    | IterationDone
    | IterationFailed
    | HookFailed
    | JobPlaced
)
OutputStream = Literal["stdout", "stderr"]
MAX_BATCH_BYTES = 512 * 1024  # of one request of a worker


class Outer(msgspec.Struct, frozen=True, kw_only=True):
    """An iteration around those of an order, with its element: `iter.parent` and beyond (LOOP-06)."""

    iterator: str
    index: int
    item: Any


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """An iteration that an earlier lease began: where it stands, and what it has written to `ctx`."""

    position: Position
    interrupted: bool = False
    writes: dict[str, Any] = {}


class Iterations(msgspec.Struct, frozen=True, kw_only=True):
    """A range of iterations to be run, `slots` at a time: `first` to `last`, or `indices` where it is no plain range.

    `items` are their elements in that order; a collection that is stored apart is at `items_ref`, whole. `begun` are
    those to take up again. `hands_on`: each sees what the ones before it wrote (SCOPE-06).
    Keys of `reduced` are contributions: the iteration that writes one does not see it (LOOP-14). `extend`: what an
    iteration leaves under `iter.extend` is added to the collection.
    """

    path: Path  # of the level that they are of
    first: int
    last: int  # inclusive
    slots: int  # how many at a time
    iterator: str  # the author's name for the element
    indices: tuple[int, ...] | None = None
    items: list[Any] | None = None
    items_ref: Reference | None = None
    outer: tuple[Outer, ...] = ()  # the iterations around them, the outermost first
    begun: dict[int, Resumed] = {}  # by index, those to take up again
    fail_fast: bool = True
    hands_on: bool = False
    reduced: tuple[str, ...] = ()
    extend: bool = False


class SideRunOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline beside the tokens. `part` says which tasks of the step: "tasks", "compensation" or "handlers/0";
    `child` that a nested execution is to be compensated instead, `job_id` that a job of the step is to be cancelled.
    `names` are further ones of its templates, `result` is what they read under that name; `outer` are the iterations
    around it, its own one last. `once`: what had begun is never begun again (SAGA-03). `task_run_id`: it is this task
    run that goes on (TOOL-12)."""

    part: str
    names: dict[str, Any] = {}
    result: TaskResult | None = None
    outer: tuple[Outer, ...] = ()
    once: bool = False
    child: str | None = None
    job_id: str | None = None
    task_run_id: str | None = None


class LeaseTerms(msgspec.Struct, frozen=True, kw_only=True):
    """How long a lease lasts without a word of its holder, and how often that one should say it (WRK-03, O-33)."""

    ttl_s: float = 30.0  # a crash is noticed that late; a worker may be out of reach for as long
    heartbeat_s: float = 5.0  # five may be lost before the lease is


class Order(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One step run to be run. The scopes are as of the claim; `position` is where to begin (WRK-04).

    `interrupted`: the task there had been started under an earlier lease, and nobody knows how it ended. `expiries`
    are the moments at which the step run is over, by the kind of error it then ends with (WRK-07). `iterations`: it is
    a range of a loop that is to be run; each begins at `position` unless it has begun before. `traced`: what it does is
    told as a trace, and requests to others say which span they come from. `lease_until` is when its lease runs out, by
    the server's clock.
    """

    order_id: str
    execution_id: str
    step_run_id: str
    step: str
    net_hash: str  # the worker asks for the net by it, and keeps it
    lease_epoch: int
    trace_id: str
    # The scopes, as of the claim. `ctx` may be older than what other steps have written since.
    args: dict[str, Any]
    workload: dict[str, Any]
    ctx: dict[str, Any]
    token: dict[str, Any]
    results: dict[str, TaskResult]  # only of steps that this one can read
    position: Position
    interrupted: bool = False
    expiries: dict[str, float] = {}
    vars: dict[str, Any] = {}  # of v2-eval
    iterations: Iterations | None = None
    side_run: SideRunOrder | None = None  # it runs beside the tokens
    terms: LeaseTerms = LeaseTerms()
    traced: bool = False
    lease_until: float = 0.0  # by the server's clock; 0 where the server does not tell


class Timed(msgspec.Struct, frozen=True, gc=False):
    """An entry of a report and when the worker saw it; the server's `seq` is the only order (O-36)."""

    at: float
    entry: Entry


class Report(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """What happened to one order since the last report, in order. `surplus` names what came with it and is no part of
    any report; the door that reads it from outside fills it (SRV-04)."""

    order_id: str
    execution_id: str
    lease_epoch: int  # of the lease it was made under; the engine refuses it if that is no longer the order's
    worker_id: str
    entries: tuple[Timed, ...]  # in the order in which they happened
    # Names of what came with it and is no part of any report. The route that reads it fills this in, so that the
    # attempt is recorded as refused instead of being dropped as bad JSON (SRV-04).
    surplus: tuple[str, ...] = ()


class Turn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One call of a worker: what it has to report, and how many orders of its pools it could take. `holding`: an
    earlier answer may have been lost on its way; it knows of these orders, by their epochs, and of no others."""

    worker_id: str
    reports: tuple[Report, ...] = ()
    capacity: int = 0
    pools: tuple[str, ...] = ("default",)
    # None: it has heard every answer.
    holding: dict[str, int] | None = None


class ReportResult(StrEnum):
    """What became of a report, or of what somebody outside asked for. Only `accepted` changed anything."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"  # the log has it already: for the worker as good as accepted
    FENCED = "fenced"  # the lease is over, or another worker's
    TERMINAL = "terminal"  # the execution is over
    CANCELLED = "cancelled"  # nobody wants the order any more
    PAUSED = "paused"  # nothing new is dispatched; later it may be
    REFUSED = "refused"  # the report says what is not a worker's to say, or its execution is in quarantine
    # The rest answers people and programs, never reports.
    NOT_FOUND = "not_found"
    FORBIDDEN = "forbidden"
    CONFLICT = "conflict"  # what was seen has changed since
    INVALID = "invalid"


class TurnAnswer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One verdict per report, and the orders the worker now holds a lease on. `stopped`: by order, iterations that the
    server has ended, or the level around them: going on with them is in vain (SCOPE-05). `paused`: orders of which no
    further task may begin before their execution is resumed (SRV-07)."""

    verdicts: tuple[ReportResult, ...] = ()  # one per report, in their order
    orders: tuple[Order, ...] = ()
    stopped: dict[str, tuple[Path, ...]] = {}
    paused: tuple[str, ...] = ()


# Position: where a pipeline stands, so that another worker can go on from there (WRK-04, PIPE-01).


class Position(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """`task` is the one to run next, None at the end. `visit` counts arrivals at tasks, over the whole pipeline, so
    that visit and attempt name one task run; `runs` counts task runs against the budget (PIPE-07).
    `case` and `pages`, the responses that are collected, are of v2-case."""

    task: str | None
    visit: int = 1
    attempt: int = 1
    runs: int = 0
    not_before: float = 0.0  # the end of the delay before a retry
    iter: dict[str, Any] = {}  # what policies have set with `set_iter`
    prev: TaskResult | None = None  # `_prev` of the next task
    results: dict[str, TaskResult] = {}  # by task; of a task that ran several times, the last
    case: CasePosition | None = None
    pages: tuple[TaskResult, ...] = ()


# Calls: what a task of kind `playbook` asks of the server, and what comes back (TOOL-11, O-08).


class PlaybookCall(msgspec.Struct, frozen=True, kw_only=True):
    """Start a playbook as the child of one task run, whose holder asks under its lease. The child's identity follows
    from the task run, so whoever asks again finds the same one. Without `wait` it is only started. `compensates`: undo
    what that execution had registered, instead (design.md §8)."""

    execution_id: str
    step_run_id: str
    order_id: str
    worker_id: str
    lease_epoch: int
    task_run_id: str
    path: str
    version: str | None = None
    payload: dict[str, Any] = {}
    return_step: str | None = None
    wait: bool = True
    compensates: str | None = None


class PlaybookCallResult(msgspec.Struct, frozen=True, kw_only=True):
    """The child, and how it ended; `status` is "running" for one that was not waited for. `compensable`: it has
    registered what can be undone."""

    execution_id: str
    status: str
    data: Any = None
    error: Error | None = None
    compensable: bool = False


# What tasks print while they run, on its way from a worker to who looks. It is never stored: the log of a task run is
# in its `task.processed`, and live lines are best effort.


class OutputChunk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Lines that one task run printed, under the lease it runs under. `dropped` lines before them were left out."""

    execution_id: str
    order_id: str
    lease_epoch: int
    task: str
    task_run_id: str
    path: tuple[int, ...] = ()
    attempt: int = 1
    stream: OutputStream = "stdout"
    lines: tuple[str, ...] = ()
    dropped: int = 0


class OutputBatch(msgspec.Struct, frozen=True, kw_only=True):
    worker_id: str
    chunks: tuple[OutputChunk, ...]
