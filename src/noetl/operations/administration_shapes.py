"""Shapes of what administrators ask for: who asks, credentials, tokens, webhooks, triggers, notices, workers, the audit
log.

As in `api_shapes.py` the server writes them, the client reads them, `-o json` prints them. Times are RFC 3339 texts.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

# The one identity of a request, taken once from its token or session (reliability.md §2.3).


class Role(StrEnum):
    """What a caller may do. Each person's role includes those before it; workers stand apart, and so does whoever has
    shown no token, which no token can be made for."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    AUTHOR = "author"
    ADMIN = "admin"
    WORKER = "worker"
    NOBODY = "nobody"


PEOPLE = (Role.VIEWER, Role.OPERATOR, Role.AUTHOR, Role.ADMIN)  # the lowest first
GIVEN = (*PEOPLE, Role.WORKER)  # those a token may have


def at_least(role: Role) -> frozenset[Role]:
    """This role of people and those above it."""
    return frozenset(PEOPLE[PEOPLE.index(role) :])


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """`human_roles` are the roles of human tasks, names that playbooks choose; `pools` are those a worker serves."""

    subject: str
    role: Role
    human_roles: frozenset[str] = frozenset()
    pools: frozenset[str] = frozenset()
    token_id: str = ""


ANONYMOUS = Caller(subject="", role=Role.NOBODY)


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A browser that is signed in. `session_key` is a hash of its cookie, which lets nobody in; `last_seen` is noted
    every five minutes. It ends at `expires_at`, or eight hours after it was last used. `is_own`: it is the one that
    asks."""

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
    """One notice. `rule` is the rule of the installation that wanted it, or "playbook". `folded` counts repeats that it
    stands for; `due_at` is its next attempt."""

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
    """`next` is the cursor of the page after, null at the end."""

    notices: list[NoticeView]
    next: str | None


class TriedDestination(msgspec.Struct, frozen=True, kw_only=True):
    """`error` is null when the test notice was handed over."""

    destination: str
    error: str | None


class SessionShape(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks. `csrf` goes into the header Noetl-CSRF of every change; null for a token, which needs none."""

    subject: str
    role: Role
    human_roles: tuple[str, ...]
    csrf: str | None = None


class CredentialView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    type: str
    version: int
    fingerprint: str
    key_id: str
    created_at: str
    updated_at: str


class CredentialCheck(msgspec.Struct, frozen=True, kw_only=True):
    """`reached`: what a tool connected to with the credential."""

    reached: str


class Rotated(msgspec.Struct, frozen=True, kw_only=True):
    """`moved` credentials are under master key `key_id` now."""

    moved: int
    key_id: str


class AccessTokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it may be shown."""

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
    """`token` is its text, told this once."""

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
    """`secret` is its key, told this once."""

    secret: str


class AuditShape(msgspec.Struct, frozen=True, kw_only=True):
    """A row: who did what to what, from where, and how it ended; `hash` is over all of it and `prev_hash`."""

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
    """`next` is the cursor of the page after this one, null on the last."""

    rows: list[AuditShape]
    next: str | None


class NewTrigger(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trigger to be made: the playbook at `path` starts for each new item that the tool `kind` finds with `inputs`.
    `interval` is the time between two looks that found nothing. At most `max_running` of its executions go on at once.
    `skip_existing`: what is there already starts nothing."""

    name: str
    kind: str
    path: str
    version: str | None = None
    inputs: dict[str, Any] = {}
    interval: str | float = 5.0
    max_running: int = 10
    skip_existing: bool = False


class TriggerView(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger. `started` counts its executions, `running` those that go on, `dead_letters` the items that could not
    be started. `error` says why it does not get on."""

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
    """An item that no execution could be started for. `is_cut`: its value was too large to be kept. `retry`: it will be
    tried again."""

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
    depths: list[int] = []

    @property
    def rate_text(self) -> str:
        return f"{self.rate['limit']} in {self.rate['per']:g} s" if self.rate else ""

    @property
    def require_text(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in sorted(self.require.items()))
