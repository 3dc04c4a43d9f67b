"""Shapes of the HTTP API: the server writes them, the client reads them, `-o json` prints them.

Times are RFC 3339 texts. A shape that only one route uses stays beside that route.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from noetl.base.clock import rfc3339

View = TypeVar("View", bound=msgspec.Struct)


class ExecutionView(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the list. `events` is the number of its last event; `wake_at` when time alone moves it next."""

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

    @property
    def is_over(self) -> bool:
        return self.finished_at is not None


class ExecutionDetail(ExecutionView, frozen=True, kw_only=True):
    """One execution. `catalog_id` and `version` are what it is pinned to (SRV-10); `children` are those it started.
    `rerun_of` and `from_step`: it began at that step, with what the other one had there. `dialect` is what its
    playbook is written in (DIA-07). `failed_step` is the step whose error ended an execution that failed."""

    version: int | None
    label: str | None
    catalog_id: str | None
    payload: Any
    error: dict[str, Any] | None
    children: list[ExecutionView]
    rerun_of: str | None = None
    from_step: str | None = None
    dialect: str | None = None
    failed_step: str | None = None


class ExecutionPage(msgspec.Struct, frozen=True, kw_only=True):
    """`next` is the cursor of the page after, null at the end."""

    executions: list[ExecutionView]
    next: str | None


class Steered(msgspec.Struct, frozen=True, kw_only=True):
    """`changed` is false when it was so already."""

    execution_id: str
    action: str
    changed: bool
    execution: ExecutionView


class ResultView(msgspec.Struct, frozen=True, kw_only=True):
    """What an execution, or one of its steps, gave. `result` is null for what failed or was cancelled; `step` is told
    where one was asked for."""

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
    """Some rows of a stored table, from row `offset` on. `row_count` counts all of them."""

    row_count: int
    columns: list[PageColumn]
    offset: int
    rows: list[dict[str, Any]]


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """`next` is what to give as `after` for the page after, null when this is the newest one."""

    events: list[dict[str, Any]]
    next: int | None
    last_seq: int


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """What one run of a task printed, and the error it ended with. `levels` has a letter for each line of `stdout`: d,
    i, w, e or c for debug to critical, - where a line names no level; it is empty where none does."""

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
    ts: str
    stream: str
    text: str
    level: str = "-"


class TaskOutputView(msgspec.Struct, frozen=True, kw_only=True):
    """The newest lines of one task run that goes on, past what was asked for. It has printed `total` lines; those that
    are neither here nor were told before were dropped."""

    task_run_id: str
    step: str
    task: str
    path: list[int]
    attempt: int
    lines: list[OutputLineView]
    total: int


class LiveOutputPage(msgspec.Struct, frozen=True, kw_only=True):
    """What tasks have printed while they run, as far as the process that answers has heard. `cursor` is what to give as
    `after` the next time; what stands before its dot names that process, and a reader who meets several gives the last
    cursor of each. `is_whole` says that nothing was left out, since it knew none of them."""

    tasks: list[TaskOutputView]
    cursor: str
    is_whole: bool


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    lines: list[LogLine]
    next: int | None


class StartedExecution(msgspec.Struct, frozen=True, kw_only=True):
    """An execution that has begun. `result` and `error` are told when it ended while one waited; `diagnostics` are the
    warnings about the playbook's text."""

    execution_id: str
    path: str
    status: str = "running"
    trace_id: str = ""
    version: int | None = None
    catalog_id: str | None = None
    result: Any = None
    error: dict[str, Any] | None = None
    diagnostics: list[dict[str, Any]] = []


class PlaybookInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a playbook in the catalogue. What follows `registered_at` is told when it is registered."""

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
    path: str
    version: int
    label: str | None
    catalog_id: str
    net_hash: str
    registered_at: str


class VersionDetail(VersionView, frozen=True, kw_only=True):
    """`dialect` is what it is written in (DIA-07)."""

    dialect: str


class CatalogPage(msgspec.Struct, frozen=True, kw_only=True):
    playbooks: list[VersionView]


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
    """`form` are the fields to be filled in, `data` what to decide by, `history` what happened to it, the oldest first;
    `version` is what to give back when you act on what you saw."""

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
    """`size_bytes` is how much it says, as JSON."""

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
    """`id` is its own, `timer` the author's word for it."""

    id: str
    timer: str
    execution_id: str
    step: str | None
    due_at: str
    cancellable: bool


class TimerList(msgspec.Struct, frozen=True, kw_only=True):
    timers: list[TimerView]


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """`next` are its coming times in its zone; none while it is paused. `running` is its execution that goes on."""

    path: str
    version: int
    cron: str
    timezone: str
    missed: str
    overlap: str
    jitter_s: float
    paused: bool
    running: str | None
    queued: list[str]
    skipped: int
    next: list[str]


class BackfillView(msgspec.Struct, frozen=True, kw_only=True):
    """Times that are made up for now: so many were started, had run before, or run at this moment."""

    backfill_id: str
    path: str
    started: int
    known: int
    running: int


class ScheduleList(msgspec.Struct, frozen=True, kw_only=True):
    schedules: list[ScheduleView]
    backfills: list[BackfillView]


class Backfilled(msgspec.Struct, frozen=True, kw_only=True):
    """`times` are those to be run; `known` have run already."""

    backfill_id: str | None
    path: str
    times: list[str]
    known: int


class DeadLettersChanged(msgspec.Struct, frozen=True, kw_only=True):
    count: int


class PlaybookLimitView(msgspec.Struct, frozen=True, kw_only=True):
    """`written` is what the playbook said when it was last started, `limit` what was set instead; null: nothing. With a
    `key` each has its own line, and none while nobody runs."""

    path: str
    key: Any = None
    written: int | None = None
    limit: int | None = None
    running: int = 0
    waiting: int = 0


class RateView(msgspec.Struct, frozen=True, kw_only=True):
    """So many runs begin in any `per` seconds. As written it may be templates."""

    limit: Any
    per: Any


class StepLimitView(msgspec.Struct, frozen=True, kw_only=True):
    """`written` and `written_rate` are the playbook's, `limit` and `rate` what was set instead; null: nothing.
    `running` hold a place, `waiting` wait for one, and `paced` for their moment."""

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
        **{name: rfc3339(value) if isinstance(value, float) else value for name, value in fields.items()}, **more
    )
