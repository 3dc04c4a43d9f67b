"""Orders and reports: what server and worker send to each other (design.md §3). Also calls of playbooks, live output,
and the position at which another worker continues.

An order says "run this step run once, under this lease". A report says what happened, under the same lease. The
playbook itself is not part of an order: a worker fetches the net by its hash and caches it.

A worker's turn that comes over a network is not trusted (SRV-04). A report has no field for a next step, or for
anything else that the server decides. A report with such a field is still read, with the names of its extra fields, so
that the engine can record it as refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from typing import Any, Literal

import msgspec

from noetl.events.loops import IterationDone, IterationFailed, IterationStarted, Path
from noetl.events.outcomes import Error, Reference, TaskResult
from noetl.events.steps import CaseStarted, CaseWaiting, StepDone, StepFailed
from noetl.events.tasks import HookFailed, JobPlaced, KeychainRefreshed, TaskProcessed, TaskStarted
from noetl.events.v2_case_positions import CasePosition

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
MAX_BATCH_BYTES = 512 * 1024  # the size limit of a request with live output
# The bounds of a turn. A server serves nobody else while it decodes, masks and decides a part of one, so a worker sends
# what is more as several turns (`smaller_turns`).
MAX_TURN_BYTES = 8 * 1024 * 1024
MAX_TURN_REPORTS = 1_000
MAX_TURN_ENTRIES = 2_000  # of all its reports


class Outer(msgspec.Struct, frozen=True, kw_only=True):
    """An outer iteration of those of an order, with its element: `iter.parent` and its parents (LOOP-06)."""

    iterator: str
    index: int
    item: Any


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """An iteration that an earlier lease began: where it stands, and what it has written to `ctx`."""

    position: Position
    interrupted: bool = False
    writes: dict[str, Any] = {}


class Iterations(msgspec.Struct, frozen=True, kw_only=True):
    """A range of iterations to run, `slots` at a time: `first` to `last`, or `indices` if they are not consecutive.

    `items` are their elements in that order; a large collection is stored as a whole at `items_ref`. `begun` are the
    iterations to resume. `hands_on`: each sees what the ones before it wrote (SCOPE-06).
    Keys of `reduced` are contributions: the iteration that writes one does not see it (LOOP-14). `extend`: the value
    that an iteration leaves under `iter.extend` is added to the collection.
    """

    path: Path  # of their loop level
    first: int
    last: int  # inclusive
    slots: int  # how many at a time
    iterator: str  # the author's name for the element
    indices: tuple[int, ...] | None = None
    items: list[Any] | None = None
    items_ref: Reference | None = None
    outer: tuple[Outer, ...] = ()  # the iterations around them, the outermost first
    begun: dict[int, Resumed] = {}  # by index, those to resume
    fail_fast: bool = True
    hands_on: bool = False
    reduced: tuple[str, ...] = ()
    extend: bool = False


class SideRunOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline beside the tokens. `part` says which tasks of the step it runs: "tasks", "compensation" or
    "handlers/0". With `child` it compensates a nested execution instead; with `job_id` it cancels a job of the step.
    `names` are further names of its templates, and `result` is their `result`. `outer` are the iterations around it,
    its own last. `once`: a task that had begun never begins again (SAGA-03). `task_run_id`: this task run continues
    (TOOL-12)."""

    part: str
    names: dict[str, Any] = {}
    result: TaskResult | None = None
    outer: tuple[Outer, ...] = ()
    once: bool = False
    child: str | None = None
    job_id: str | None = None
    task_run_id: str | None = None


class LeaseTerms(msgspec.Struct, frozen=True, kw_only=True):
    """How long a lease lasts without a heartbeat of its holder, and how often the holder should send one (WRK-03,
    O-33)."""

    ttl_s: float = 30.0  # a crash is noticed after this time; a worker may be unreachable for as long
    heartbeat_s: float = 5.0  # five may be lost before the lease expires


class Order(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One step run to execute. The scopes are as of the claim; `position` is where to begin (WRK-04).

    `interrupted`: the task there had been started under an earlier lease, and how it ended is unknown. `expiries` are
    the times at which the step run ends, by the kind of error it then ends with (WRK-07). `iterations`: the order is a
    range of a loop; each iteration begins at `position` unless it has begun before. `traced`: the worker traces the
    order, and its requests to others name their span. `lease_until` is when the lease expires, by the server's clock.
    """

    # The fields stay side by side: workers of other versions read this form.
    order_id: str
    execution_id: str
    step_run_id: str
    step: str
    net_hash: str  # the worker fetches the net by it, and caches it
    lease_epoch: int  # reports name it; the server refuses those with an earlier one
    trace_id: str
    # The scopes, as of the claim. Other steps may have written to `ctx` since.
    args: dict[str, Any]
    workload: dict[str, Any]
    ctx: dict[str, Any]
    token: dict[str, Any]
    results: dict[str, TaskResult]  # only of steps that this one can read
    position: Position  # where the pipeline begins; no earlier task runs again
    interrupted: bool = False
    expiries: dict[str, float] = {}  # times by the server's clock
    vars: dict[str, Any] = {}  # of v2-eval
    iterations: Iterations | None = None  # None: a whole step run
    side_run: SideRunOrder | None = None  # set if it runs beside the tokens
    terms: LeaseTerms = LeaseTerms()
    traced: bool = False
    lease_until: float = 0.0  # by the server's clock; 0 if the server does not say


class Timed(msgspec.Struct, frozen=True, gc=False):
    """An entry of a report and when the worker saw it; the server's `seq` is the only order (O-36)."""

    at: float
    entry: Entry


class Report(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """What happened to one order since the last report, in order. `surplus` names fields that a report does not have;
    the route that reads the report fills it in (SRV-04)."""

    order_id: str
    execution_id: str
    lease_epoch: int  # of the lease it was made under; the engine refuses the report if the order has another lease now
    worker_id: str
    entries: tuple[Timed, ...]  # in the order in which they happened
    # Names of fields that a report does not have. The route that reads the report fills this in, so that the
    # attempt is recorded as refused instead of being dropped as bad JSON (SRV-04).
    surplus: tuple[str, ...] = ()


class Turn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One call of a worker: its reports, and how many orders of its pools it could take. `holding`: an earlier answer
    may have been lost; the worker knows these orders, with their epochs, and no others."""

    worker_id: str
    reports: tuple[Report, ...] = ()
    capacity: int = 0
    pools: tuple[str, ...] = ("default",)
    # None: it has received every answer.
    holding: dict[str, int] | None = None


class ReportResult(StrEnum):
    """The result of a report, or of a request of a client. Only `accepted` changed anything."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"  # the log has it already; a worker treats it like `accepted`
    FENCED = "fenced"  # the order is under another lease now, or has ended
    TERMINAL = "terminal"  # the execution has ended
    CANCELLED = "cancelled"  # the order was withdrawn
    PAUSED = "paused"  # no new order is dispatched until the execution is resumed
    REFUSED = "refused"  # the report has fields that a worker may not set, or its execution is in quarantine
    # The rest answers requests of clients, never reports.
    NOT_FOUND = "not_found"
    FORBIDDEN = "forbidden"
    CONFLICT = "conflict"  # the state that the client has seen has changed since
    INVALID = "invalid"


class TurnAnswer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One verdict per report, and the orders on which the worker now holds a lease. `stopped`: by order, iterations or
    levels that the server has ended; the worker stops them (SCOPE-05). `paused`: orders that may begin no further task
    before their execution is resumed (SRV-07)."""

    verdicts: tuple[ReportResult, ...] = ()  # one per report, in their order
    orders: tuple[Order, ...] = ()
    stopped: dict[str, tuple[Path, ...]] = {}
    paused: tuple[str, ...] = ()


# Position: the state of a pipeline, so that another worker can continue from there (WRK-04, PIPE-01).


class Position(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """`task` is the one to run next, None at the end. `visit` counts arrivals at tasks over the whole pipeline, so that
    visit and attempt identify one task run. `runs` counts task runs against the budget (PIPE-07). `case` and `pages`
    (the collected responses) are of v2-case."""

    task: str | None
    visit: int = 1
    attempt: int = 1
    runs: int = 0
    not_before: float = 0.0  # the end of the delay before a retry
    iter: dict[str, Any] = {}  # values set by policies with `set_iter`
    prev: TaskResult | None = None  # `_prev` of the next task
    results: dict[str, TaskResult] = {}  # by task; of a task that ran several times, the last
    case: CasePosition | None = None
    pages: tuple[TaskResult, ...] = ()


# Calls: the request of a task of kind `playbook` to the server, and its result (TOOL-11, O-08).


class PlaybookCall(msgspec.Struct, frozen=True, kw_only=True):
    """Start a playbook as the child of one task run, under the lease of its holder. The child's id is derived from the
    task run, so a repeated call finds the same child. Without `wait` it is only started. `compensates`: run the
    compensations that this execution has registered, instead (design.md §8)."""

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
    """The child, and how it ended; `status` is "running" if the caller did not wait. `compensable`: it has registered
    compensations."""

    execution_id: str
    status: str
    data: Any = None
    error: Error | None = None
    compensable: bool = False


# Output of running tasks, on its way from a worker to the viewer. It is never stored: the log of a task run is in its
# `task.processed`, and live lines are best effort.


class OutputChunk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Lines that one task run printed, under its lease. `dropped` is how many lines before them were left out."""

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


def is_oversized(turn: Turn) -> bool:
    """Whether a turn has more reports or entries than a server takes."""
    reports = turn.reports
    return len(reports) > MAX_TURN_REPORTS or sum(len(report.entries) for report in reports) > MAX_TURN_ENTRIES


def smaller_turns(turn: Turn) -> tuple[Turn, ...]:
    """The same turn as two turns that follow each other; none if it has a single entry. Only the second one asks for
    orders."""
    reports = turn.reports
    if len(reports) > 1:
        middle = len(reports) // 2
        first, second = reports[:middle], reports[middle:]
    elif reports and len(reports[0].entries) > 1:
        # A report may end anywhere: the engine takes up an order where its last report left it.
        entries, middle = reports[0].entries, len(reports[0].entries) // 2
        first = (msgspec.structs.replace(reports[0], entries=entries[:middle]),)
        second = (msgspec.structs.replace(reports[0], entries=entries[middle:]),)
    else:
        return ()
    return (
        msgspec.structs.replace(turn, reports=first, capacity=0),
        msgspec.structs.replace(turn, reports=second),
    )


_FIELDS = frozenset(Report.__struct_fields__)
_turns = msgspec.json.Decoder(Turn)
_encoder = msgspec.json.Encoder()


def read_turn(body: bytes) -> Turn:
    """The turn in `body`. Raises msgspec.DecodeError if it is not a turn.

    A body that equals its own encoding has no extra fields, so the turn of an honest worker is decoded once, in 15 µs
    instead of 125.
    """
    # If it is invalid, or has more fields than a turn, `_read_warily` says which.
    with suppress(msgspec.ValidationError):
        turn = _turns.decode(body)
        if _encoder.encode(turn) == body and not any(report.surplus for report in turn.reports):
            return turn
    return _read_warily(body)


def _read_warily(body: bytes) -> Turn:
    raw = msgspec.json.decode(body)
    reports = raw.get("reports") if isinstance(raw, dict) else None
    raw_reports = [one for one in reports if isinstance(one, dict)] if isinstance(reports, list) else []
    extra = [sorted(one.keys() - _FIELDS) for one in raw_reports]
    for one, names in zip(raw_reports, extra, strict=True):
        for name in names:
            del one[name]
        if one.pop("surplus", None):
            names.append("surplus")  # it is ours to fill
    turn = msgspec.convert(raw, Turn, str_keys=True)
    checked = zip(turn.reports, raw_reports, extra, strict=True)
    return msgspec.structs.replace(turn, reports=tuple(_with_surplus(*one) for one in checked))


def _with_surplus(report: Report, raw: dict[str, Any], extra: list[str]) -> Report:
    surplus = (*extra, *_unknown(report, raw, ""))
    return msgspec.structs.replace(report, surplus=surplus) if surplus else report


def _unknown(known: Any, raw: Any, place: str) -> Iterator[str]:
    """The paths of the fields of `raw` that `known` does not have."""
    if isinstance(known, msgspec.Struct) and isinstance(raw, dict):
        config = known.__struct_config__
        fields = {*known.__struct_fields__, config.tag_field}
        yield from (f"{place}{name}" for name in sorted(raw.keys() - fields))
        for name in known.__struct_fields__:
            if name in raw:
                yield from _unknown(getattr(known, name), raw[name], f"{place}{name}.")
    elif isinstance(known, tuple) and isinstance(raw, list):
        for index, (one, its) in enumerate(zip(known, raw, strict=True)):
            yield from _unknown(one, its, f"{place}{index}.")
