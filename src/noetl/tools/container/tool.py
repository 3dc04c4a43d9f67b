"""`container`: runs an image to its end, by Docker, Podman or Kubernetes, where the operator allows the kind.

The container is removed when it has ended, and stopped and removed when the task is cancelled. If the service cannot be
reached meanwhile, the container stays, and the next attempt finds it by its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from noetl.base.errors import ToolError
from noetl.tools.container.container_task import INPUT, ContainerOutput, ContainerTask, container_task, result_of
from noetl.tools.container.docker_engine import DockerEngine
from noetl.tools.container.kubernetes_jobs import KubernetesJobs
from noetl.tools.container.service_api import Service, ServiceApi, service_api, service_of
from noetl.tools.contract import Tool, ToolContext, ToolResult

_REMOVING_S = 60.0


class ContainerTool(Tool):
    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        service, task = service_of(inputs.get("auth"), context), container_task(inputs, context)
        if service.kubernetes and context.permissions.sandbox:
            raise ToolError(
                INPUT, "the operator of this worker allows sandboxes only, which a cluster does not promise"
            )
        output = ContainerOutput(task.max_bytes, context)
        async with service_api(service, context) as api:
            engine = _engine(service, api, context)
            try:
                ended = await engine.run(task, output)
            except ToolError as problem:
                # If the service cannot be reached, the container may still run: the next attempt continues with it.
                if engine.has_begun and problem.details.get("code") != "connection":
                    await _remove_container(engine, task)
                raise
            except asyncio.CancelledError:
                if engine.has_begun:
                    await _remove_container(engine, task)
                raise
            await _remove_container(engine, task)
        return result_of(ended, output, task, context)

    async def check(self, inputs: Mapping[str, Any], context: ToolContext) -> str:
        """Whether the service takes the credential. Nothing is run."""
        service = service_of(inputs.get("auth"), context)
        async with service_api(service, context) as api:
            return await _engine(service, api, context).check()

    def helpers(self) -> dict[str, dict[str, Any]]:
        return {"container": {"exit_code": None}}


def _engine(service: Service, api: ServiceApi, context: ToolContext) -> DockerEngine | KubernetesJobs:
    return KubernetesJobs(api, context) if service.kubernetes else DockerEngine(api)


async def _remove_container(engine: DockerEngine | KubernetesJobs, task: ContainerTask) -> None:
    """Remove the container. A failure does not change the outcome of the task, and a second cancellation does not stop
    the removal."""
    # A task of its own, so that a cancellation of the caller does not reach it.
    removing = asyncio.ensure_future(asyncio.wait_for(engine.remove(task.name), _REMOVING_S))
    was_cancelled = False
    while not removing.done():
        try:
            await asyncio.wait({removing})
        # The removal is finished before the cancellation is raised again: no container must be left behind.
        except asyncio.CancelledError:
            was_cancelled = True
    with suppress(ToolError, TimeoutError):
        removing.result()
    if was_cancelled:
        raise asyncio.CancelledError
