"""What a server has, for both clients: credentials, tokens, webhooks, pools, workers, the audit log."""

from __future__ import annotations

from typing import Any

from noetl.client import requests
from noetl.client.models import AuditPageInfo, PoolInfo, WhoAmI, WorkerInfo
from noetl.client.sender import Sends, SendsLater


class AsyncAdministration(SendsLater):
    """The part of the asynchronous client that administrators use."""

    async def set_credential(self, name: str, value: Any, *, kind: str = "text") -> dict[str, Any]:
        """Store a credential; values go in and are never told."""
        return await self.send(requests.set_credential(name, value, kind))

    async def credentials(self) -> list[dict[str, Any]]:
        return await self.send(requests.credentials())

    async def delete_credential(self, name: str) -> None:
        await self.send(requests.delete_credential(name))

    async def pools(self) -> list[PoolInfo]:
        return await self.send(requests.pools())

    async def set_pool(self, name: str, **settings: Any) -> PoolInfo:
        return await self.send(requests.set_pool(name, settings))

    async def workers(self) -> list[WorkerInfo]:
        return await self.send(requests.workers())

    async def who_am_i(self) -> WhoAmI:
        return await self.send(requests.who_am_i())

    async def ready(self) -> dict[str, Any]:
        """Whether the server and what it stands on are well."""
        return await self.send(requests.ready())

    async def rotate_credentials(self) -> dict[str, Any]:
        """Put every credential under a new master key."""
        return await self.send(requests.rotate_credentials())

    async def tokens(self) -> list[dict[str, Any]]:
        """All tokens, revoked ones too, without their secrets."""
        return await self.send(requests.tokens())

    async def make_token(self, subject: str, role: str, **more: Any) -> dict[str, Any]:
        """Its text is under `token`, this once. `more` are human_roles, pools and expires_in_s."""
        return await self.send(requests.make_token({"subject": subject, "role": role, **more}))

    async def revoke_token(self, token_id: str) -> dict[str, Any]:
        return await self.send(requests.revoke_token(token_id))

    async def webhooks(self) -> list[dict[str, Any]]:
        return await self.send(requests.webhooks())

    async def make_webhook(self, name: str, **target: Any) -> dict[str, Any]:
        """Its key is under `secret`, this once. `target` is path (and version), or message (and correlation)."""
        return await self.send(requests.make_webhook({"name": name, **target}))

    async def delete_webhook(self, name: str) -> None:
        await self.send(requests.delete_webhook(name))

    async def audit(self, *, limit: int = 100, before: int | None = None) -> AuditPageInfo:
        """Rows of the audit log, the newest first, and where the page after begins."""
        return await self.send(requests.audit(limit, before))

    async def verify_audit(self, *, holds: str | None = None) -> dict[str, Any]:
        """Walk the chain of hashes; `holds` is one that was noted earlier."""
        return await self.send(requests.verify_audit(holds))


class Administration(Sends):
    """The same of the blocking client."""

    def set_credential(self, name: str, value: Any, *, kind: str = "text") -> dict[str, Any]:
        """Store a credential; values go in and are never told."""
        return self.send(requests.set_credential(name, value, kind))

    def credentials(self) -> list[dict[str, Any]]:
        return self.send(requests.credentials())

    def delete_credential(self, name: str) -> None:
        self.send(requests.delete_credential(name))

    def pools(self) -> list[PoolInfo]:
        return self.send(requests.pools())

    def set_pool(self, name: str, **settings: Any) -> PoolInfo:
        return self.send(requests.set_pool(name, settings))

    def workers(self) -> list[WorkerInfo]:
        return self.send(requests.workers())

    def who_am_i(self) -> WhoAmI:
        return self.send(requests.who_am_i())

    def ready(self) -> dict[str, Any]:
        """Whether the server and what it stands on are well."""
        return self.send(requests.ready())

    def rotate_credentials(self) -> dict[str, Any]:
        """Put every credential under a new master key."""
        return self.send(requests.rotate_credentials())

    def tokens(self) -> list[dict[str, Any]]:
        """All tokens, revoked ones too, without their secrets."""
        return self.send(requests.tokens())

    def make_token(self, subject: str, role: str, **more: Any) -> dict[str, Any]:
        """Its text is under `token`, this once. `more` are human_roles, pools and expires_in_s."""
        return self.send(requests.make_token({"subject": subject, "role": role, **more}))

    def revoke_token(self, token_id: str) -> dict[str, Any]:
        return self.send(requests.revoke_token(token_id))

    def webhooks(self) -> list[dict[str, Any]]:
        return self.send(requests.webhooks())

    def make_webhook(self, name: str, **target: Any) -> dict[str, Any]:
        """Its key is under `secret`, this once. `target` is path (and version), or message (and correlation)."""
        return self.send(requests.make_webhook({"name": name, **target}))

    def delete_webhook(self, name: str) -> None:
        self.send(requests.delete_webhook(name))

    def audit(self, *, limit: int = 100, before: int | None = None) -> AuditPageInfo:
        """Rows of the audit log, the newest first, and where the page after begins."""
        return self.send(requests.audit(limit, before))

    def verify_audit(self, *, holds: str | None = None) -> dict[str, Any]:
        """Walk the chain of hashes; `holds` is one that was noted earlier."""
        return self.send(requests.verify_audit(holds))
