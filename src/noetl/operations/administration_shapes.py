"""API shapes for administrators: callers, credentials, tokens, webhooks, triggers, schedules, notices, workers, and the
audit log.

As in `api_shapes.py` the server writes them, the client reads them, `-o json` prints them. Times are RFC 3339 texts.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

# The one identity of a request, taken once from its token or session (reliability.md §2.3).


class Role(StrEnum):
    """What a caller may do. Each role of people includes the roles before it. `WORKER` and `NOBODY` include none."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    AUTHOR = "author"
    ADMIN = "admin"
    WORKER = "worker"
    # The role of requests without a token. No token can have it.
    NOBODY = "nobody"


# The lowest first: `at_least` relies on the order.
PEOPLE = (Role.VIEWER, Role.OPERATOR, Role.AUTHOR, Role.ADMIN)
TOKEN_ROLES = (*PEOPLE, Role.WORKER)  # the roles that a token may have


def at_least(role: Role) -> frozenset[Role]:
    """This role of people and those above it."""
    return frozenset(PEOPLE[PEOPLE.index(role) :])


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """`human_roles` are the roles of human tasks, names that playbooks choose; `pools` are those a worker serves."""

    subject: str
    role: Role
    human_roles: frozenset[str] = frozenset()
    pools: frozenset[str] = frozenset()
    # Rate limits and the audit log identify a caller by token, not by person. Empty without a token.
    token_id: str = ""


ANONYMOUS = Caller(subject="", role=Role.NOBODY)


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A signed-in browser. `session_key` is a hash of its cookie and cannot be used to sign in. `last_seen` is updated
    every five minutes. The session ends at `expires_at`, or eight hours after its last use. `is_own` marks the session
    that sent the request."""

    session_key: str
    subject: str
    role: str
    token_id: str
    created_at: str
    last_seen: str
    expires_at: str
    is_own: bool


class LateExecution(msgspec.Struct, frozen=True, kw_only=True):
    """An execution that is still open after the duration that its playbook, or a rule of the installation, expects."""

    execution_id: str
    path: str
    started_at: str
    late_since: str


class NoticeView(msgspec.Struct, frozen=True, kw_only=True):
    """One notice. `rule` is the installation's rule that caused it, or "playbook". `folded` counts the repeats that
    were merged into it; `due_at` is the time of its next attempt."""

    notice_id: str
    event: str
    path: str
    execution_id: str
    rule: str
    destination: str
    state: str
    attempts: int
    folded: int
    error: str | None
    created_at: str
    due_at: str | None
    ended_at: str | None


class NoticePage(msgspec.Struct, frozen=True, kw_only=True):
    """`next` is the cursor of the following page, null on the last one."""

    notices: list[NoticeView]
    next: str | None


class TriedDestination(msgspec.Struct, frozen=True, kw_only=True):
    """`error` is null when the destination accepted the test notice."""

    destination: str
    error: str | None


class SessionShape(msgspec.Struct, frozen=True, kw_only=True):
    """The caller. A browser sends `csrf` in the header Noetl-CSRF of every change; null for a token, which needs
    none. `token_expires_at` is null for a token that does not expire."""

    subject: str
    role: Role
    human_roles: tuple[str, ...]
    csrf: str | None = None
    token_expires_at: str | None = None


class StarterView(msgspec.Struct, frozen=True, kw_only=True):
    """Who or what started an execution. `kind`: user, schedule, backfill, trigger or webhook. `name` is that of the
    user, trigger or webhook; `planned_at` is the time that a schedule had for it, and `late_s` how much later it
    began."""

    kind: str
    name: str | None = None
    planned_at: str | None = None
    late_s: float | None = None


class CredentialView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    type: str
    version: int
    fingerprint: str
    key_id: str
    created_at: str
    updated_at: str


class CredentialTypeView(msgspec.Struct, frozen=True, kw_only=True):
    """A type that a credential can have. `kinds`: the kinds of tools that take it for their own service."""

    name: str
    kinds: list[str]


class CredentialCheck(msgspec.Struct, frozen=True, kw_only=True):
    """`reached` names the service that a tool connected to with the credential."""

    reached: str


class Rotated(msgspec.Struct, frozen=True, kw_only=True):
    """`moved` credentials are now encrypted under master key `key_id`."""

    moved: int
    key_id: str


class AccessTokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secret."""

    token_id: str
    subject: str
    role: Role
    human_roles: tuple[str, ...]
    pools: tuple[str, ...]
    created_at: str | None
    expires_at: str | None
    used_at: str | None
    revoked_at: str | None


class MadeToken(AccessTokenView, frozen=True, kw_only=True):
    """`token` is its text. No later answer contains it."""

    token: str


class WebhookTarget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a delivery does: start the playbook at `path`, or send the message `message`. `correlation` names fields of
    the body that the message is matched by."""

    path: str | None = None
    version: str | None = None
    message: str | None = None
    correlation: dict[str, str] = {}


class WebhookShape(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    url: str
    target: WebhookTarget
    created_at: str
    created_by: str


class MadeWebhook(WebhookShape, frozen=True, kw_only=True):
    """`secret` is its signing key. No later answer contains it."""

    secret: str


class AuditShape(msgspec.Struct, frozen=True, kw_only=True):
    """A row: actor, action, object, address and outcome. `hash` covers all of them and `prev_hash`."""

    seq: int
    at: str
    actor: str
    action: str
    object: str
    address: str
    outcome: str
    prev_hash: str
    hash: str


class AuditPage(msgspec.Struct, frozen=True):
    """`next` is the cursor of the following page, null on the last one."""

    rows: list[AuditShape]
    next: str | None


class NewTrigger(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new trigger: the playbook at `path` starts for each new item that the tool `kind` finds with `inputs`.
    `interval` is the time between two polls while nothing new arrives. At most `max_running` of its executions run at
    once. With `skip_existing`, items that exist already start nothing."""

    name: str
    kind: str
    path: str
    version: str | None = None
    inputs: dict[str, Any] = {}
    interval: str | float = 5.0
    max_running: int = 10
    skip_existing: bool = False


class TriggerView(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger. `started` counts its executions, `running` those that have not ended, `dead_letters` the items that
    could not be started. `error` is the reason why it makes no progress."""

    name: str
    kind: str
    inputs: dict[str, Any]
    path: str
    version: str | None
    interval_s: float
    max_running: int
    skip_existing: bool
    paused: bool
    started: int
    running: int
    dead_letters: int
    cursor: Any
    error: str | None
    error_at: str | None
    created_at: str
    created_by: str


class DeadLetterView(msgspec.Struct, frozen=True, kw_only=True):
    """An item for which no execution could be started. `is_cut`: its value was too large to be stored. `retry`: the
    server will try it again."""

    item_id: str
    value: Any
    is_cut: bool
    error: str
    at: str
    retry: bool


class TriggerList(msgspec.Struct, frozen=True, kw_only=True):
    triggers: list[TriggerView]


class DeadLetterList(msgspec.Struct, frozen=True, kw_only=True):
    dead_letters: list[DeadLetterView]


class ScheduledRun(msgspec.Struct, frozen=True, kw_only=True):
    """The execution that a schedule started last. `time` is the one it was started for, null if that is not known."""

    execution_id: str
    time: str | None
    started_at: str
    status: str


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """`next` lists its next times in its time zone; it is empty while the schedule is paused. `running` is its
    execution in progress, `last` the one it started last. `words` say the schedule as people do: "every weekday at
    06:00". `missed_times` counts the times that no server kept and nothing was run for."""

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
    words: str = ""
    last: ScheduledRun | None = None
    missed_times: int = 0
    last_missed: str | None = None


class BackfillView(msgspec.Struct, frozen=True, kw_only=True):
    """A backfill in progress: how many of its times were started, had run before, and run at this moment."""

    backfill_id: str
    path: str
    started: int
    known: int
    running: int


class ScheduleList(msgspec.Struct, frozen=True, kw_only=True):
    schedules: list[ScheduleView]
    backfills: list[BackfillView]


class Backfilled(msgspec.Struct, frozen=True, kw_only=True):
    """`times` lists the times to run; `known` counts those that have run already."""

    backfill_id: str | None
    path: str
    times: list[str]
    known: int


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
    drained_at: str | None = None
    drained_by: str = ""


class PoolInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A pool. `capacity` null means as many orders as its workers can run. `rate` is {limit, per}, `per` in seconds.
    `require` are the labels that a worker needs to take its orders, `kinds` the tool kinds that those workers run,
    `obstacles` the reasons why ready orders wait."""

    name: str
    capacity: int | None = None
    rate: dict[str, Any] | None = None
    require: dict[str, str] = {}
    leased: int = 0
    workers: int = 0
    # None: one of its workers did not report its kinds, so it may run any
    kinds: list[str] | None = None
    obstacles: list[str] = []
    # the number of waiting orders, sampled every 30 s over the last hour, the oldest first
    depths: list[int] = []

    @property
    def rate_text(self) -> str:
        return f"{self.rate['limit']} in {self.rate['per']:g} s" if self.rate else ""

    @property
    def require_text(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in sorted(self.require.items()))
