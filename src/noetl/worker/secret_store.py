"""Secrets of one order, in memory for as long as it runs (KEY-03, KEY-05, KEY-07).

They are fetched from the server when a task is about to read them. Each is added to the mask before any output is
sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from noetl.base.clock import Clock
from noetl.base.errors import ToolError
from noetl.base.redaction import Mask
from noetl.engine.pipeline.scopes import KeychainView, PipelineScope
from noetl.events.orders import Order, Position
from noetl.events.outcomes import TaskResult
from noetl.events.secret_materials import Ask, Material, secrets_in
from noetl.net.net import Net, Transition, tasks_of
from noetl.net.secret_reads import Reads, auths_in, credential_name
from noetl.net.task import Task
from noetl.worker.control_plane import ControlPlane

UNRESOLVED = "keychain.unresolved"
Credentials = Callable[[str], Mapping[str, Any]]
SECRETS = "secrets"
LookUp = Callable[[Task, Position], Awaitable[Any]]


class SecretStore:
    def __init__(
        self, order: Order, net: Net, control_plane: ControlPlane, mask: Mask, clock: Clock, worker_id: str
    ) -> None:
        self._order, self._control_plane, self._mask = order, control_plane, mask
        self._clock, self._worker_id = clock, worker_id
        self._declared = [entry.name for entry in net.keychain]
        # It ends with the order: no secret stays in memory longer than the work that needs it.
        self._held: dict[str, Material] = {}

    async def scope_with_secrets(self, reads: Reads, around: PipelineScope) -> PipelineScope:
        """The scope with the keychain entries that a task reads. Raises ToolError if an entry does not resolve."""
        names = self._declared if reads.everything else [name for name in self._declared if name in reads.names]
        materials = {name: await self._material(name) for name in names}
        return msgspec.structs.replace(around, keychain=KeychainView(materials))

    async def credentials(self, inputs: Mapping[str, Any]) -> Credentials:
        """Look up the credentials that the inputs name. The error of one that does not resolve is raised when it is
        read. A credential that is written out in the inputs is masked like one that was looked up."""
        found: dict[str, Material | ToolError] = {}
        for auth in auths_in(inputs):
            name = credential_name(auth)
            if isinstance(auth, dict) or name is None:
                fields = auth if isinstance(auth, dict) else {"auth": auth}
                self._mask.learn(secrets_in(Material(fields={k: v for k, v in fields.items() if k != "credential"})))
            if name is not None:
                found[name] = await self._credential(name)

        def resolve(name: str) -> Mapping[str, Any]:
            material = found.get(name) or _not_named(name)
            if isinstance(material, ToolError):
                raise material
            return material.fields

        return resolve

    async def _credential(self, name: str) -> Material | ToolError:
        try:
            return await self._material(name)
        except ToolError as problem:
            return problem

    async def look_up(self, name: str, kind: str, lookup: dict[str, Any]) -> Material:
        return await self._requested_material(name, kind=kind, lookup=lookup)

    async def renew(self, name: str) -> None:
        self._held[name] = await self._requested_material(name, renew=True)

    async def _material(self, name: str) -> Material:
        held = self._held.get(name)
        # A token is fetched again shortly before it expires, so that a task does not fail in the middle.
        if held is None or held.due(self._clock.now()):
            held = self._held[name] = await self._requested_material(name)
        return held

    async def _requested_material(self, name: str, **more: Any) -> Material:
        ask = Ask(
            execution_id=self._order.execution_id,
            order_id=self._order.order_id,
            lease_epoch=self._order.lease_epoch,
            worker_id=self._worker_id,
            name=name,
            **more,
        )
        material = await self._control_plane.secret(ask)
        # Before the task can read it: its output is masked from the first byte on.
        self._mask.learn(secrets_in(material))
        return material


def no_credentials(name: str) -> Mapping[str, Any]:
    """The resolver of a task whose inputs name no credential."""
    raise _not_named(name)


def _not_named(name: str) -> ToolError:
    return ToolError(UNRESOLVED, f'the credential "{name}" is not named by this task')


# Results of `secrets` tasks when an interrupted pipeline continues (TOOL-09, WRK-04).
#
# The log holds `***` instead of the secret, and the next task would send that. So the secrets are looked up again
# without a record: the log already says that the tasks ran, and they change nothing.


async def position_with_secrets(step: Transition, position: Position, look_up: LookUp) -> Position:
    """The position with the real results of its `secrets` tasks. Raises ToolError if a secret no longer exists."""
    if not position.results:
        return position  # no task has run yet
    for task in tasks_of(step):
        old = position.results.get(task.name) if task.kind == SECRETS else None
        if old is None or old.error is not None or not _holds_secret(old):
            continue
        new = msgspec.structs.replace(old, result=await look_up(task, position))
        position = msgspec.structs.replace(
            position,
            results={**position.results, task.name: new},
            prev=new if position.prev == old else position.prev,
        )
    return position


def looked_up_names(step: Transition, position: Position) -> set[str]:
    """The names under which a task reads the results of `secrets` tasks of its pipeline."""
    names = {task.name for task in tasks_of(step) if task.kind == SECRETS and task.name in position.results}
    if any(position.results[name] is position.prev for name in names):
        names.add("_prev")
    if position.case is not None and position.case.result_of in names:
        names |= {"result", "response", "this", "page", step.name}
    return names


def _holds_secret(result: TaskResult) -> bool:
    """Whether it holds the fields of a secret; the result of a refresh only names its entry."""
    return isinstance(result.result, dict) and "refreshed" not in result.result
