"""What a server tells, as values. Times are RFC 3339 texts, ids are texts; what is not known here is left out."""

from __future__ import annotations

from typing import Any

import msgspec


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """An execution that has begun. `result` and `error` are told when it ended while one waited; `diagnostics` are the
    warnings about the playbook's text."""

    execution_id: str
    path: str
    status: str
    trace_id: str = ""
    version: int | None = None
    catalog_id: str | None = None
    result: Any = None
    error: dict[str, Any] | None = None
    diagnostics: list[dict[str, Any]] = []


class ExecutionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the list; what follows `wake_at` is told of a single one only."""

    execution_id: str
    path: str
    name: str
    status: str
    created_at: str
    finished_at: str | None = None
    duration_s: float | None = None
    events: int = 0
    trace_id: str = ""
    net_hash: str = ""
    parent_execution_id: str | None = None
    wake_at: str | None = None
    version: int | None = None
    label: str | None = None
    catalog_id: str | None = None
    payload: Any = None
    error: dict[str, Any] | None = None

    @property
    def is_over(self) -> bool:
        return self.finished_at is not None


class ExecutionPage(msgspec.Struct, frozen=True, kw_only=True):
    """`next` is the cursor of the page after, None at the end."""

    executions: list[ExecutionInfo]
    next: str | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What an execution, or one of its steps, gave."""

    execution_id: str
    status: str
    result: Any = None
    error: dict[str, Any] | None = None
    step: str | None = None

    @property
    def ok(self) -> bool:
        return self.status in ("completed", "done")


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    events: list[dict[str, Any]]
    next: int | None = None
    last_seq: int = 0


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    ts: str
    task: str
    step: str | None = None
    path: list[int] = []
    attempt: int = 1
    stdout: str | None = None
    error: dict[str, Any] | None = None


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    lines: list[LogLine]
    next: int | None = None


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


class CatalogPage(msgspec.Struct, frozen=True, kw_only=True):
    playbooks: list[PlaybookInfo]


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    versions: list[PlaybookInfo]


class Steered(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a pause, a resumption or a cancellation. `changed` is false when it was so already."""

    execution_id: str
    action: str
    changed: bool
    execution: ExecutionInfo


class TaskInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A human task. `form` are the fields to be filled in; `version` is what to give when acting on what one saw."""

    task_id: str
    execution_id: str
    step: str
    state: str
    version: int
    title: str = ""
    role: str | None = None
    user: str | None = None
    form: list[dict[str, Any]] = []
    step_run_id: str = ""
    claimed_by: str | None = None
    completed_by: str | None = None
    result: dict[str, Any] | None = None
    created_at: str = ""
    due_at: str | None = None
    overdue: bool = False
    escalated: bool = False
    ended_at: str | None = None


class TaskPage(msgspec.Struct, frozen=True, kw_only=True):
    tasks: list[TaskInfo]
    next: str | None = None


class KeptMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that nobody has taken yet; `size_bytes` is how much it says, as JSON."""

    message_id: str
    name: str
    correlation: dict[str, Any]
    size_bytes: int
    sent_at: str
    expires_at: str


class KeptPage(msgspec.Struct, frozen=True, kw_only=True):
    messages: list[KeptMessage]
    next: str | None = None


class TimerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is its own, `timer` the author's word for it."""

    id: str
    timer: str
    execution_id: str
    step: str | None
    due_at: str
    cancellable: bool


class ScheduleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`next` are its coming times in its zone; none while it is paused."""

    path: str
    version: int
    cron: str
    timezone: str
    missed: str
    overlap: str
    jitter_s: float
    paused: bool
    running: str | None = None
    queued: list[str] = []
    skipped: int = 0
    next: list[str] = []


class BackfillInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Times that are made up for now: so many were started, had run before, or run at this moment."""

    backfill_id: str
    path: str
    started: int = 0
    known: int = 0
    running: int = 0


class ScheduleList(msgspec.Struct, frozen=True, kw_only=True):
    schedules: list[ScheduleInfo]
    backfills: list[BackfillInfo] = []


class Backfilled(msgspec.Struct, frozen=True, kw_only=True):
    """`times` are those to be run; `known` have run already."""

    backfill_id: str | None
    path: str
    times: list[str]
    known: int


class AuditPageInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`next` is the row to give as `before` for the page after, None at the end."""

    rows: list[dict[str, Any]]
    next: str | None = None


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    worker_id: str
    pools: list[str] = []
    capacity: int = 0
    labels: dict[str, str] = {}
    kinds: list[str] = []
    protocol: int = 1
    version: str = ""
    registered_at: str = ""
    last_seen: str = ""
    live: bool = False
    leases: list[str] = []


class PoolInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`capacity` None: as many as its workers can take. `rate` is {limit, per}, `per` in seconds. `require` are labels
    of the workers that may take its orders, `kinds` what those run, `obstacles` why orders wait that nobody takes."""

    name: str
    capacity: int | None = None
    rate: dict[str, Any] | None = None
    require: dict[str, str] = {}
    leased: int = 0
    workers: int = 0
    kinds: list[str] | None = None
    obstacles: list[str] = []

    @property
    def rate_text(self) -> str:
        return f"{self.rate['limit']} in {self.rate['per']:g} s" if self.rate else ""

    @property
    def require_text(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in sorted(self.require.items()))


class PlaybookLimitInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`written` is what the playbook says, `limit` what was set instead; each key has a line of its own."""

    path: str
    key: Any = None
    written: int | None = None
    limit: int | None = None
    running: int = 0
    waiting: int = 0


class StepLimit(msgspec.Struct, frozen=True, kw_only=True):
    """`written` and `written_rate` are the playbook's, `limit` and `rate` what was set instead. Rates are {limit, per},
    `per` in seconds; as written they may be templates."""

    step: str
    key: Any = None
    written: Any = None
    limit: int | None = None
    written_rate: dict[str, Any] | None = None
    rate: dict[str, Any] | None = None
    running: int = 0
    waiting: int = 0
    paced: int = 0


class WhoAmI(msgspec.Struct, frozen=True, kw_only=True):
    subject: str
    role: str
    human_roles: list[str] = []
