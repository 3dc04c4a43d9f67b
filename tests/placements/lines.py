"""Lines to a running execution: straight to the driver of an embedded run, or through a server's API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noetl.client.administration_requests import make_token
from noetl.client.async_client import AsyncClient
from noetl.events.envelope import Event
from noetl.operations.embedded import Driver


class Straight:
    """To an embedded run."""

    def __init__(self, driver: Driver, events: Sequence[Event]) -> None:
        self._driver, self._events, self.execution_id = driver, events, ""

    async def seen(self) -> Sequence[Event]:
        return self._events

    async def message(self, name: str, correlation: Mapping[str, Any], payload: Any = None) -> None:
        await self._driver.deliveries.send_message(name, dict(correlation), payload)

    async def signal(self, name: str) -> None:
        await self._driver.deliveries.send_signal(name, execution_id=self.execution_id)

    async def inject(self, name: str, data: Any = None) -> None:
        await self._driver.deliveries.inject(self.execution_id, name, data)

    async def complete_task(self, values: Mapping[str, Any], role: str) -> None:
        [task] = [one for one in await self._driver.inbox.list() if one.execution_id == self.execution_id]
        await self._driver.inbox.complete(task.task_id, dict(values), actor="ann", roles=(role,))

    async def cancel_timer(self, step: str) -> None:
        await self._driver.deliveries.cancel_timer(self.execution_id, step, actor="ann")


class Called:
    """Through the API of a server."""

    def __init__(self, client: AsyncClient) -> None:
        self._client, self.execution_id = client, ""

    async def seen(self) -> Sequence[Event]:
        return [event async for event in self._client.events(self.execution_id)]

    async def message(self, name: str, correlation: Mapping[str, Any], payload: Any = None) -> None:
        await self._client.send_message(name, correlation, payload)

    async def signal(self, name: str) -> None:
        await self._client.send_signal(name, execution_id=self.execution_id)

    async def inject(self, name: str, data: Any = None) -> None:
        await self._client.inject(self.execution_id, name, data)

    async def complete_task(self, values: Mapping[str, Any], role: str) -> None:
        wanted = {"subject": "ann", "role": "operator", "human_roles": [role]}
        made = await self._client.send(make_token(wanted))
        async with AsyncClient(self._client.url, made.token) as ann:
            [task] = [one for one in await ann.tasks() if one.execution_id == self.execution_id]
            await ann.complete_task(task.task_id, values)

    async def cancel_timer(self, step: str) -> None:
        url = f"/api/executions/{self.execution_id}/timers"
        [timer] = [one for one in (await self._client._http.get(url)).json()["timers"] if one["step"] == step]
        answer = await self._client._http.post(f"/api/timers/{timer['id']}/cancel")
        assert answer.status_code == 200, answer.text
