"""Other systems that call a webhook: each knows its address and its key."""

from __future__ import annotations

from typing import Any

import httpx2

from noetl.base.diagnostics import Source
from noetl.events.executions import ExecutionRequested
from noetl.language.checking import check
from noetl.net.net import content_hash, to_json
from noetl.operations.administration_shapes import WebhookTarget
from noetl.server.access.webhook_deliveries import signature_of
from noetl.store.installation import Registration
from noetl.tools.kinds import KINDS
from tests.narrowing import payloads
from tests.server.access.ground import Ground

PLAYBOOK = """
apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: hooked, path: demo/hooked }
workflow:
  - step: start
    tool:
      - name: done
        kind: noop
"""
BODY = b'{"order": {"id": 7}}'


class Sender:
    """Another system, which knows the address and the key of one webhook."""

    def __init__(self, ground: Ground, client: httpx2.AsyncClient, hook_id: str, key: str) -> None:
        self.ground, self.client, self.hook_id, self.key = ground, client, hook_id, key

    def headers(
        self, body: bytes = BODY, *, age_s: float = 0.0, key: str | None = None, delivery: str | None = None
    ) -> dict[str, str]:
        timestamp = str(int(self.ground.clock.now() - age_s))
        signed = signature_of(key or self.key, timestamp, body)
        headers = {"content-type": "application/json", "noetl-timestamp": timestamp, "noetl-signature": f"v1={signed}"}
        return headers if delivery is None else {**headers, "noetl-delivery": delivery}

    async def send(self, body: bytes = BODY, headers: dict[str, str] | None = None, **more: Any) -> httpx2.Response:
        return await self.client.post(
            f"/hooks/{self.hook_id}", content=body, headers=self.headers(body, **more) if headers is None else headers
        )

    async def started(self) -> list[dict[str, Any]]:
        """The payloads of the executions there are, the oldest first."""
        rows = await self.ground.store.executions()
        events = [(await self.ground.store.events(row.execution_id))[0] for row in rows]
        return [one.payload for one in payloads(reversed(events), ExecutionRequested)]


async def register(ground: Ground) -> None:
    net = check(Source("hooked.yaml", PLAYBOOK), kinds=KINDS).net
    assert net is not None
    made = Registration(path=net.path, net_hash=content_hash(net), net=to_json(net), at=0.0)
    await ground.store.catalog.register(made)


async def sender_on(ground: Ground, target: WebhookTarget | None = None) -> Sender:
    await register(ground)
    key, hook = await ground.access.webhooks.create("orders", target or WebhookTarget(path="demo/hooked"), by="ann")
    return Sender(ground, ground.client(), hook.hook_id, key)
