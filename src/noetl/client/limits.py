"""Limits changed while executions run, for both clients: of playbooks, and of the steps of one execution."""

from __future__ import annotations

from typing import Any

from noetl.client import requests
from noetl.client.models import PlaybookLimitInfo, StepLimit
from noetl.client.sender import Sends, SendsLater


class AsyncLimits(SendsLater):
    """The part of the asynchronous client that changes limits."""

    async def playbook_limits(self, path: str | None = None) -> list[PlaybookLimitInfo]:
        """Those that were set, and those that somebody runs under, of all playbooks or of one."""
        return await self.send(requests.playbook_limits(path))

    async def limit_playbook(self, path: str, limit: int, *, reason: str | None = None) -> bool:
        """So many executions at once from now on, whatever the playbook says; False when it was so already."""
        return await self.send(requests.limit_playbook(path, limit, reason))

    async def reset_playbook_limit(self, path: str) -> bool:
        """As the playbook says again; False when it was so already."""
        return await self.send(requests.reset_playbook_limit(path))

    async def step_limits(self, execution_id: str) -> list[StepLimit]:
        """Of the steps that have a limit or a rate, with how many run and wait under it."""
        return await self.send(requests.step_limits(execution_id))

    async def limit_step(self, execution_id: str, step: str, **settings: Any) -> bool:
        """Change `limit`, or `rate` ({limit, per}, `per` in seconds), of a step in one execution; None: as the playbook
        says, and what is left out stays as it is. False when it was so already."""
        return await self.send(requests.limit_step(execution_id, step, settings))

    async def reset_step_limit(self, execution_id: str, step: str) -> bool:
        """Both as the playbook says again; False when they were so already."""
        return await self.send(requests.reset_step_limit(execution_id, step))


class LimitCalls(Sends):
    """The same of the blocking client."""

    def playbook_limits(self, path: str | None = None) -> list[PlaybookLimitInfo]:
        """Those that were set, and those that somebody runs under, of all playbooks or of one."""
        return self.send(requests.playbook_limits(path))

    def limit_playbook(self, path: str, limit: int, *, reason: str | None = None) -> bool:
        """So many executions at once from now on, whatever the playbook says; False when it was so already."""
        return self.send(requests.limit_playbook(path, limit, reason))

    def reset_playbook_limit(self, path: str) -> bool:
        """As the playbook says again; False when it was so already."""
        return self.send(requests.reset_playbook_limit(path))

    def step_limits(self, execution_id: str) -> list[StepLimit]:
        """Of the steps that have a limit or a rate, with how many run and wait under it."""
        return self.send(requests.step_limits(execution_id))

    def limit_step(self, execution_id: str, step: str, **settings: Any) -> bool:
        """Change `limit`, or `rate` ({limit, per}, `per` in seconds), of a step in one execution; None: as the playbook
        says, and what is left out stays as it is. False when it was so already."""
        return self.send(requests.limit_step(execution_id, step, settings))

    def reset_step_limit(self, execution_id: str, step: str) -> bool:
        """Both as the playbook says again; False when they were so already."""
        return self.send(requests.reset_step_limit(execution_id, step))
