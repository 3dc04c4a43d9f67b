"""Shapes of what administrators ask for: who asks, credentials, tokens, webhooks, notices and the audit log.

As in `api_shapes.py` the server writes them, the client reads them, `-o json` prints them. Times are RFC 3339 texts.
"""

from __future__ import annotations

import msgspec

from noetl.operations.identity import Role


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
