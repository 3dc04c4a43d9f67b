"""Shapes of the HTTP API: the server writes them, the client reads them, `-o json` prints them.

Times are RFC 3339 texts. A shape that only one route uses is defined beside that route.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from noetl.base.clock import rfc3339
from noetl.operations.administration_shapes import StarterView

View = TypeVar("View", bound=msgspec.Struct)


class ExecutionView(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the list. `events` is the number of its last event; `wake_at` is when its next timer fires.
    `failed_iterations` of `iterations` failed, over the loops with a failure; null where they were not counted. Of the
    others `unrun_iterations` were not run to their end, and `passed_over_iterations` went on after an error of a task
    (`do: continue`). `error_kind` and `failed_step` say why it failed, `open_tasks` how many people it waits for,
    `awaited_messages` and `awaited_signals` how many of these; `is_late`: it is open for longer than was expected.
    `trial` is draft or step-test, null for a run of a registered playbook. `rerun_of` is the execution that it repeats,
    `rerun_by` the newest that repeats it."""

    execution_id: str
    path: str
    name: str
    status: str
    created_at: str
    finished_at: str | None
    duration_s: float | None
    events: int
    trace_id: str
    net_hash: str
    parent_execution_id: str | None
    wake_at: str | None
    failed_iterations: int | None = None
    iterations: int | None = None
    unrun_iterations: int = 0
    passed_over_iterations: int = 0
    open_tasks: int = 0
    awaited_messages: int = 0
    awaited_signals: int = 0
    is_late: bool = False
    error_kind: str | None = None
    failed_step: str | None = None
    trial: str | None = None
    rerun_of: str | None = None
    rerun_by: str | None = None

    @property
    def is_over(self) -> bool:
        return self.finished_at is not None


class PauseView(msgspec.Struct, frozen=True, kw_only=True):
    """A pause: since when, and by which user, if one asked for it. `until` is null while it lasts. `resumed_by` is the
    user who ended it."""

    since: str
    by: str | None = None
    reason: str | None = None
    until: str | None = None
    resumed_by: str | None = None


class Lateness(msgspec.Struct, frozen=True, kw_only=True):
    """An execution was expected to end within `expected_s`, and is late since that passed."""

    since: str
    expected_s: float


class RerunItems(msgspec.Struct, frozen=True, kw_only=True):
    """The items of a loop that a rerun ran: those that were not done in the execution before. `kept` is how many it
    took over from there, `total` how many the loop has (null before it begins). `indices` are the first 20 that ran."""

    kept: int
    total: int | None
    indices: list[int] = []


class ExecutionDetail(ExecutionView, frozen=True, kw_only=True):
    """One execution, pinned to the playbook version `catalog_id` and `version` (SRV-10). `children` are the executions
    it started. A rerun began at `from_step` with the state of `rerun_of` there, or did all of it again. `reruns` repeat
    this one, the oldest first. `rerun_items` are the items of the loop of `from_step` that it ran, where it did not run
    all. `dialect` is that of its playbook (DIA-07). `failed_step` is the step whose error ended it. `workload` are the
    playbook's own values with those of `payload`. `pause` is the one that lasts; `late` is set while it is open for
    longer than was expected."""

    version: int | None
    label: str | None
    catalog_id: str | None
    payload: Any
    workload: dict[str, Any] = {}
    error: dict[str, Any] | None
    children: list[ExecutionView]
    reruns: list[ExecutionView] = []
    from_step: str | None = None
    rerun_items: RerunItems | None = None
    dialect: str | None = None
    started_by: StarterView | None = None
    cancelled_by: str | None = None
    pause: PauseView | None = None
    late: Lateness | None = None


class ExecutionPage(msgspec.Struct, frozen=True, kw_only=True):
    """`next` is the cursor of the following page, null on the last one."""

    executions: list[ExecutionView]
    next: str | None


class Steered(msgspec.Struct, frozen=True, kw_only=True):
    """`changed` is false when the execution was in that state already."""

    execution_id: str
    action: str
    changed: bool
    execution: ExecutionView


class ResultView(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an execution, or of one of its steps when `step` is set. `result` is null after a failure or a
    cancellation."""

    execution_id: str
    status: str
    result: Any = None
    error: dict[str, Any] | None = None
    step: str | None = None

    @property
    def ok(self) -> bool:
        return self.status in ("completed", "done")


class PageColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a table; `type` is DuckDB's name of it."""

    name: str
    type: str


class TablePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows of a stored table, starting with row `offset`. `row_count` counts all its rows."""

    row_count: int
    columns: list[PageColumn]
    offset: int
    rows: list[dict[str, Any]]


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Pass `next` as `after` to read the following page; it is null on the newest page."""

    events: list[dict[str, Any]]
    next: int | None
    last_seq: int


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """What one run of a task printed, and the error it ended with. `levels` has a letter for each line of `stdout`: d,
    i, w, e or c for debug to critical, - for a line that names no level. It is empty when no line names one."""

    seq: int
    ts: str
    step: str | None
    task: str
    path: list[int]
    attempt: int
    stdout: str | None
    error: dict[str, Any] | None
    task_run_id: str = ""
    levels: str = ""


class OutputLineView(msgspec.Struct, frozen=True, kw_only=True):
    """`lease_epoch` is the lease it was printed under: with a later one the task had begun again."""

    ts: str
    stream: str
    text: str
    level: str = "-"
    lease_epoch: int = 1


class TaskOutputView(msgspec.Struct, frozen=True, kw_only=True):
    """The newest lines of a task run in progress, after the cursor of the request. The run has printed `total` lines;
    lines that no answer contains were dropped."""

    task_run_id: str
    step: str
    task: str
    path: list[int]
    attempt: int
    lines: list[OutputLineView]
    total: int


class LiveOutputPage(msgspec.Struct, frozen=True, kw_only=True):
    """What running tasks have printed, as far as the answering server has received it. Pass `cursor` as `after` in the
    next request. The part before its dot names the server; a reader that is served by several sends the last cursor of
    each. `is_whole` says that nothing was left out, since the server knew none of the cursors."""

    tasks: list[TaskOutputView]
    cursor: str
    is_whole: bool


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    lines: list[LogLine]
    next: int | None


class StartedExecution(msgspec.Struct, frozen=True, kw_only=True):
    """An execution that has begun. `result` and `error` are set when it ended while the request waited; `diagnostics`
    are the warnings about the playbook's text."""

    execution_id: str
    path: str
    status: str = "running"
    trace_id: str = ""
    # None for a playbook that runs without being registered
    version: int | None = None
    catalog_id: str | None = None
    result: Any = None
    error: dict[str, Any] | None = None
    diagnostics: list[dict[str, Any]] = []


class PlaybookInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a playbook in the catalogue. Only the answer to a registration sets the fields after
    `registered_at`."""

    path: str
    version: int
    label: str | None = None
    catalog_id: str = ""
    net_hash: str = ""
    registered_at: str = ""
    created: bool = True
    dialect: str = ""
    verdict: str = ""
    diagnostics: list[dict[str, Any]] = []
    absent_credentials: list[str] = []


class VersionView(msgspec.Struct, frozen=True, kw_only=True):
    """`registered_by` is the user who registered it on a server; null where it is not known."""

    path: str
    version: int
    label: str | None
    catalog_id: str
    net_hash: str
    registered_at: str
    registered_by: str | None = None


class VersionDetail(VersionView, frozen=True, kw_only=True):
    """`dialect` is the dialect of its text (DIA-07)."""

    dialect: str


class CatalogPage(msgspec.Struct, frozen=True, kw_only=True):
    playbooks: list[VersionView]


class PlaybookStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the newest version of a playbook."""

    path: str
    step: str


class PlaybookSteps(msgspec.Struct, frozen=True, kw_only=True):
    steps: list[PlaybookStep]


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """The newest first."""

    path: str
    versions: list[VersionView]


class TaskHistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to a task: claimed, released, commented, overdue, escalated (`text`: to whom), completed."""

    at: str
    what: str
    actor: str | None
    text: str


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """A human task. `form` lists the fields to fill in, `data` is the material for the decision, `history` lists what
    happened, the oldest first. Send `version` back with a change: it is refused if the task has changed since."""

    task_id: str
    execution_id: str
    step: str
    step_run_id: str
    state: str
    version: int
    title: str
    description: str
    data: Any
    history: list[TaskHistoryEntry]
    role: str | None
    user: str | None
    form: list[dict[str, Any]]
    claimed_by: str | None
    completed_by: str | None
    result: dict[str, Any] | None
    created_at: str
    due_at: str | None
    overdue: bool
    escalated: bool
    ended_at: str | None


class TaskPage(msgspec.Struct, frozen=True, kw_only=True):
    tasks: list[TaskView]
    next: str | None


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """`size_bytes` is the size of its payload as JSON."""

    message_id: str
    name: str
    correlation: dict[str, Any]
    size_bytes: int
    sent_at: str
    expires_at: str


class StoredMessagePage(msgspec.Struct, frozen=True, kw_only=True):
    messages: list[StoredMessage]
    next: str | None


class TimerView(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is unique; `timer` is the name that the playbook gives it."""

    id: str
    timer: str
    execution_id: str
    step: str | None
    due_at: str
    cancellable: bool


class TimerList(msgspec.Struct, frozen=True, kw_only=True):
    timers: list[TimerView]


class DeadLettersChanged(msgspec.Struct, frozen=True, kw_only=True):
    count: int


class PlaybookLimitView(msgspec.Struct, frozen=True, kw_only=True):
    """`written` is the limit in the playbook at its last start, `limit` the one that an operator set instead; null
    means none. With a `key`, each value of the key has its own row while executions of it run."""

    path: str
    key: Any = None
    written: int | None = None
    limit: int | None = None
    running: int = 0
    waiting: int = 0


class RateView(msgspec.Struct, frozen=True, kw_only=True):
    """At most `limit` runs begin in any `per` seconds. Both may be templates where the rate is that of the playbook."""

    limit: Any
    per: Any


class StepLimitView(msgspec.Struct, frozen=True, kw_only=True):
    """`written` and `written_rate` are the playbook's, `limit` and `rate` those that an operator set instead; null
    means none. `running` runs occupy a place, `waiting` ones wait for a place, `paced` ones for their start time."""

    step: str
    key: Any = None
    written: Any = None
    limit: int | None = None
    written_rate: RateView | None = None
    rate: RateView | None = None
    running: int = 0
    waiting: int = 0
    paced: int = 0


def view_of(kind: type[View], row: Any, **more: Any) -> View:
    """The shape `kind` of a stored row: fields of the same name, and times as texts."""
    fields = {name: getattr(row, name) for name in kind.__struct_fields__ if name not in more}
    return kind(
        # Rows hold moments as floats and nothing else of that type.
        **{name: rfc3339(value) if isinstance(value, float) else value for name, value in fields.items()},
        **more,
    )
