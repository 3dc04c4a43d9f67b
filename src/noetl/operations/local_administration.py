"""Administration of a store on this machine: credentials, tokens, webhooks, triggers, notices, the audit log.

The calls are those of `noetl.client.AsyncClient`, with the same answers. Each change is recorded in the audit log; on a
server the gate does that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import NotFoundError
from noetl.operations import administration_shapes
from noetl.store.audit import AuditChainCheck, AuditEntry, walked
from noetl.store.contract import ResultStore, Store

if TYPE_CHECKING:
    from noetl.operations.credentials import CredentialOperations
    from noetl.operations.notifications import Notifications
    from noetl.operations.tokens import AccessTokens
    from noetl.operations.triggers import TriggerOperations
    from noetl.operations.webhooks import Webhooks


class LocalAdministration:
    """`actor` and `roles` identify the user of this machine."""

    def __init__(
        self, store: Store, results: ResultStore, clock: Clock, *, actor: str = "", roles: Sequence[str] = ()
    ) -> None:
        self.store, self.results, self._clock = store, results, clock
        self._actor, self._roles = actor, tuple(roles)

    # Imports inside the calls keep the start of a command quick: each part loads with its first call.

    @cached_property
    def _tokens(self) -> AccessTokens:
        from noetl.operations.tokens import AccessTokens

        return AccessTokens(self.store.key_values, self._clock)

    async def who_am_i(self) -> administration_shapes.SessionShape:
        return administration_shapes.SessionShape(
            subject=self._actor, role=administration_shapes.Role.ADMIN, human_roles=self._roles
        )

    async def set_credential(
        self, name: str, value: Any, *, kind: str = "text"
    ) -> administration_shapes.CredentialView:
        await self._require_recorded_key()
        stored = await self._credentials(create=True).set(name, value, kind=kind)
        await self._append_audit("credential set", name)
        return stored

    async def credentials(self) -> list[administration_shapes.CredentialView]:
        return await self._credentials().list()

    async def delete_credential(self, name: str) -> None:
        await self._credentials().delete(name)
        await self._append_audit("credential delete", name)

    async def rotate_credentials(self) -> administration_shapes.Rotated:
        rotated = await self._credentials().rotate()
        await self._append_audit("credential rotate", f"{rotated.moved} credentials")
        return rotated

    async def check_credential(
        self, name: str, *, kind: str | None = None, url: str | None = None
    ) -> administration_shapes.CredentialCheck:
        from noetl.tools.registry import Registry

        return await self._credentials().check(name, kind, url, Registry())

    async def _require_recorded_key(self) -> None:
        import os

        from noetl.operations.credentials import require_recorded_key

        await require_recorded_key(self.store, os.environ)

    def _credentials(self, *, create: bool = False) -> CredentialOperations:
        import os

        from noetl.operations.credentials import CredentialOperations
        from noetl.secrets.encryption import load_master_keys

        return CredentialOperations(self.store, load_master_keys(os.environ, create=create), self._clock)

    async def tokens(self) -> list[administration_shapes.AccessTokenView]:
        from noetl.operations.tokens import token_view

        return [token_view(token) for token in await self._tokens.list()]

    async def make_token(self, subject: str, role: str, **more: Any) -> administration_shapes.MadeToken:
        from noetl.operations.tokens import made_token

        text, token = await self._tokens.create(_token_request(subject, role, more))
        await self._append_audit("token create", token.token_id)
        return made_token(text, token)

    async def adopt_token(
        self, text: str, subject: str, role: str, **more: Any
    ) -> administration_shapes.AccessTokenView:
        """Store a token that its operator has chosen. Only a local store offers this, before any server starts."""
        from noetl.operations.tokens import token_view

        token = await self._tokens.adopt(text, _token_request(subject, role, more))
        await self._append_audit("token create", token.token_id)
        return token_view(token)

    async def revoke_token(self, token_id: str) -> administration_shapes.AccessTokenView:
        from noetl.operations.tokens import token_view

        if (token := await self._tokens.revoke(token_id)) is None:
            raise NotFoundError(f'there is no token "{token_id}": noetl token list shows the tokens with their ids')
        await self._append_audit("token revoke", token.token_id)
        return token_view(token)

    async def webhooks(self) -> list[administration_shapes.WebhookShape]:
        from noetl.operations.webhooks import webhook_view

        return [webhook_view(hook) for hook in await self._webhooks().list()]

    async def make_webhook(self, name: str, **target: Any) -> administration_shapes.MadeWebhook:
        from noetl.operations.webhooks import made_webhook

        await self._require_recorded_key()
        key, hook = await self._webhooks(create=True).create(
            name, administration_shapes.WebhookTarget(**target), by=self._audit_name
        )
        await self._append_audit("webhook create", name)
        return made_webhook(key, hook)

    async def delete_webhook(self, name: str) -> None:
        if not await self._webhooks().delete(name):
            raise NotFoundError(f'there is no webhook "{name}"')
        await self._append_audit("webhook delete", name)

    def _webhooks(self, *, create: bool = False) -> Webhooks:
        import os

        from noetl.operations.webhooks import Webhooks
        from noetl.secrets.encryption import load_master_keys

        return Webhooks(self.store.key_values, lambda: load_master_keys(os.environ, create=create), self._clock)

    @cached_property
    def _notifications(self) -> Notifications:
        from noetl.control.notifications.rules import NotificationRules
        from noetl.operations.notifications import Notifications

        rules = NotificationRules(self.store.key_values, self._clock)
        # No destinations: sending needs tools and secrets, which only a server opens.
        return Notifications(self.store.notices, rules, None, self._clock)

    @cached_property
    def _triggers(self) -> TriggerOperations:
        from noetl.operations.triggers import TriggerOperations
        from noetl.tools.kinds import load_kinds

        return TriggerOperations(self.store, self._clock, load_kinds)

    async def triggers(self) -> list[administration_shapes.TriggerView]:
        return await self._triggers.all()

    async def trigger(self, name: str) -> administration_shapes.TriggerView:
        return await self._triggers.get(name)

    async def make_trigger(self, new: administration_shapes.NewTrigger) -> administration_shapes.TriggerView:
        made = await self._triggers.create(new, by=self._audit_name)
        await self._append_audit("trigger create", new.name)
        return made

    async def pause_trigger(self, name: str) -> administration_shapes.TriggerView:
        return await self._triggers.pause(name)

    async def resume_trigger(self, name: str) -> administration_shapes.TriggerView:
        return await self._triggers.resume(name)

    async def delete_trigger(self, name: str) -> None:
        await self._triggers.delete(name)
        await self._append_audit("trigger delete", name)

    async def dead_letters(self, name: str) -> list[administration_shapes.DeadLetterView]:
        return await self._triggers.dead_letters(name)

    async def retry_dead_letters(self, name: str, item: str | None = None) -> int:
        return await self._triggers.retry(name, item)

    async def discard_dead_letters(self, name: str, item: str | None = None) -> int:
        return await self._triggers.discard(name, item)

    async def notices(
        self,
        *,
        states: Sequence[str] = (),
        execution_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> administration_shapes.NoticePage:
        from noetl.store.notices import NoticeState

        chosen = [NoticeState(state) for state in states]
        return await self._notifications.page(states=chosen, execution_id=execution_id, limit=limit, cursor=cursor)

    async def notice(self, notice_id: str) -> administration_shapes.NoticeView:
        return await self._notifications.get(notice_id)

    async def retry_notice(self, notice_id: str) -> administration_shapes.NoticeView:
        return await self._notifications.retry(notice_id)

    async def retry_notices(self) -> int:
        return await self._notifications.retry_all()

    async def notification_rules(self) -> list[dict[str, Any]]:
        return [msgspec.to_builtins(rule) for rule in await self._notifications.shown_rules()]

    async def set_notification_rule(self, name: str, rule: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = msgspec.to_builtins(await self._notifications.put_rule(name, rule))
        await self._append_audit("notification rule set", name)
        return made

    async def delete_notification_rule(self, name: str) -> None:
        await self._notifications.rules.delete(name)
        await self._append_audit("notification rule delete", name)

    async def audit(self, *, limit: int = 100, before: int | None = None) -> administration_shapes.AuditPage:
        from noetl.operations.tokens import audit_page

        return await audit_page(self.store.audit, limit=limit, before=before)

    async def verify_audit(self, *, holds: str | None = None) -> AuditChainCheck:
        return await walked(self.store.audit, looking_for=holds)

    @property
    def _audit_name(self) -> str:
        return f"cli {self._actor}".rstrip()

    async def executions_to_delete(self, execution_ids: Sequence[str]) -> list[str]:
        """These ended executions and those that they have started."""
        from noetl.control.background.retention import executions_to_delete

        return await executions_to_delete(self.store, execution_ids)

    async def delete_executions(self, execution_ids: Sequence[str]) -> int:
        """Delete these before their retention time; the audit log has each id."""
        from noetl.control.background.retention import delete_executions

        # Before they are deleted: a crash in between leaves a row too many, not a deletion that nobody did.
        for execution_id in execution_ids:
            await self._append_audit("execution delete", execution_id)
        return await delete_executions(self.store, execution_ids)

    async def _append_audit(self, action: str, what: str) -> None:
        """Record an action in the audit log."""
        entry = AuditEntry(
            at=self._clock.now(),
            actor=self._audit_name,
            action=action,
            object=what,
            address="this machine",
            outcome="done",
        )
        await self.store.audit.append([entry])


def _token_request(subject: str, role: str, more: dict[str, Any]) -> Any:
    from noetl.operations.tokens import TokenRequest

    return TokenRequest(subject=subject, role=administration_shapes.Role(role), **more)
