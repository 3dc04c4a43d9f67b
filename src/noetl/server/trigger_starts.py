"""Starts of triggers: finds the playbook that is meant and begins an execution of it, within the server's quotas."""

from __future__ import annotations

from typing import Any

from noetl.base.errors import BackendError, RefusedError
from noetl.control.triggers.source_reader import SourceReader
from noetl.control.triggers.triggers import Triggers
from noetl.events.triggers import SourceTrigger
from noetl.operations.catalog import registered_version
from noetl.server.problem_details import ProblemDetails
from noetl.server.services import Services, tools_of
from noetl.server.start_requests import begin, net_of
from noetl.worker.identity import own_worker_id

_LATER = (429, 503)  # statuses of a server that has enough to do


class ServerStarter:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def check(self, trigger: SourceTrigger) -> None:
        services = self._services
        try:
            row = await registered_version(services.store.catalog, trigger.path, trigger.version)
            await net_of(services, row)
        except ProblemDetails as problem:
            raise RefusedError(problem.detail) from None

    async def start(self, trigger: SourceTrigger, execution_id: str, payload: dict[str, Any]) -> None:
        services = self._services
        try:
            row = await registered_version(services.store.catalog, trigger.path, trigger.version)
            async with services.listeners.usage.starting(execution_id, f"trigger {trigger.name}"):
                await begin(services, row, execution_id, payload)
        except ProblemDetails as problem:
            if problem.status in _LATER:
                raise BackendError(problem.detail) from None
            raise RefusedError(problem.detail) from None


async def serve_triggers(services: Services) -> None:
    """Poll the triggers of the store for as long as the server runs. Their tools are apart from those of its worker,
    which ends them in its own time."""
    tools = tools_of(services.settings)
    reader = SourceReader(tools, services.secret_release.keychain)
    try:
        await Triggers(
            services.store, ServerStarter(services), reader, services.clock, server_id=own_worker_id()
        ).serve()
    finally:
        await reader.close()
